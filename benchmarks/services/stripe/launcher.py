"""Starting, killing and steering the service from Python.

Owns the child process and the client side of the control API. `LocalStripe` starts a service; `LocalStripe.attach(url)`
steers one that somebody else started.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from benchmarks.services.stripe import ledger as books
from benchmarks.services.stripe.steering import PREFIX, Steering

if TYPE_CHECKING:
    import stripe

START_TIMEOUT_S = 20.0
CONTROL_TIMEOUT_S = 10.0
TEST_KEY = "sk_test_local"

_ROOT = Path(__file__).resolve().parents[3]


class ServiceError(RuntimeError):
    """The local service did not start, ended, or refused a control request; the message says what it said."""


class RemoteStripe(Steering):
    """A running service, steered over HTTP. The ledger is read by the service itself."""

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def url(self) -> str:
        """Where the service listens."""
        return self._url

    @property
    def pid(self) -> int:
        """The service's process id."""
        return int(self._control("GET", "/about")["pid"])

    def client(self, key: str = TEST_KEY, *, timeout_s: float = 10.0) -> stripe.StripeClient:
        """The official SDK, talking to this service: its own retries off, an end to every request, no proxy in between."""
        # Imported here because the service process loads this module too, and has no use for the SDK.
        import requests
        import stripe
        from requests.adapters import HTTPAdapter

        session = requests.Session()
        session.trust_env = False
        session.mount("http://", HTTPAdapter(pool_maxsize=32))
        transport = stripe.RequestsClient(timeout=timeout_s, session=session)
        return stripe.StripeClient(key, base_addresses={"api": self.url}, max_network_retries=0, http_client=transport)

    def ledger(self) -> dict[str, list[dict[str, Any]]]:
        """The truth: `payment_intents`, `charges`, `refunds` and `requests`, each oldest first."""
        told: dict[str, list[dict[str, Any]]] = self._control("GET", "/ledger")
        return told

    def refunded(self, payment_intent: str) -> tuple[int, int]:
        """How much was refunded on a payment, in minor units, and by how many refunds, from the ledger."""
        told = self._control("GET", f"/refunded/{payment_intent}")
        return int(told["total_minor"]), int(told["count"])

    def fault(self, *, method: str, path: str, kind: str, delay_s: float = 0.5, times: int = 1) -> None:
        """Let something go wrong with the next `times` requests that match; `faults.FaultKind` says what.

        Args:
            method: Of the request.
            path: Of the request; `*` and `?` are wildcards.
            kind: A value of `FaultKind`.
            delay_s: How long the delays wait.
            times: How many requests it strikes. Each that matches counts, also one that is then refused or replayed.

        Raises:
            ServiceError: There is no such kind.
        """
        self._control(
            "POST", "/faults", {"method": method, "path": path, "kind": kind, "delay_s": delay_s, "times": times}
        )

    def clear_faults(self) -> None:
        """Take back every fault that has not struck, of requests and of webhooks."""
        self._control("DELETE", "/faults")
        self.clear_webhook_faults()

    def advance(self, seconds: float) -> None:
        """Move the service's own clock, back too. It stays moved over a restart."""
        self._control("POST", "/clock", {"advance_s": seconds})

    def reset_clock(self) -> None:
        """Set the service's own clock to real time."""
        self._control("POST", "/clock", {"reset": True})

    def forget_keys(self) -> None:
        """Prune every idempotency key now, as may happen 24 hours after its first use."""
        self._control("POST", "/keys/forget")

    def arrive(self, payout: str, status: str = "paid", *, failure_code: str | None = None) -> dict[str, Any]:
        """Let the bank say what became of a payout; returns the payout as it is now.

        Args:
            payout: Its id, whichever account it belongs to.
            status: `in_transit`, `paid` or `failed`; a paid one may still fail.
            failure_code: Why it failed; default is what the test account number stands for, else `could_not_process`.

        Raises:
            ServiceError: There is no such payout, or it cannot become that.
        """
        told: dict[str, Any] = self._control(
            "POST", f"/payouts/{payout}", {"status": status, "failure_code": failure_code}
        )
        return told

    pay_out = arrive

    def _control(self, method: str, path: str, fields: dict[str, Any] | None = None) -> Any:
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=CONTROL_TIMEOUT_S)
        with contextlib.closing(connection):
            try:
                connection.request(method, PREFIX + path, None if fields is None else json.dumps(fields))
                answer = connection.getresponse()
                told = answer.read()
            except (OSError, http.client.HTTPException) as error:
                raise ServiceError(f"the local Stripe service at {self.url} does not answer: {error!r}") from error
        if answer.status != http.HTTPStatus.OK:
            raise ServiceError(
                f"the local Stripe service refused {method} {PREFIX}{path}: {told.decode(errors='replace')}"
            )
        return json.loads(told)


class LocalStripe(RemoteStripe):
    """A service of our own: a real child process, started by `with` or `start()`, ended by `kill()` or on leaving.

    **Durable when** the service has answered: what it acknowledged is in the directory.
    **If the process dies** that started it, the service ends by itself.
    """

    def __init__(self, directory: Path | str) -> None:
        super().__init__("")
        self.directory = Path(directory)
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def attach(url: str) -> RemoteStripe:
        """Steer a service that another process started; it can be neither killed nor started from here."""
        return RemoteStripe(url.rstrip("/"))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def url(self) -> str:
        """Where the service listens; the same after a restart."""
        if not self._url:
            raise ServiceError("the local Stripe service was never started; use `with`, or start()")
        return self._url

    @property
    def pid(self) -> int:
        """The child's process id."""
        if self._process is None:
            raise ServiceError("the local Stripe service is not running; start() it")
        return self._process.pid

    def start(self) -> None:
        """Start it, or start it again on the same directory and port; returns when it answers.

        Raises:
            ServiceError: It is running already, or did not become ready in time.
        """
        if self._process is not None:
            raise ServiceError("the local Stripe service is running already")
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-P", "-m", __package__, "--dir", str(self.directory.resolve()), "--with-parent"]
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        with (self.directory / "service.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--port", str(self._port)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                # A Ctrl-C at the terminal is for the parent; the service ends when the parent has.
                process_group=0,
            )
        try:
            ready = self._first_line(self._process)
        except BaseException:
            self.kill()
            raise
        self._url = str(ready["url"])
        self._port = urlsplit(self._url).port or 0

    def kill(self) -> None:
        """SIGKILL it, by its pid, and reap it. Nothing happens if it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def ledger(self) -> dict[str, list[dict[str, Any]]]:
        """The truth, from the file on disk: also while the service is dead."""
        return books.read(self.directory)

    def refunded(self, payment_intent: str) -> tuple[int, int]:
        """How much was refunded on a payment, in minor units, and by how many refunds, from the file on disk."""
        return books.read_refunded(self.directory, payment_intent)

    def _first_line(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert process.stdout is not None
        said, deadline = b"", time.monotonic() + START_TIMEOUT_S
        while not said.endswith(b"\n"):
            readable, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(process.stdout.fileno(), 4096) if readable else b""
            if not part:
                why = "ended" if readable else f"was not ready within {START_TIMEOUT_S} s"
                told = (self.directory / "service.log").read_text(errors="replace")[-2000:].strip()
                raise ServiceError(f"the local Stripe service {why}: {told or '(it said nothing)'}")
            said += part
        ready: dict[str, Any] = json.loads(said)
        return ready
