"""A proposal that is kept as JSON between the decision and the send."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from interlock import BadInput, Interlock, Proposal


@dataclass(frozen=True)
class Line:
    """An argument of a type of its own."""

    text: str
    price: Decimal


class Desk:
    """A gate's process: what is sent, and the one fact that it is decided on."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.total: Any = {"others": 0, "read": datetime(2026, 1, 1, tzinfo=UTC)}

    def start(self, directory: Path) -> tuple[Interlock, Any]:
        """A process on the directory."""
        gate = Interlock(directory)

        @gate.effect(key=lambda order: f"bill:{order}", premises=lambda: {"total": self.total}, dedupes=True)
        def bill(order: str, lines: list[Line], note: Any, idempotency_key: str) -> int:
            self.sent.append((order, lines, note))
            return len(lines)

        return gate, bill


ARGUMENTS = ("8\u00e41\u2028", [Line("t\u00e9", Decimal("0.10"))], {"a": [1.5, None, True, 2**53 - 1], "when": "x"})


@pytest.mark.parametrize("changed", [False, True])
def test_it_is_the_same_after_json_and_in_another_process(changed: bool, tmp_path: Path) -> None:
    """What was kept is what was decided: arguments with their types, the decision's name, and the facts as the decider saw them."""
    desk = Desk()
    gate, bill = desk.start(tmp_path)
    proposal = bill.proposal(*ARGUMENTS, decision="case 7")
    kept = json.dumps(proposal.to_dict(), allow_nan=False)
    gate.close()
    gate, bill = desk.start(tmp_path)
    desk.total = {**desk.total, "others": 5} if changed else desk.total
    read = Proposal.from_dict(json.loads(kept))
    assert read == proposal
    outcome = gate.submit(read)
    gate.close()
    assert str(outcome) == ("REFUSED:stale_premise" if changed else "COMMITTED")
    assert desk.sent == ([] if changed else [ARGUMENTS])


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ({"interlock_proposal": 2}, "not a proposal of version 1"),
        ({"interlock_proposal": None}, "not a proposal of version 1"),
        ({"key": 7}, "key cannot be 7"),
        ({"seen": []}, r"seen cannot be \[\]"),
        ({"payload": None}, "payload cannot be None"),
        ({"fresh": True}, "no others; this is about fresh"),
    ],
)
def test_what_is_no_kept_proposal(edit: dict[str, Any], told: str, tmp_path: Path) -> None:
    """A document of another form or version is told where it is read, not somewhere in the send."""
    gate, bill = Desk().start(tmp_path)
    document = bill.proposal(*ARGUMENTS).to_dict()
    gate.close()
    with pytest.raises(BadInput, match=told):
        Proposal.from_dict({**document, **edit})
    for name in document:
        with pytest.raises(BadInput, match="version 1" if name == "interlock_proposal" else f"about {name}"):
            Proposal.from_dict({other: value for other, value in document.items() if other != name})
    with pytest.raises(BadInput, match="not a proposal"):
        Proposal.from_dict(list(document.values()))


def test_an_edited_one_is_refused(tmp_path: Path) -> None:
    """Arguments or key that are not those that were decided are found at the submit; a list is told what to do instead."""
    desk = Desk()
    gate, bill = desk.start(tmp_path)
    document = json.loads(json.dumps(bill.proposal(*ARGUMENTS).to_dict()))
    for edit in ({"key": "bill:other"}, {"payload": {**document["payload"], "note": "other"}}):
        with pytest.raises(BadInput, match="edit"):
            gate.submit(Proposal.from_dict({**document, **edit}))
    with pytest.raises(BadInput, match=r"not list.*Proposal\.from_dict"):
        gate.submit(json.loads(json.dumps(bill.proposal(*ARGUMENTS))))
    gate.close()
    assert not desk.sent
