"""A worker in a process of its own, told what to do by lines on its standard input; answers one line of JSON each.

Run as `python worker.py DIRECTORY`. Used by the tests of what only a real process can show.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from interlock.effects import Draft, History, Kind  # noqa: E402
from interlock.journal import SQLiteJournal  # noqa: E402

AT = "2026-03-01T12:00:00+00:00"
CHAIN = ("PROPOSED", "AUTHORIZED", "DISPATCHED")


def drafts(*kinds: str) -> list[Draft]:
    """Return an entry of each kind."""
    return [Draft(Kind(kind), AT, {"effect": "pay"}) for kind in kinds]


def write(journal: SQLiteJournal, effect_id: str, *kinds: str) -> History:
    """Append to what is known of an effect; it must be accepted."""
    after = journal.append(journal.load(effect_id), drafts(*(kinds or CHAIN)))
    assert after is not None
    return after


class Remote:
    """The test's side of a worker process.

    Args:
        directory: of the journal.
        prefix: a command that starts the process, such as `unshare`.
    """

    def __init__(self, directory: Path, *, prefix: Sequence[str] = ()) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-u", __file__, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        started = self._answer()
        self.worker: str = started["worker"]
        self.pid: int = started["pid"]

    def ask(self, command: str, *words: str) -> Any:
        """Have the worker do something; what it gave."""
        self.tell(command, *words)
        return self._answer()

    def tell(self, command: str, *words: str) -> None:
        """Have the worker do something, without waiting for it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([command, *words]) + "\n")
        self.process.stdin.flush()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], 30)
        assert ready, "the worker did not answer"
        line = self.process.stdout.readline()
        assert line, f"the worker ended with {self.process.wait(10)}"
        return json.loads(line)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process that was started."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self.process.kill()
        self.process.wait(10)

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def _fork(journal: SQLiteJournal, seconds: float) -> int:
    """Fork a child that appends, and lives for some time; its pid, once it has appended."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            write(journal, f"child-{os.getpid()}")
            os.write(writing, journal.worker.encode())
            threading.Event().wait(seconds)
        finally:
            os._exit(0)
    os.close(writing)
    assert os.read(reading, 100)
    os.close(reading)
    return pid


def _serve(directory: str) -> None:
    journal = SQLiteJournal(directory)
    print(json.dumps({"worker": journal.worker, "pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        command, *words = json.loads(line)
        answer: Any = None
        try:
            match command:
                case "write":
                    write(journal, *words)
                case "send":
                    journal.begin_send(words[0], 2)
                    write(journal, words[0])
                case "end":
                    journal.end_send(words[0], 2, answered=False, in_flight=words[1] == "in_flight")
                case "close":
                    journal.close()
                case "fork":
                    answer = _fork(journal, float(words[0]))
                case "wait":
                    answer = os.waitpid(int(words[0]), 0)[1]
                case "verify":
                    answer = list(journal.verify().problems)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])


def is_commit(journal: SQLiteJournal, statement: str) -> bool:
    """Whether this statement of the writer makes something durable: a COMMIT, or entries put in outside of a transaction."""
    is_alone = journal._writer is not None and not journal._writer.in_transaction
    return statement == "COMMIT" or (statement.startswith("INSERT INTO entries") and is_alone)
