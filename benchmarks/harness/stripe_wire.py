"""The official Stripe SDK as every benchmark uses it: towards the local service or live test mode, with what a row does to the wire.

Owns the only places where a benchmark touches a request: its pace (live), its Idempotency-Key (left off below tier 1; another one after
an emulated prune), and the death of the worker around one POST. Arms and the gate's own targets get a plain `StripeClient` and know
nothing of it, so every arm meets the same crash at the same byte. What is created gets the run's tags here, too.

    arm -> StripeClient -> | key | tags | pace | BEFORE_SEND | -> service -> | BEFORE_ACK | -> arm
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Any
from urllib.parse import urlencode

import requests
import stripe
from pydantic import BaseModel, ConfigDict
from requests.adapters import HTTPAdapter

from benchmarks.harness.suite import CannotRun

KEY_VARIABLE = "STRIPE_API_KEY"
LOCAL_KEY = "sk_test_local"
PACE_S = 0.1
"""Between two requests of one process in live mode. Test mode allows 25 a second (docs.stripe.com/rate-limits)."""

TIMEOUT_S = 5.0


class Service(StrEnum):
    """Where the money is."""

    LOCAL = "local"
    LIVE = "live"


SETTLE_AFTER_S: Mapping[Service, float] = {Service.LOCAL: 0.005, Service.LIVE: 10.0}
"""The pause before an absent refund is trusted, as declared to the gate. A request on loopback, once its sender is dead, lands within the
first (rows in which it lands later declare their own); the second is the Stripe target's default."""


class Death(StrEnum):
    """Where around the POST a worker kills itself with SIGKILL."""

    BEFORE_SEND = "before_send"
    BEFORE_ACK = "before_ack"


class KeyRefused(CannotRun):
    """The API key is missing, or one that no benchmark may use."""


def read_key(environment: Mapping[str, str] | None = None) -> str:
    """The key of live test mode, from the environment. Nothing is sent before it has been looked at.

    Raises:
        KeyRefused: There is none, it is a live key, or not a test mode secret key. The message never repeats more than its prefix.
    """
    key = (os.environ if environment is None else environment).get(KEY_VARIABLE, "").strip()
    for prefix in ("sk_live_", "rk_live_"):
        if key.startswith(prefix):
            raise KeyRefused(
                f"{KEY_VARIABLE} holds a live key ({prefix}...). It is refused, and nothing was sent: the benchmarks refund money. "
                "Set a test mode key, sk_test_..., instead."
            )
    if not key:
        raise KeyRefused(f"--stripe live needs {KEY_VARIABLE}=sk_test_...; it is not set. --stripe local needs no key.")
    if not key.startswith("sk_test_"):
        raise KeyRefused(f"{KEY_VARIABLE} is not a test mode secret key; one begins with sk_test_.")
    return key


class Door(BaseModel):
    """How a worker process reaches the service. It carries no secret: a worker reads the live key from its own environment.

    Attributes:
        service: Which one.
        url: Of the local one.
        pruned: Ends every Idempotency-Key with this: how a service that forgot its keys is emulated where it cannot be told to.
        tags: Metadata that every created object gets, so that a run's objects can be told apart at the service.
    """

    model_config = ConfigDict(frozen=True)

    service: Service = Service.LOCAL
    url: str | None = None
    pruned: str = ""
    tags: dict[str, str] = {}


def connect(
    door: Door,
    *,
    sends_key: bool = True,
    die: Death | None = None,
    dies_at: str = "/v1/refunds",
    timeout_s: float = TIMEOUT_S,
    retries: int = 0,
) -> stripe.StripeClient:
    """A client. The SDK's own retries are off unless asked for: who retries is what the suites compare.

    Args:
        door: Where to.
        sends_key: Whether the Idempotency-Key goes out; the SDK adds a random one to every POST.
        die: Where this process kills itself, if anywhere.
        dies_at: The path of the POST that it does not survive.
        timeout_s: The end of every request.
        retries: For the harness's own reading and setting up, never for an arm.
    """
    adapter = _Wire(door, sends_key=sends_key, die=die, dies_at=dies_at)
    session = requests.Session()
    if door.service is Service.LIVE:
        session.mount("https://", adapter)
        transport = stripe.RequestsClient(timeout=timeout_s, session=session)
        return stripe.StripeClient(read_key(), max_network_retries=retries, http_client=transport)
    if door.url is None:
        raise ValueError("the door of the local service names no url")
    session.trust_env = False
    session.mount("http://", adapter)
    transport = stripe.RequestsClient(timeout=timeout_s, session=session)
    return stripe.StripeClient(
        LOCAL_KEY, base_addresses={"api": door.url}, max_network_retries=retries, http_client=transport
    )


class _Pace:
    """Lets one request go every `PACE_S`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0.0

    def wait(self) -> None:
        with self._lock:
            now = time.monotonic()
            pause, self._next = self._next - now, max(now, self._next) + PACE_S
        time.sleep(max(0.0, pause))


_PACE = _Pace()


class _Wire(HTTPAdapter):
    """What a row does to a request on its way."""

    def __init__(self, door: Door, *, sends_key: bool, die: Death | None, dies_at: str) -> None:
        super().__init__(pool_maxsize=32)
        self._door, self._sends_key, self._die, self._dies_at = door, sends_key, die, dies_at

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        key = request.headers.get("Idempotency-Key")
        if key is not None and not self._sends_key:
            del request.headers["Idempotency-Key"]
        elif key is not None and self._door.pruned:
            request.headers["Idempotency-Key"] = f"{_text(key)}-{self._door.pruned}"
        fatal = request.method == "POST" and str(request.path_url).partition("?")[0] == self._dies_at
        if request.method == "POST" and self._door.tags and _TAKES_METADATA.match(str(request.path_url)):
            self._tag(request)
        if self._door.service is Service.LIVE:
            _PACE.wait()
        if fatal and self._die is Death.BEFORE_SEND:
            os.kill(os.getpid(), signal.SIGKILL)
        response = super().send(request, *args, **kwargs)
        if fatal and self._die is Death.BEFORE_ACK:
            # The whole answer is here; nobody above has seen a byte of it.
            _ = response.content
            os.kill(os.getpid(), signal.SIGKILL)
        return response

    def _tag(self, request: requests.PreparedRequest) -> None:
        """Add the run and the cell to the metadata of what is created: the same for every arm, and read by none."""
        body = _text(request.body or "")
        more = urlencode({f"metadata[{name}]": value for name, value in self._door.tags.items()})
        request.body = f"{body}&{more}" if body else more
        request.headers["Content-Length"] = str(len(request.body))


_TAKES_METADATA = re.compile(
    r"/v1/(payment_intents|refunds|customers|transfers|payouts|accounts|billing/credit_grants|webhook_endpoints"
    r"|customers/[^/]+/balance_transactions)$"
)
"""Where objects are created that take metadata."""


def _text(value: str | bytes) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else value
