"""Sends that go on after their call was cancelled or timed out are waited for before an event loop ends."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from interlock import ConfigurationError, Interlock, Kind


def kind_of(gate: Interlock, effect_id: str) -> Kind | None:
    return gate.journal.load(effect_id).kind


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_cancelled_call_s_send_is_recorded(tmp_path: Path, is_async: bool) -> None:
    """The answer of a send whose call was cancelled stands on the record once it has been waited for, from a task or a thread."""
    begun = threading.Event()
    with Interlock(tmp_path / "journal") as gate:

        def send(order: str) -> str:
            begun.set()
            time.sleep(0.3)
            return order

        async def asend(order: str) -> str:
            begun.set()
            await asyncio.sleep(0.3)
            return order

        refund = gate.effect(key=lambda order: order, name="refund")(asend if is_async else send)
        proposal = await refund.aproposal("881")
        call = asyncio.ensure_future(gate.asubmit(proposal))
        await asyncio.to_thread(begun.wait)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert kind_of(gate, proposal.effect_id) is Kind.DISPATCHED
        assert await gate.adrain(wait=0.01) == 1
        assert await gate.adrain(wait=5) == 0
        assert kind_of(gate, proposal.effect_id) is Kind.COMMITTED


async def test_nothing_to_wait_for(tmp_path: Path) -> None:
    """A gate without such sends answers at once; a time that is none is refused."""
    with Interlock(tmp_path / "journal") as gate:
        assert await gate.adrain() == 0
        with pytest.raises(ConfigurationError, match="wait"):
            await gate.adrain(wait=-1)
