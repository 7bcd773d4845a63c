"""The Stripe a benchmark runs against, local or live: a client for people and set-up, the truth, and what only one of them can do.

Owns the option `--stripe`, the run's id and tags, where a local run's ledger lies, and the reading of the truth. The truth is read
through the SDK's list calls (read-your-writes; never Search), so that it is read the same way live.

    local   a service of our own on a directory that is kept, so that `python -m benchmarks audit` can start it again
    live    Stripe's test mode with STRIPE_API_KEY=sk_test_...; paced; every object tagged; faults and time are not to be had
"""

from __future__ import annotations

import argparse
import contextlib
import secrets
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import stripe

from benchmarks.harness.stripe_wire import SETTLE_AFTER_S, Door, Service, connect, read_key
from benchmarks.harness.suite import CannotRun
from benchmarks.services.stripe import LocalStripe, ServiceError

ROOT = Path(__file__).resolve().parents[2]
LEDGERS = Path(".scratch/ledgers")
"""Where local runs keep their ledgers, below the repository; ignored by git."""

RUN_TAG, CELL_TAG = "bench_run", "bench_cell"
PRUNED = "pruned"
PAID_MINOR = 10_000


class LocalOnly(CannotRun):
    """The row needs what only the local service has."""


class StripePlace:
    """One service for one run; use it with `with`."""

    def __init__(self, service: Service | str = Service.LOCAL, *, directory: Path | None = None, run: str = "") -> None:
        self.service = Service(service)
        self.run = run or f"run-{secrets.token_hex(4)}"
        if self.service is Service.LIVE:
            read_key()
            self._local: LocalStripe | None = None
        else:
            self._local = LocalStripe(ROOT / LEDGERS / self.run if directory is None else directory)

    def __enter__(self) -> Self:
        if self._local is not None:
            try:
                self._local.start()
            except (ServiceError, OSError) as error:
                raise CannotRun(f"the local service does not start on {self._local.directory}: {error}") from error
        self._client = self.client_of("")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._local is not None:
            self._local.kill()

    @property
    def is_local(self) -> bool:
        """Whether it is the local service."""
        return self._local is not None

    @property
    def settle_after_s(self) -> float:
        """The pause that is declared to the gate before it trusts an absent refund here."""
        return SETTLE_AFTER_S[self.service]

    @property
    def local(self) -> LocalStripe:
        """The local service's own controls: faults, time, keys.

        Raises:
            LocalOnly: The run is live.
        """
        if self._local is None:
            raise LocalOnly("Stripe's test mode has no faults and no clock to set; run this row with --stripe local")
        return self._local

    @property
    def door(self) -> Door:
        """What a worker is handed; `door_of(cell)` tags what it creates."""
        return Door(service=self.service, url=None if self._local is None else self._local.url)

    @property
    def client(self) -> stripe.StripeClient:
        """The client of the people around the agent, and of the harness."""
        return self._client

    def client_of(self, cell: str) -> stripe.StripeClient:
        """A client of people and harness whose objects carry the cell's tags. Reading live, it tries again."""
        is_live = self.service is Service.LIVE
        return connect(self.door_of(cell), retries=2 if is_live else 0, timeout_s=30.0 if is_live else 10.0)

    def door_of(self, cell: str) -> Door:
        """The door of one cell's workers."""
        return self.door.model_copy(update={"tags": self.tags(cell)})

    def tags(self, cell: str) -> dict[str, str]:
        """The metadata of every object that this cell makes."""
        return {RUN_TAG: self.run, CELL_TAG: cell}

    def pay(self, cell: str, amount_minor: int = PAID_MINOR, *, card: str = "pm_card_visa") -> stripe.PaymentIntent:
        """A customer pays by card; `card` is one of Stripe's test payment methods (docs.stripe.com/testing)."""
        return self.client_of(cell).v1.payment_intents.create(
            {
                "amount": amount_minor,
                "currency": "usd",
                "payment_method": card,
                "confirm": True,
                "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
            }
        )

    def refund_by_hand(self, cell: str, payment: str, amount_minor: int) -> str:
        """Support refunds: no key of ours, no case in the metadata, only the run's tags. Returns the refund's id."""
        made = self.client_of(cell).v1.refunds.create({"payment_intent": payment, "amount": amount_minor})
        return str(made.id)

    def refunds(self, payment: str) -> list[dict[str, Any]]:
        """The truth of a payment: every refund on it, oldest first, from the service's list. Failed and canceled ones too."""
        return as_dicts(self._client.v1.refunds.list({"payment_intent": payment, "limit": 100}))

    def forget_keys(self, door: Door) -> Door:
        """The service forgets every Idempotency-Key; the door to use from here on.

        Live, where a key cannot be made to age, the door writes every key differently instead: to the service that is the same.
        """
        if self._local is None:
            return door.model_copy(update={"pruned": PRUNED})
        self._local.forget_keys()
        return door

    def meta(self) -> dict[str, Any]:
        """What the result says about it."""
        told: dict[str, Any] = {"service": str(self.service), "run": self.run}
        if self._local is not None:
            with contextlib.suppress(ValueError):
                told["ledger"] = str(self._local.directory.resolve().relative_to(ROOT))
        return told


def as_dicts(page: stripe.ListObject[Any]) -> list[dict[str, Any]]:
    """Every object of a list, over all of its pages, oldest first."""
    objects: Iterable[Any] = page.auto_paging_iter()
    return [dict(one.to_dict()) for one in objects][::-1]


def money_of(refunds: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """What refunds come to in minor units, and how many they are; those that failed or were canceled moved nothing."""
    moved = [refund for refund in refunds if refund["status"] not in {"failed", "canceled"}]
    return sum(int(refund["amount"]) for refund in moved), len(moved)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of every command that talks to Stripe."""
    parser.add_argument(
        "--stripe",
        choices=[str(one) for one in Service],
        default=str(Service.LOCAL),
        help="the local service, or Stripe's test mode (STRIPE_API_KEY=sk_test_...); default local",
    )
    parser.add_argument(
        "--service-dir", type=Path, help="where the local service keeps its ledger; default a new place below .scratch/"
    )


def open_place(more: argparse.Namespace) -> StripePlace:
    """The place that the options ask for."""
    return StripePlace(more.stripe, directory=more.service_dir)
