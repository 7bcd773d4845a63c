"""What a wrapper hands back: tools on a gate, with the three things that their owner does with it.

Owns `recover()` for every wrapper. It must not know a framework, nor how a gate is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from interlock.decorator import Recovery
    from interlock.extend._gate import ToolGate

T = TypeVar("T")


class Recoverable:
    """Stands on a gate: `recover()` once on start, `close()` at the end."""

    _gate: ToolGate

    @property
    def gate(self) -> ToolGate:
        """The `ToolGate` behind it."""
        return self._gate

    def recover(self, *, wait: float | timedelta | None = None) -> Recovery:
        """Settle what a crash left open: once on start, before the agent runs.

        Args:
            wait: seconds to wait for what another live process is sending; by default each effect's own.

        Raises:
            ConfigurationError: a tool is async and an event loop runs in this thread (use `arecover`).

        **Durable when** this returns: every outcome but IN_FLIGHT.
        **If the process dies** meanwhile: the next recovery starts over from the record.
        """
        return self.gate.recover(wait=wait)

    async def arecover(self, *, wait: float | timedelta | None = None) -> Recovery:
        """As `recover`, without blocking the event loop."""
        return await self.gate.arecover(wait=wait)

    def close(self) -> None:
        """Give up the gate, unless it is on an `Interlock` that was handed over."""
        self.gate.close()


class ProtectedTools(Recoverable, list[T]):
    """The tools of an agent, the gated ones among them behind the gate. A list like any other, with `recover()`.

    Args:
        tools: the tools, gated or not, in the order of the agent.
        gate: the `ToolGate` behind them.
    """

    def __init__(self, tools: Iterable[T], gate: ToolGate) -> None:
        super().__init__(tools)
        self._gate = gate
