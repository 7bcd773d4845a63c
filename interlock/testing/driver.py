"""The small interface by which `IntegrationContract` drives one framework, and the child process in which it may be killed.

A driver makes an agent of its framework, with a scripted model and the wrapper under test, and says what the model was told. It holds no
expectation of its own: those are the contract's (`integration.py`). Run as a module, this is the child that a kill point ends.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from interlock.testing.ledger import RefundService


@dataclass(frozen=True)
class ModelCall:
    """A tool call that the scripted model makes."""

    arguments: Mapping[str, Any]
    tool: str = "create_refund"
    id: str = "call_1"


@dataclass(frozen=True)
class Told:
    """What the model was told in answer to a call.

    Attributes:
        text: the text that it gets.
        is_error: whether that is in the framework's own error form; None where the framework has none.
    """

    text: str
    is_error: bool | None = False


def gating(**options: Any) -> dict[str, Any]:
    """The configuration of the contract's tools: `create_refund` is gated. An option None leaves that one out."""
    refund: dict[str, Any] = {
        "key": ["order_id"],
        "premises": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["refunded_total"]},
        "allowed": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "field": "refundable"},
        "lookup": {
            "tool": "find_refund",
            "arguments": {"reference": "$effect_id"},
            "found": "found",
            "result": "refund",
        },
        "idempotency_argument": "reference",
        "settle_after": 0.05,
    }
    return {"tools": {"create_refund": {name: how for name, how in {**refund, **options}.items() if how is not None}}}


@dataclass
class Place:
    """Where one test happens: a journal, a refund service, and what the framework saves, all of which survive a killed process.

    Attributes:
        directory: of this test.
        config: the configuration for the wrapper.
        is_async: whether the tools are async functions.
    """

    directory: Path
    config: dict[str, Any] = field(default_factory=gating)
    is_async: bool = False

    @property
    def journal(self) -> str:
        """The directory of the journal; a wrapper's `journal=`."""
        return str(self.directory / "journal")

    @property
    def state(self) -> Path:
        """A directory for what the framework saves: checkpoints, sessions, run states."""
        made = self.directory / "state"
        made.mkdir(exist_ok=True)
        return made

    @property
    def service(self) -> RefundService:
        """The refund service; its ledger is the truth."""
        return RefundService(self.directory / "service")

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The tools as plain functions, by name: make the framework's tools of them."""
        service = self.service

        def create_refund(order_id: str, amount: int, reference: str = "", note: str = "") -> dict[str, Any]:
            """Refund an order."""
            return service.create_refund(order_id, amount, reference, note)

        def get_order(order_id: str) -> dict[str, Any]:
            """Look at an order."""
            return service.get_order(order_id)

        def find_refund(reference: str) -> dict[str, Any]:
            """Find a refund by its reference."""
            return service.find_refund(reference)

        if not self.is_async:
            return {"create_refund": create_refund, "get_order": get_order, "find_refund": find_refund}

        async def acreate_refund(order_id: str, amount: int, reference: str = "", note: str = "") -> dict[str, Any]:
            """Refund an order."""
            return await service.acreate_refund(order_id, amount, reference, note)

        async def aget_order(order_id: str) -> dict[str, Any]:
            """Look at an order."""
            return service.get_order(order_id)

        async def afind_refund(reference: str) -> dict[str, Any]:
            """Find a refund by its reference."""
            return service.find_refund(reference)

        named: dict[str, Callable[..., Any]] = {
            "create_refund": acreate_refund,
            "get_order": aget_order,
            "find_refund": afind_refund,
        }
        for name, function in named.items():
            function.__name__ = function.__qualname__ = name
        return named


CAPABILITIES: Mapping[str, tuple[str, ...]] = {
    "sync": ("run",),
    "async": ("arun",),
    "parallel": (),
    "resume": ("resume",),
    "retry": ("run_with_retry",),
    "approval": ("pause", "approve", "decline"),
    "edit": (),
    "seen": (),
    "streaming": ("stream",),
    "cancel": (),
    "call_id": (),
}
"""What a framework may not have, and the methods of a driver that go with it.

`parallel`: several tool calls in one answer of the model. `edit`: a reviewer changes the arguments. `seen`: what the approver saw is kept
with the framework's saved state. `cancel`: a run can be cancelled.
`call_id`: the framework tells a tool the id of its call.
"""


