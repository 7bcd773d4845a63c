"""The pages are executed: what they show is what happens, and the commands they name exist."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.services.stripe import LocalStripe
from interlock import Interlock
from interlock.testing import SimulatedCrash
from tests.docs import openai_service, payments_server
from tests.docs.page import Block, blocks, run_page
from tests.docs.shop import Shop
from tests.docs.stripe_account import StripeAccount

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("docs", "integrations", "benchmarks/services")
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [*ROOT.glob("*.md"), *(page for room in ROOMS for page in (ROOT / room).rglob("*.md"))]
    if any(block.language.startswith("py") for block in blocks(path.name, path.read_text("utf-8")))
)


def _first_example(page: str) -> Block | None:
    """A wrapper's first example, if it has the dict that stands for the payment service; DBOS starts again in a way of its own."""
    shown = [block for block in blocks(page, (ROOT / page).read_text("utf-8")) if block.language == "python"]
    if not page.startswith("integrations") or "dbos" in page:
        return None
    return next((block for block in shown if "refunds = {}" in block.source), None)


@pytest.fixture
def shop() -> Shop:
    """The world that the examples act on."""
    return Shop()


@pytest.fixture
def opened() -> list[Interlock]:
    """The gates that a page opened, the newest last."""
    return []


@pytest.fixture
def namespace(
    shop: Shop, opened: list[Interlock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """What a page starts with, in an empty directory; gates that the page opened are closed behind it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = {"__name__": "__page__", **shop.names()}
    monkeypatch.setitem(sys.modules, "stripe", names["stripe"])
    build = Interlock.__init__

    def build_and_remember(gate: Interlock, *args: Any, **kwargs: Any) -> None:
        opened.append(gate)
        build(gate, *args, **kwargs)

    monkeypatch.setattr(Interlock, "__init__", build_and_remember)
    yield names
    for gate in opened:
        gate.close()


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StripeAccount]:
    """The Stripe account that pages on the ready-made targets call."""
    with LocalStripe(tmp_path_factory.mktemp("stripe")) as service:
        yield StripeAccount(service)


@pytest.mark.parametrize("page", PAGES)
def test_page_runs_as_written(page: str, namespace: dict[str, Any], request: pytest.FixtureRequest) -> None:
    """Every Python block of the page runs, in order, and prints what it says."""
    text = (ROOT / page).read_text("utf-8")
    if "interlock.targets.stripe" in text:
        namespace |= request.getfixturevalue("account").names()
    bring_along(page, namespace)
    assert run_page(page, text, namespace) > 0


def bring_along(page: str, namespace: dict[str, Any]) -> None:
    """What the reader of a wrapper's page has already: OpenAI's client; an MCP server, and the page's configuration in a file."""
    if page == "integrations/openai/README.md":
        namespace["client"] = openai_service.played_client()
    if page == "integrations/mcp/README.md":
        shutil.copy(payments_server.__file__, "payments_server.py")
        text = (ROOT / page).read_text("utf-8")
        (configuration,) = [block.source for block in blocks(page, text) if block.language == "json"]
        Path("interlock.mcp.json").write_text(configuration)


SERVICE = re.compile(r"^(refunds = \{\}|print\().*$", re.MULTILINE)
"""The lines of a first example that a restarted process does not run again: what the service holds outlives it."""
FIRST_EXAMPLES = {page: block for page in PAGES if (block := _first_example(page)) is not None}


@pytest.mark.parametrize("page", FIRST_EXAMPLES)
def test_first_example_survives_a_kill(page: str, namespace: dict[str, Any], opened: list[Interlock]) -> None:
    """A process that dies right after the send leaves nothing to a person: the example's own configuration finds the effect again."""
    first = FIRST_EXAMPLES[page]
    bring_along(page, namespace)
    with asyncio.Runner() as runner:
        first.run(namespace, runner)
        gate = opened[-1]
        (effect,) = gate.effects.values()
        given: Any = {"arguments": {"order_id": "7", "amount": 20}}
        given = given if "arguments" in inspect.signature(effect.function).parameters else {"order_id": "7"}
        proposal = runner.run(effect.aproposal(**given))
        with pytest.raises(SimulatedCrash):
            runner.run(gate.asubmit(proposal, crash_after_effect=True))
        held = dict(namespace["refunds"])
        dataclasses.replace(first, source=SERVICE.sub("", first.source)).run(namespace, runner)
        assert opened[-1] is not gate
        assert str(runner.run(opened[-1].asubmit(proposal))) == "DUPLICATE_IGNORED"
    assert namespace["refunds"] == held
    assert len(held) > 0


def test_readme_has_an_example() -> None:
    """The README shows Python, so that the test above is about something."""
    assert "README.md" in PAGES


def test_commands_on_the_pages_exist() -> None:
    """Every `make` target that a page's shell block or inline code names is in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named: set[str] = set()
    for path in ROOT.glob("*.md"):
        named |= set(
            re.findall(r"(?:^|`|\s)make ([a-z-]+)(?=$|[\s`])", _code_of(path.read_text("utf-8")), re.MULTILINE)
        )
    assert {"demo", "test"} <= named
    assert named <= targets


@pytest.mark.parametrize("page", sorted(path.parent.name for path in (ROOT / "integrations").glob("*/README.md")))
def test_a_wrapper_is_installed_from_a_checkout_with_its_extra(page: str) -> None:
    """Each wrapper's page begins with one line that installs its extra, from a path and not from an index that does not have it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    extra = page.replace("_", "-")
    assert extra in extras
    first = next(blocks(page, (ROOT / "integrations" / page / "README.md").read_text("utf-8")))
    assert first.source == f'pip install "CHECKOUT[{extra}]"  # the path of a checkout\n'


def _code_of(text: str) -> str:
    fenced = [block.source for block in blocks("", text) if not block.language.startswith("py")]
    return "\n".join([*fenced, *re.findall(r"`[^`\n]+`", text)])


PAGE = """# A page

```python
x = 1
```
Text, and a list:

- an item
  ```python
  x += 1
  print(x)  # {printed}
  ```

```sh
make nothing
```
"""


def test_blocks_share_a_namespace(namespace: dict[str, Any]) -> None:
    """A later block sees what an earlier one defined, also where it stands in a list; other languages do not run."""
    assert run_page("page.md", PAGE.format(printed="2"), namespace) == 2
    assert namespace["x"] == 2


def test_wrong_output_is_found(namespace: dict[str, Any]) -> None:
    """A comment that says something else than what is printed fails the page."""
    with pytest.raises(AssertionError, match=r"page\.md:10"):
        run_page("page.md", PAGE.format(printed="3"), namespace)


def test_error_names_the_line_of_the_page(namespace: dict[str, Any]) -> None:
    """An error in a block points to the line of the page that it stands on."""
    with pytest.raises(NameError) as caught:
        run_page("page.md", "one\n\n```python\n\nundefined\n```\n", namespace)
    assert caught.traceback[-1].lineno + 1 == 5
    assert str(caught.traceback[-1].path) == "page.md"


def test_await_at_the_top_level_runs(namespace: dict[str, Any]) -> None:
    """A page may await, and its blocks share one event loop."""
    page = "```python\nimport asyncio\nq = asyncio.Queue()\nawait q.put(1)\n```\n```python\nprint(await q.get())  # 1\n```\n"
    assert run_page("page.md", page, namespace) == 2


def test_shop_dedupes_on_the_key(shop: Shop) -> None:
    """The stand-in behaves as the service does: one refund for each key, found again by it, left out when excluded."""
    first = shop.create(charge="ch_881", amount=2000, idempotency_key="k")
    assert shop.create(charge="ch_881", amount=2000, idempotency_key="k").id == first.id == shop.refund_exists("k").id
    assert (shop.refunded_total("881"), shop.refunded_total("881", excluding="k")) == (2000, 0)
    assert shop.refund_exists("other") is None
