"""Two stand-ins for Stripe that others wrote, each as a process of its own on loopback.

    stateful-mock  npm stripe-stateful-mock 0.0.16 (MIT): idempotency keys and refund limits, over charges; no PaymentIntents
    localstripe    PyPI localstripe 1.15.10 (GPL-3.0-or-later): PaymentIntent shapes; no idempotency keys

`make doubles` installs them into `.doubles/`, which git ignores. They are a second opinion, never a dependency: nothing of
them is imported. `STRIPE_DOUBLES` says what a test run does about them: `auto` (default) runs those that are installed,
`required` (what `make contract` sets) fails if one is not, `none` leaves them out.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / ".doubles"
VARIABLE = "STRIPE_DOUBLES"
NAMES = ("stateful-mock", "localstripe")

_LOOPBACK = Path(__file__).resolve().parent / "loopback"
_STATEFUL = FOLDER / "node_modules/stripe-stateful-mock/dist/cli.js"
_LOCALSTRIPE = FOLDER / "python/bin/localstripe"
_START_S = 20.0


class NotInstalled(RuntimeError):
    """A double is required and not there; the message says what to do."""


def chosen() -> tuple[str, ...]:
    """The doubles that this run asks.

    Raises:
        NotInstalled: All are required and one is missing.
        ValueError: The variable says something else.
    """
    word = os.environ.get(VARIABLE, "auto")
    if word not in ("auto", "required", "none"):
        raise ValueError(f"{VARIABLE} is one of auto, required, none, not {word!r}")
    if word == "none":
        return ()
    installed = tuple(name for name in NAMES if _is_installed(name))
    missing = sorted(set(NAMES) - set(installed))
    if word == "required" and missing:
        raise NotInstalled(f"not installed: {', '.join(missing)}; run `make doubles` (it needs npm), then again")
    return installed


def _is_installed(name: str) -> bool:
    if name == "stateful-mock":
        return _STATEFUL.exists() and shutil.which("node") is not None
    return _LOCALSTRIPE.exists()


class Double:
    """A running double; `kill()` ends its process and no other."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        environment = {"PATH": os.environ["PATH"], "HOME": str(directory)}
        if name == "stateful-mock":
            command = ["node", "--require", str(_LOOPBACK / "loopback.js"), str(_STATEFUL)]
            environment |= {"PORT": str(port), "LOG_LEVEL": "silent"}
        else:
            command = [str(_LOCALSTRIPE), "--port", str(port), "--from-scratch"]
            environment |= {"PYTHONPATH": str(_LOOPBACK), "PYTHONDONTWRITEBYTECODE": "1"}
        self._log = directory / f"{name}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._wait(port)

    def kill(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        self.kill()
        raise RuntimeError(f"{self.name} did not start: {self._log.read_text(errors='replace')[-1000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
