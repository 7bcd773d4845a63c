"""The plain receipt: one effect's entries as stored, and the check that they are a chain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from interlock.effects import Entry, History
from interlock.errors import JournalError
from interlock.journal._base import read_entry
from interlock.record import NamedTuple
from interlock.rules.canonical import derive_id
from interlock.rules.lifecycle import fold
from interlock.rules.values import text_of
from interlock.settlement import settlement_of

RECEIPT_VERSION = 1


class ReceiptCheck(NamedTuple):
    """Whether a receipt holds together.

    Attributes:
        problems: one sentence each; empty if it does.
    """

    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.problems


class Receipt(NamedTuple):
    """What the gate observed about one effect.

    Attributes:
        effect_id: the effect.
        bodies: its entries' text, exactly as stored.
        hashes: SHA-256 of each, hex.
    """

    effect_id: str
    bodies: tuple[str, ...]
    hashes: tuple[str, ...]

    @classmethod
    def of(cls, history: History) -> Receipt:
        """The receipt of a history."""
        return cls(
            history.effect_id,
            tuple(entry.body.decode("utf-8") for entry in history.entries),
            tuple(entry.hash for entry in history.entries),
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form; enough to verify it anywhere."""
        entries = [{"body": body, "hash": value} for body, value in zip(self.bodies, self.hashes, strict=True)]
        return {"interlock_receipt": RECEIPT_VERSION, "effect_id": self.effect_id, "entries": entries}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Receipt:
        """A receipt from its JSON form.

        Raises:
            ValueError: it is not one, or of a newer version.
        """
        if document.get("interlock_receipt") != RECEIPT_VERSION:
            raise ValueError(f"not a receipt of version {RECEIPT_VERSION}: {document.get('interlock_receipt')!r}")
        try:
            entries = document["entries"]
            return cls(
                document["effect_id"],
                tuple(entry["body"] for entry in entries),
                tuple(entry["hash"] for entry in entries),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"a receipt lacks {error}") from error

    def __str__(self) -> str:
        """For a person: one line about the effect, and one for each entry with what it says; the JSON form is the whole of it."""
        try:
            entries = self.entries
            first = entries[0]["data"] if entries else {}
            head = f"receipt of {self.effect_id}: {first.get('effect', '?')} {first.get('key', '?')!r}"
            lines = [_line(entry, stored) for entry, stored in zip(entries, self.hashes, strict=True)]
        except Exception as error:  # noqa: BLE001 - what is shown may be forged; `verify` says so
            return f"receipt of {self.effect_id}, which cannot be read: {text_of(error)}"
        return "\n".join([head, *lines])

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The entries, parsed."""
        return [json.loads(body) for body in self.bodies]

    @property
    def settlement(self) -> str:
        """What was known when this was made: `accepted`, `settled`, `at_risk`, `reversed`; empty where no settlement is declared."""
        pairs = zip(self.bodies, self.hashes, strict=True)
        entries = tuple(read_entry(body.encode("utf-8"), stored, expected_prev=None) for body, stored in pairs)
        return settlement_of(History(self.effect_id, entries))[0]

    def verify(self) -> ReceiptCheck:
        """Check bytes against hashes, each entry against the one before it, the order of kinds, and the identity.

        Needs nothing but the receipt.
        """
        parsed: list[Entry] = []
        prev = ""
        try:
            for body, stored in zip(self.bodies, self.hashes, strict=True):
                entry = read_entry(body.encode("utf-8"), stored, expected_prev=prev)
                if entry.effect_id != self.effect_id or entry.n != len(parsed):
                    return ReceiptCheck((f"entry {len(parsed)} belongs to {entry.effect_id} #{entry.n}",))
                parsed.append(entry)
                prev = stored
            if not parsed:
                return ReceiptCheck(("it holds no entry",))
            state = fold(History(self.effect_id, tuple(parsed)))
            if derive_id(state.proposed["effect"], state.proposed["key"]) != self.effect_id:
                return ReceiptCheck(("the effect id is not the one that its effect name and key give",))
        except (JournalError, ValueError) as error:
            return ReceiptCheck(
                (str(error).partition(" Nothing was sent.")[0],)
            )  # what to do about a journal is nothing for a file
        except Exception as error:  # noqa: BLE001 - a forged document may hold anything; that is a finding, not an error
            return ReceiptCheck((f"it is not made as a receipt is: {text_of(error)}",))
        return ReceiptCheck(())


SHOWN = ("decision", "why", "detail", "reason", "via", "approval", "attempt", "lookup")
"""What a line says of an entry's data, where it is there. What is long is left to the JSON form."""


def _line(entry: Mapping[str, Any], stored: str) -> str:
    """`  2  2026-11-29 12:00:00Z  DISPATCHED  #1a2b3c4d  attempt 1, holds 2000 of approval:ap_1`."""
    data = entry["data"]
    checks = {**data.get("recheck", {}), **data}
    said = [] if "allowed" not in checks else ["allowed" if checks["allowed"] else "not allowed"]
    said += [f"{name} {checks[name]}" for name in SHOWN if checks.get(name) not in (None, "")]
    premises = checks.get("premises", {}).items()
    said += [f"premise {name} does not hold ({told['rule']})" for name, told in premises if not told["holds"]]
    said += [f"holds {budget['amount']} of {budget['key']}" for budget in data.get("budget", ())]
    if isinstance(made := data.get("value"), Mapping) and "id" in made:
        said.append(str(made["id"]))
    at = str(entry["at"])[:19].replace("T", " ")
    return f"  {entry['n']}  {at}Z  {entry['kind']:<10}  #{stored[:8]}  {', '.join(said)}".rstrip()
