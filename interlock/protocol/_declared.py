"""What was declared of the service when an effect was sent, on the record, and what counts of it after the code has changed.

    DISPATCHED  {"declared": "key dedupes lookup", "window_s": 86400.0, ...}

A recovery goes by the weaker of what each request was sent under and what is declared now: that the service drops a second request
says nothing of one that went without its key, and a look-up that is new need not see what was sent before it.

An entry without this, of an earlier version, counts as sent under what is declared now. So the code of an effect is changed after what
that version left open was recovered.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from interlock.effects import History, Kind
from interlock.ports import Capabilities
from interlock.record import NamedTuple

KEY, DEDUPES, LOOKUP = "key", "dedupes", "lookup"
"""The words on the record: the service got the key; it drops a second request with it; there was a look-up."""


@functools.lru_cache(maxsize=256)
def as_declared(capabilities: Capabilities) -> Mapping[str, Any]:
    """What a DISPATCHED entry says of it."""
    said = ((KEY, capabilities.passes_key), (DEDUPES, capabilities.dedupes), (LOOKUP, capabilities.can_look_up))
    declared: dict[str, Any] = {"declared": " ".join(word for word, holds in said if holds)}
    if capabilities.dedupes:
        declared["window_s"] = capabilities.window_s
    return declared


class InForce(NamedTuple):
    """What counts for the requests under one idempotency key.

    Attributes:
        capabilities: the weaker of what they were sent under and what is declared now.
        no_resend: why a second request would not be dropped, though it is declared now; empty if nothing has changed so.
        unseen: why it says nothing if the look-up does not find them; empty if it would.
    """

    capabilities: Capabilities
    no_resend: str = ""
    unseen: str = ""


def in_force(history: History, key: str, declared: Capabilities) -> InForce:
    """What counts for the requests that were sent under `key`."""
    window_s, no_resend, unseen = declared.window_s, "", ""
    for entry in history.entries:
        if entry.kind is not Kind.DISPATCHED or entry.data["key"] != key or "declared" not in entry.data:
            continue
        words = entry.data["declared"].split()
        if declared.dedupes and DEDUPES not in words:
            no_resend = f"It was sent by code that {'declared no dedupes=' if KEY in words else 'passed no key on'}."
        elif declared.dedupes:
            window_s = min(window_s, entry.data["window_s"])
        if declared.can_look_up:
            if LOOKUP not in words:
                unseen = "It was sent by code that declared no lookup=, so that the present one does not find it says nothing."
            elif KEY not in words and declared.passes_key and declared.looks_up_by_key:
                unseen = "It was sent by code that passed no key on, so that a look-up by the key does not find it says nothing."
    if no_resend or window_s != declared.window_s:
        declared = declared._replace(dedupes=declared.dedupes and not no_resend, window_s=window_s)
    return InForce(declared, no_resend, unseen)
