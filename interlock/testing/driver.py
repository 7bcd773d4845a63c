"""The small interface by which `IntegrationContract` drives one framework, and the child process in which it may be killed.

A driver makes an agent of its framework, with a scripted model and the wrapper under test, and says what the model was told. It holds no
expectation of its own: those are the contract's (`integration.py`). Run as a module, this is the child that a kill point ends.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import importlib.util
import inspect
import json
import os
import select
import signal
import subprocess
import sys
import traceback
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
    "defaults": (),
    "types": (),
}
"""What a framework may not have, and the methods of a driver that go with it.

`parallel`: several tool calls in one answer of the model. `edit`: a reviewer changes the arguments. `seen`: what the approver saw is kept
with the framework's saved state. `cancel`: a run can be cancelled.
`call_id`: the framework tells a tool the id of its call. `defaults`: it knows what an argument is that a call leaves out (here `note`).
`types`: arguments of the wrong type do not reach a tool.
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
        TimeoutError: it was not killed in time; it is now.
    """
    order = {
        "driver": driver.__qualname__,
        "directory": str(place.directory),
        "config": place.config,
        "is_async": place.is_async,
        "verb": verb,
        "calls": [asdict(call) for call in calls],
        "thread": thread,
    }
    status, said = _parent_of(inspect.getfile(driver)).run(order, place.state / "child.log", within_s)
    assert os.WIFSIGNALED(status), (
        f"the child was to be killed, and ended with {os.WEXITSTATUS(status)}:\n{said[-6000:]}"
    )
    assert os.WTERMSIG(status) == signal.SIGKILL, (
        f"the child was to be killed, and ended by {os.WTERMSIG(status)}:\n{said[-6000:]}"
    )


class _Parent:
    """A process that has a driver's framework loaded, and forks the children that are to be killed: an import takes seconds."""

    def __init__(self, file: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "interlock.testing.driver", file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        self._read(120.0)  # that it is ready

    def run(self, order: Mapping[str, Any], log: Path, within_s: float) -> tuple[int, str]:
        """Fork a child for an order; how it ended, and what it wrote."""
        whole = {"order": order, "log": str(log), "environment": dict(os.environ), "directory": os.getcwd()}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(whole).encode() + b"\n")
        self.process.stdin.flush()
        child = self._read(within_s)
        try:
            status = self._read(within_s)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            self._read(10.0)
            raise
        return status, log.read_text("utf-8", "replace")

    def _read(self, within_s: float) -> int:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], within_s)[0]:
            raise TimeoutError(f"the child has not ended within {within_s:g} s")
        line = self.process.stdout.readline()
        assert line, f"the process that forks children ended with {self.process.wait(10)}"
        return int(line)

    def close(self) -> None:
        """It ends with its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)


@functools.cache
def _parent_of(file: str) -> _Parent:
    parent = _Parent(file)
    atexit.register(parent.close)
    return parent


def _fork_for_each_order(file: str) -> None:
    module = _load(Path(file))
    print(0, flush=True)
    for line in sys.stdin.buffer:
        whole = json.loads(line)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _become_a_child(whole)
                _obey(module, whole["order"])
                code = 0
            except BaseException:  # noqa: BLE001 - told to whoever reads the log, and in the exit code
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


def _become_a_child(whole: Mapping[str, Any]) -> None:
    """The child's own output, environment and directory."""
    log = os.open(whole["log"], os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, file in enumerate((nothing, log, log)):
        os.dup2(file, number)
    os.environ.clear()
    os.environ.update(whole["environment"])
    os.chdir(whole["directory"])


def _load(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def _obey(module: Any, order: Mapping[str, Any]) -> None:
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
    _fork_for_each_order(sys.argv[1])
