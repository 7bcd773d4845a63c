"""Starting the scripted model from Python: a child process on a port of its own, ended on leaving.

Must not import the model's own code or any SDK: it is used by harnesses and tests alike.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

START_TIMEOUT_S = 20.0
_ROOT = Path(__file__).resolve().parents[3]


class ModelError(RuntimeError):
    """The model did not start."""


class LocalModel:
    """The scripted model as a real process.

    **If the process dies** that started it, the model's input closes and it ends by itself.
    """

    def __init__(self, module: str = __package__, arguments: tuple[str, ...] = ()) -> None:
        self._command = [sys.executable, "-P", "-m", module, *arguments]
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            # A Ctrl-C at the terminal is for the parent; the model ends when the parent has.
            process_group=0,
        )
        try:
            self.url = str(json.loads(self._first_line(self._process))["url"])
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The child's process id."""
        if self._process is None:
            raise ModelError("the model is not running")
        return self._process.pid

    def close(self) -> None:
        """End it by its pid and reap it. Nothing happens if it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    @staticmethod
    def _first_line(process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        said, deadline = b"", time.monotonic() + START_TIMEOUT_S
        while not said.endswith(b"\n"):
            readable, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(process.stdout.fileno(), 4096) if readable else b""
            if not part:
                raise ModelError("the model ended" if readable else f"no model within {START_TIMEOUT_S} s")
            said += part
        return said
