"""What goes into a gated tool of the runner, and what comes out: arguments that do not fit name no request, and content stays as it is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from anthropic import beta_async_tool, beta_tool
from anthropic.lib.tools import ToolError

from interlock.integrations.anthropic import protect_beta_tools

CONFIG = {"tools": {"book_slot": {"key": ["slot"], "idempotency_argument": "reference"}}}
GOOD = {"slot": "9:00", "person": "ann"}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"slot": "9:00"}, "'person' is missing"),
        ({**GOOD, "bogus": 1}, "no argument 'bogus'"),
        ({"slot": "9:00", "person": 3}, "person: Input should be a valid string"),
    ],
    ids=["missing", "unknown", "of another type"],
)
def test_a_call_that_does_not_fit_can_be_corrected(
    tmp_path: Path, given: dict[str, Any], said: str, is_async: bool
) -> None:
    """The model is told what is wrong and that nothing was sent; the corrected call books, once."""
    booked: list[str] = []

    def book_slot(slot: str, person: str, reference: str) -> str:
        """Book a slot."""
        booked.append(person)
        return json.dumps({"slot": slot, "person": person})

    async def abook_slot(slot: str, person: str, reference: str) -> str:
        """Book a slot."""
        return book_slot(slot, person, reference)

    tool: Any = beta_async_tool(abook_slot, name="book_slot") if is_async else beta_tool(book_slot)
    protected = protect_beta_tools([tool], CONFIG, journal=str(tmp_path / "journal"))
    (gated,) = protected

    def call(arguments: dict[str, Any]) -> Any:
        return asyncio.run(gated.call(arguments)) if is_async else gated.call(arguments)

    with pytest.raises(ToolError) as told:
        call(given)
    assert said in str(told.value.content)
    assert "Nothing was sent" in str(told.value.content)
    assert booked == []
    call(GOOD)
    call(GOOD)
    assert booked == ["ann"]
    protected.gate.close()


TEXT = {"type": "text", "text": "booked"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}}


@pytest.mark.parametrize(
    ("content", "again"),
    [
        ('{"slot":  "9:00"}', '{"slot": "9:00"}'),
        ("booked", "booked"),
        ([TEXT, IMAGE], [TEXT, IMAGE]),
        ([TEXT], "booked"),
    ],
    ids=["JSON", "text", "blocks", "one block"],
)
@pytest.mark.parametrize("is_read_once", [False, True], ids=["list", "iterator"])
def test_content_is_handed_on_as_the_tool_gave_it(content: Any, again: Any, is_read_once: bool, tmp_path: Path) -> None:
    """The model gets the tool's own content in the call that ran it, and the same content, as it stands on the record, after that."""

    def book_slot(slot: str, person: str, reference: str) -> Any:
        """Book a slot."""
        return iter(content) if is_read_once and isinstance(content, list) else content

    protected = protect_beta_tools([beta_tool(book_slot)], CONFIG, journal=str(tmp_path / "journal"))
    (gated,) = protected
    assert gated.call(GOOD) == content
    assert gated.call(GOOD) == again
    protected.gate.close()