class IntegrationDriver(ABC):
    """Drives one framework. One object is one process's agent on a `Place`; several may stand on the same one.

    Make the agent in each method: a scripted model that makes the given calls in one answer and, told their results, finishes.
    Everything that must survive a killed process is saved under `place.state`.

    Args:
        place: where the test happens.

    Attributes:
        not_applicable: what the framework does not have (names of `CAPABILITIES`), each with the reason. It is reported, never passed.
        evidence: the framework's ids that the wrapper records, by the names under which the journal has them.
    """

    not_applicable: ClassVar[Mapping[str, str]] = {}
    evidence: ClassVar[tuple[str, ...]] = ()

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def recover(self) -> Sequence[Any]:
        """The wrapper's own recovery: what it reports. With async tools it is called where no event loop runs."""

    @abstractmethod
    def run(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        """Run the agent once, by the framework's sync entry; an answer for each call, in their order.

        With `place.is_async`, or where the framework has only an async entry, this may run it on an event loop of its own.
        """

    async def arun(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        """As `run`, by the framework's async entry."""
        raise NotImplementedError("the driver has no arun(); write it, or say why in not_applicable['async']")

    def stream(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        """As `run`, by the framework's streaming entry, read to its end."""
        raise NotImplementedError("the driver has no stream(); write it, or say why in not_applicable['streaming']")

    def resume(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        """The framework's own resume of a run that a killed process left. `calls` is what the model would say if it were asked again."""
        raise NotImplementedError("the driver has no resume(); write it, or say why in not_applicable['resume']")

    def run_with_retry(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        """As `run`, with the framework's own retry of failed tools switched on."""
        raise NotImplementedError("the driver has no run_with_retry(); write it, or say why in not_applicable['retry']")

    def pause(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> None:
        """Run until the framework waits for a person's approval of the call, and save that."""
        raise NotImplementedError("the driver has no pause(); write it, or say why in not_applicable['approval']")

    def approve(
        self, calls: Sequence[ModelCall], *, thread: str = "thread-1", edited: Mapping[str, Any] | None = None
    ) -> list[Told]:
        """Load what `pause` saved, approve it, with other arguments if `edited` gives them, and run on.

        A framework that refuses a saved approval itself answers with no `Told`.
        """
        raise NotImplementedError("the driver has no approve(); write it, or say why in not_applicable['approval']")

    def decline(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        """Load what `pause` saved, decline it, and run on."""
        raise NotImplementedError("the driver has no decline(); write it, or say why in not_applicable['approval']")

    def close(self) -> None:  # noqa: B027 - a driver that opens nothing has nothing to close
        """Give up what is open. The journal's claim goes with it, as with the process."""


def run_and_die(
    driver: type[IntegrationDriver],
    place: Place,
    verb: str,
    calls: Sequence[ModelCall],
    *,
    thread: str = "thread-1",
    within_s: float = 60.0,
) -> None:
    """Run a verb of a driver in a process of its own, in which a fault of the refund service kills it.

    Raises:
        AssertionError: it was not killed.
    """
    order = {
        "file": inspect.getfile(driver),
        "driver": driver.__qualname__,
        "directory": str(place.directory),
        "config": place.config,
        "is_async": place.is_async,
        "verb": verb,
        "calls": [asdict(call) for call in calls],
        "thread": thread,
    }
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    ended = subprocess.run(
        [sys.executable, "-m", "interlock.testing.driver"],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        env=environment,
        timeout=within_s,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, (
        f"the child was to be killed, and ended with {ended.returncode}:\n{ended.stdout[-2000:]}\n{ended.stderr[-4000:]}"
    )


def _main() -> None:
    order = json.load(sys.stdin)
    file = Path(order["file"])
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    found: Any = module
    for part in order["driver"].split("."):
        found = getattr(found, part)
    place = Place(Path(order["directory"]), order["config"], order["is_async"])
    driver = found(place)
    driver.recover()
    calls = [ModelCall(**call) for call in order["calls"]]
    told = getattr(driver, order["verb"])(calls, thread=order["thread"])
    if inspect.isawaitable(told):

        async def wait() -> Any:
            return await told

        told = asyncio.run(wait())
    print("not killed; told:", told)


if __name__ == "__main__":
    _main()
