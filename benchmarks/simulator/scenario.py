"""What is simulated: the service as declared, who is there at the start, and how much may go wrong.

Owns the scenarios of the benchmark and of the tests. `EXHAUSTIVE` is searched completely, `WILD` is drawn from at random.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.simulator.state import Budget
from interlock.ports import Capabilities

WINDOW_S = 86_400.0
TIMEOUT_S = 8.0
SETTLE_AFTER_S = 1.0

TIER_1 = Capabilities(True, WINDOW_S, False, 0.0, SETTLE_AFTER_S, TIMEOUT_S)
TIER_1_LOOKUP = TIER_1._replace(can_look_up=True)
TIER_2 = Capabilities(False, 600.0, True, 0.0, SETTLE_AFTER_S, TIMEOUT_S)
TIER_2_LAG = TIER_2._replace(lookup_lag_s=1.5)
TIER_3 = TIER_2._replace(can_look_up=False)

TIERS = {
    "tier1": TIER_1,
    "tier1+lookup": TIER_1_LOOKUP,
    "tier2": TIER_2,
    "tier2+lag": TIER_2_LAG,
    "tier3": TIER_3,
}

NOTHING_WRONG = Budget(crashes=0, faults=0, runs=0, events=0)

FAULTS = (
    "reject",
    "e500_after",
    "e500_before",
    "drop",
    "drop_after",
    "in_use",
    "give_up",
    "unreadable",
    "failed",
    "down",
)
EVENTS = ("hand_refund", "revoke")
TIME = ("wall_forward", "wall_back", "timeout", "near_window", "past_window")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One world to search.

    Attributes:
        name: how it is called in results and replays.
        capabilities: what the service can do, and does.
        workers: the task of each worker at the start: `submit`, or `later` for one that begins when the search says so.
        again: what a worker may begin later: `recover`, `submit`.
        budget: how much may go wrong.
        faults: which faults the service, the callbacks and the journal may show.
        events: what the environment may do.
        deaths: which ways of losing a worker there are: `crash`, `cancel`, `cut_off`.
        fresh: the decision is made in the call itself, so the facts are as seen in that moment; else they were seen before.
        wait_s: how long a submit waits for a live sender.
        forgets_rejections: the service does not remember a key for a request that it rejected.
        late: a request that nobody waits for may also land at the last moment that is declared possible.
        shares: two such effects, each with these workers, under one cap that has room for one of them.
    """

    name: str
    capabilities: Capabilities
    workers: tuple[str, ...] = ("submit", "submit")
    again: tuple[str, ...] = ("recover", "submit")
    budget: Budget = NOTHING_WRONG
    faults: tuple[str, ...] = FAULTS
    events: tuple[str, ...] = EVENTS
    deaths: tuple[str, ...] = ("crash",)
    fresh: bool = False
    wait_s: float = 0.0
    forgets_rejections: bool = False
    late: bool = False
    shares: bool = False


ALL_DEATHS = ("crash", "cancel", "cut_off")
_PAIR, _HANDED_ON, _THREE = ("submit", "submit"), ("submit", "later"), ("submit", "submit", "submit")


def searched(tier: str, *, deep: bool = False) -> list[Scenario]:
    """What is searched completely at one tier; `deep` adds requests delivered again, and more restarts."""
    again = ("recover", "submit") if deep else ("recover",)
    base = Scenario(name="", capabilities=TIERS[tier], workers=_HANDED_ON, again=again, late=True)
    more = 1 if deep else 0
    found = [
        replace(base, name="race", workers=_PAIR, budget=Budget(1, 0, 1, 0)),
        replace(base, name="changes", budget=Budget(1, 0, 1, 2)),
        replace(base, name="faults", budget=Budget(1, 1, 1, 0)),
        replace(base, name="deaths", budget=Budget(2, 0, 1 + more, 0), deaths=ALL_DEATHS),
        replace(base, name="time", budget=Budget(1, 0, 1, 2), events=TIME),
        replace(base, name="three", workers=_THREE, budget=Budget(1, 0, 0, 0)),
    ]
    one = replace(base, workers=("submit",), events=(), shares=True)
    answers = ("reject", "drop", "drop_after", "give_up")
    found += [
        replace(one, name="shared", budget=Budget(1, 0, 1 + more, 0)),
        replace(one, name="shared-faults", again=("recover",), budget=Budget(1, 1, 1, 0), faults=answers),
    ]
    if TIERS[tier].dedupes:
        forgetting = replace(
            base, name="rejections", again=("recover",), faults=("reject", "drop"), forgets_rejections=True
        )
        found.append(replace(forgetting, budget=Budget(1, 1 + more, 1, 0)))
    return [replace(scenario, name=f"{tier}/{scenario.name}") for scenario in found]


def wild(tier: str) -> list[Scenario]:
    """What random runs are drawn from at one tier: three workers, and much that goes wrong."""
    base = Scenario(
        name=f"{tier}/wild",
        capabilities=TIERS[tier],
        workers=("submit", "submit", "later"),
        budget=Budget(3, 4, 5, 3),
        events=(*EVENTS, *TIME),
        deaths=ALL_DEATHS,
        late=True,
        wait_s=0.1,
    )
    return [
        base,
        replace(base, name=f"{tier}/wild-fresh", fresh=True, forgets_rejections=True, wait_s=0.0),
        replace(base, name=f"{tier}/wild-calm", events=("revoke",), budget=Budget(4, 6, 6, 1), forgets_rejections=True),
    ]


def named(name: str) -> Scenario:
    """The scenario of that name.

    Raises:
        LookupError: there is none.
    """
    for tier in TIERS:
        for scenario in (*searched(tier), *searched(tier, deep=True), *wild(tier)):
            if scenario.name == name:
                return scenario
    raise LookupError(f"no scenario is called {name!r}")
