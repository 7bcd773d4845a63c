"""The configuration: what is taken, what is refused at the door and how that is told, and the published schema."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from interlock import ConfigurationError
from interlock.config import json_schema, load
from interlock.tools import protect

REFUND: dict[str, Any] = {
    "tools": {
        "create_refund": {
            "key": ["order_id"],
            "premises": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["refunded_total"]},
            "lookup": {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "found"},
            "idempotency_argument": "reference",
            "dedupes": False,
        }
    }
}
TOML = """
journal = "here"

[tools.create_refund]
key = ["order_id"]
idempotency_argument = "reference"
dedupes = true
window = "24h"

[tools.create_refund.premises]
tool = "get_order"
arguments = { order_id = "order_id" }
fields = { total = "refund.total" }

[tools.create_refund.expect]
total = { at_most = 100 }
"""


def changed(*path: str, **options: Any) -> dict[str, Any]:
    """The refund's configuration with some options set at a place below the tool."""
    config = copy.deepcopy(REFUND)
    place: Any = config["tools"]["create_refund"]
    for step in path:
        place = place[step]
    place.update(options)
    return config


def test_dict_json_and_toml_are_the_same(tmp_path: Path) -> None:
    """One configuration means the same as a dict, as JSON and as TOML, and times may be written with units."""
    toml = tmp_path / "gate.toml"
    toml.write_text(TOML)
    loaded = load(toml)
    written = tmp_path / "gate.json"
    written.write_text(loaded.model_dump_json(exclude_unset=True))
    assert load(written) == loaded == load(str(toml)) == load(loaded)
    tool = loaded.tools["create_refund"]
    assert tool.window == 86400
    assert tool.premises[0].fields == {"total": "refund.total"}
    assert loaded.journal == "here"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"tool": {}, **REFUND}, "tool is no option; did you mean 'tools'?"),
        (changed(premise={}), "tools.create_refund.premise is no option; did you mean 'premises'?"),
        (changed("premises", field=1), "premises.0.field is no option; did you mean 'fields'?"),
        (changed("lookup", finds="x"), "lookup.finds is no option; did you mean 'found'?"),
        (
            changed(expect={"refunded_total": {"at_lest": 5}}),
            "expect.refunded_total.at_lest is no option; did you mean 'at_least'?",
        ),
        (changed(expect={"premises": {"equls": 5}}), "expect.premises.equls is no option; did you mean 'equals'?"),
        (changed(expect={"refunded_total": {"at_least": 5, "at_most": 7}}), "give one condition"),
        (changed(expect={"x": {"tolerates": {"why": "grows"}}}), "says no change that is harmless"),
        (changed(allowed={"tool": "get_order", "fields": "ok"}), "allowed.fields is no option; did you mean 'field'?"),
        (
            changed(budget={"key": "refunds", "limit": 5, "ammount": 1}),
            "budget.0.ammount is no option; did you mean 'amount'?",
        ),
        (changed("premises", arguments={"a": "$effectid"}), "the one name with a $ is $effect_id"),
        (
            changed("premises", arguments={"a": {"literl": 1}}),
            "arguments.a.literl is no option; did you mean 'literal'?",
        ),
        (changed("premises", fields=["refund..total"]), "'refund..total' is no path"),
        (changed("premises", fields=[]), "fields: it is empty; name at least one"),
        (changed(key=[]), "key: it is empty; name at least one"),
        (changed(window="a week"), "is no time"),
        (changed(dedupes="yes"), "dedupes: give true or false, not 'yes'"),
        (changed(dedupes=1), "dedupes: give true or false, not 1"),
        (changed(idempotency_argument=5), "idempotency_argument: give a text, not 5"),
        (changed(lookup="find_refund"), "lookup: give an object, not 'find_refund'"),
        (changed(timeout=[3]), "timeout: give a number, not [3]"),
        (changed(binds=5), "binds: give a list, not 5"),
        ({}, "tools is missing"),
        ([], "it holds list"),
    ],
)
def test_mistakes_are_refused_with_their_place(config: Any, expected: str, tmp_path: Path) -> None:
    """A mistake in the configuration is refused at the door, with its place and what was probably meant, also from a file."""
    file = tmp_path / "gate.json"
    file.write_text(json.dumps(config))
    with pytest.raises(ConfigurationError) as raised:
        load(file)
    assert expected in str(raised.value)
    assert str(file) in str(raised.value)


def test_file_that_cannot_be_read_is_told_with_its_place(tmp_path: Path) -> None:
    """A missing, unreadable, malformed or doubly said file is refused, and the place of the mistake is told."""
    file = tmp_path / "gate.json"
    with pytest.raises(ConfigurationError, match="no such file"):
        load(file)
    file.write_text('{"tools": {\n  "a" 1}}')
    with pytest.raises(ConfigurationError, match=r"gate\.json:2:7: malformed JSON"):
        load(file)
    file.write_text('{"tools": {"a": {"key": ["x"]}, "a": {"key": ["y"]}}}')
    with pytest.raises(ConfigurationError, match="'a' stands twice"):
        load(file)
    file.write_bytes(b"\xff{}")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        load(file)
    toml = tmp_path / "gate.toml"
    toml.write_text("tools = [\n}")
    with pytest.raises(ConfigurationError, match=r"malformed TOML.*line 2"):
        load(toml)
    with pytest.raises(ConfigurationError, match=r"\.json or \.toml"):
        load(tmp_path / "gate.yaml")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load(_directory(tmp_path / "folder.json"))
    if os.geteuid() != 0:
        file.chmod(0)
        with pytest.raises(ConfigurationError, match="cannot be read"):
            load(file)


def test_published_schema_is_the_schema(root: Path) -> None:
    """`docs/config.schema.json` is what the model says; `python -m interlock.config` writes it anew."""
    published = (root / "docs" / "config.schema.json").read_text("utf-8")
    assert published == json.dumps(json_schema(), indent=2) + "\n"


def _directory(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_single_argument_is_a_key_as_it_stands() -> None:
    """`"key": "order_id"` is the list of that one argument; it is no pattern, which the door of every wrapper then refuses."""
    tools: dict[str, Any] = {
        "create_refund": lambda order_id, reference: None,
        "get_order": lambda order_id: None,
        "find_refund": lambda reference: None,
    }
    assert load(changed(key="order_id")) == load(changed(key=["order_id"]))
    with pytest.raises(
        ConfigurationError, match=r"key names 'refund:\{order_id\}', which 'create_refund' does not take"
    ):
        protect(tools, changed(key="refund:{order_id}"))
