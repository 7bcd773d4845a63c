"""Inside a server: what the middlewares of both SDKs have in common, from the configuration to the gateway behind them.

Owns when a server's tools stand behind the gate, and what is told while they do not yet. It must not know either SDK.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from interlock import ConfigurationError
from interlock.extend import Recoverable, ToolGate
from interlock.integrations.mcp._face import Misfit
from interlock.integrations.mcp._gateway import Ask, Gateway

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.extend import ToolsConfig

T = TypeVar("T")


class InsideServer(Recoverable):
    """The gate inside a server. Until it is attached, no tool that the configuration names can be called.

    Args:
        config: which tools are gated and how: a dict, a JSON or TOML file, or a `ToolsConfig` (docs/config.md).
        journal: where the journal lives, if not where the configuration says.

    Raises:
        ConfigurationError: an option does not exist.
    """

    def __init__(self, config: ToolsConfig | Mapping[str, Any] | str | Path, *, journal: Any = None) -> None:
        # Tools given as Python `Effect`s are no part of the schema; the gate itself looks at those when it is built. A file is read once.
        self._config = config if isinstance(config, Mapping) else _loaded(config)
        self._journal = journal
        tools = self._config.get("tools", self._config) if isinstance(self._config, Mapping) else self._config.tools
        self._named = frozenset(tools)
        self._gateway: Gateway | None = None

    @property
    def gate(self) -> ToolGate:
        """The `ToolGate` behind it."""
        return self._attached().gate

    def close(self) -> None:
        """Give up the gate, if it was attached."""
        if self._gateway is not None:
            self._gateway.gate.close()

    def _attach(self, tools: Callable[[], Mapping[str, Mapping[str, Any]]], ask: Ask, misfit: Misfit) -> None:
        if self._gateway is not None:
            raise ConfigurationError("this middleware is attached to a server already.")
        self._gateway = Gateway(self._config, tools=tools(), ask=ask, misfit=misfit, journal=self._journal)

    def _attached(self) -> Gateway:
        if self._gateway is None:
            raise ConfigurationError("the middleware is not attached: call attach(server) once its tools are defined.")
        return self._gateway

    @staticmethod
    def _not_attached(name: str) -> str:
        return f"Not done: {name} stands behind a gate that was not attached to this server. An operator has to look."


def _loaded(config: ToolsConfig | str | Path) -> ToolsConfig:
    from interlock.extend import load  # here, since tools that are all Effects need no configuration of data

    return load(config)


def wait_for(asked: Callable[[], Awaitable[T]]) -> T:
    """What an async function gives, also where an event loop runs already."""

    async def ask() -> T:
        return await asked()

    with ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, ask()).result()


def dumped(model: Any) -> dict[str, Any]:
    """A model of an SDK as the protocol's own data; data as it is."""
    if isinstance(model, dict):
        return model
    data: dict[str, Any] = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return data
