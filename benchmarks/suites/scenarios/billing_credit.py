"""`python -m benchmarks scenario billing_credit`: one goodwill credit per incident, none once it is closed or credited by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.document import Document
from benchmarks.harness.listing import cut
from benchmarks.harness.stripe_place import StripePlace, as_dicts
from benchmarks.harness.stripe_wire import Death
from benchmarks.harness.suite import Options
from benchmarks.harness.truth import READERS
from benchmarks.suites.scenarios import play
from benchmarks.suites.scenarios.billing_credit_arms import grant
from benchmarks.suites.scenarios.incident import Incident
from benchmarks.suites.scenarios.play import Row, Scenario, Stage

NAME = "billing_credit"
AMOUNT_MINOR = 1_000
HERE = Path(__file__).parent


def run(options: Options) -> Document:
    """Play it."""
    return play.run(SCENARIO, options)


def set_up(place: StripePlace, cell: str, directory: Path) -> Mapping[str, str]:
    """A customer, and an open incident."""
    Incident(directory).open()
    customer = place.client_of(cell).v1.customers.create({"name": "Goodwill"})
    return {"incident": cell, "customer": str(customer.id)}


def read_truth(place: StripePlace, cell: Mapping[str, Any]) -> dict[str, Any]:
    """The customer's credit grants that stand."""
    grants = as_dicts(
        place.client.v1.billing.credit_grants.list({"customer": str(cell["case_customer"]), "limit": 100})
    )
    standing = [one for one in grants if not one.get("voided_at")]
    return {
        "money_minor": sum(int(one["amount"]["monetary"]["value"]) for one in standing),
        "count": len(standing),
        "ids": [str(one["id"]) for one in standing],
    }


READERS[NAME] = read_truth


def close_incident(stage: Stage) -> None:
    """The incident is closed."""
    Incident(stage.job.directory).close()


def credit_by_hand(stage: Stage) -> None:
    """Support credits the customer by hand, without a key or a word about the incident."""
    asked: Any = grant(stage.job.case["customer"], AMOUNT_MINOR)
    made = stage.place.client_of(stage.cell).v1.billing.credit_grants.create(asked)
    stage.by_hand.append(str(made.id))


def a_day_passes(stage: Stage) -> None:
    """The service forgets its keys."""
    stage.a_day_passes()


ROWS = (
    Row(
        name="crash_before_send",
        what="SIGKILL right before the POST; nothing happens meanwhile",
        die=Death.BEFORE_SEND,
        wanted_minor=AMOUNT_MINOR,
        wanted_count=1,
    ),
    Row(
        name="crash_after_commit",
        what="SIGKILL after the answer arrived; nothing happens meanwhile",
        die=Death.BEFORE_ACK,
        wanted_minor=AMOUNT_MINOR,
        wanted_count=1,
    ),
    Row(
        name="closed_during_outage",
        what="SIGKILL right before the POST; the incident is closed meanwhile",
        die=Death.BEFORE_SEND,
        outage=close_incident,
        wanted_minor=0,
        wanted_count=0,
    ),
    Row(
        name="closed_after_commit",
        what="SIGKILL after the answer arrived; the incident is closed meanwhile; it must be reported as credited",
        die=Death.BEFORE_ACK,
        outage=close_incident,
        wanted_minor=AMOUNT_MINOR,
        wanted_count=1,
    ),
    Row(
        name="credited_by_hand_during_outage",
        what="SIGKILL right before the POST; support credits the same $10 by hand meanwhile",
        die=Death.BEFORE_SEND,
        outage=credit_by_hand,
        wanted_minor=AMOUNT_MINOR,
        wanted_count=1,
    ),
    Row(
        name="key_pruned_after_24h",
        what="SIGKILL after the answer arrived; a day later the service has forgotten the key (live: emulated on the wire)",
        die=Death.BEFORE_ACK,
        outage=a_day_passes,
        wanted_minor=AMOUNT_MINOR,
        wanted_count=1,
    ),
)

SCENARIO = Scenario(
    name=NAME,
    title="Scenario: one goodwill credit per incident",
    intro=(
        "A customer, an open incident, one $10 credit approved. One credit per incident, none once the incident is closed or somebody "
        "credited it by hand. Money is the customer's credit grants that stand, by the service's list."
    ),
    amount_minor=AMOUNT_MINOR,
    dies_at="/v1/billing/credit_grants",
    set_up=set_up,
    rows=ROWS,
    truth=NAME,
    listings=[
        cut(HERE / f"{NAME}_arms.py", "hand_check", title="The hand check"),
        cut(HERE / f"{NAME}_arms.py", "interlock", title="Interlock"),
    ],
)

add_arguments = play.arguments_of(SCENARIO)
