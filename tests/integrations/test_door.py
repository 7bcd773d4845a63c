"""One misspelt argument name of a configuration, given to every wrapper at its door."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock import ConfigurationError

CONFIG: dict[str, Any] = {
    "tools": {
        "create_refund": {
            "key": ["order_id"],
            "premises": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["refunded_total"]},
            "lookup": {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "found"},
            "idempotency_argument": "reference",
        }
    }
}


def create_refund(order_id: str, amount: int, reference: str = "") -> dict[str, Any]:
    """Refund an order."""
    return {"id": "re_1", "order_id": order_id, "amount": amount, "reference": reference}


def get_order(order_id: str) -> dict[str, Any]:
    """Show an order."""
    return {"order_id": order_id, "refunded_total": 0}


def find_refund(reference: str) -> dict[str, Any]:
    """Find a refund."""
    return {"reference": reference, "found": False}


FUNCTIONS = [create_refund, get_order, find_refund]


def _loop(config: Any, journal: Path) -> Any:
    from interlock.tools import protect

    return protect(FUNCTIONS, config, journal=journal)


def _anthropic(config: Any, journal: Path) -> Any:
    from anthropic import beta_tool

    from interlock.integrations.anthropic import protect_beta_tools

    return protect_beta_tools([beta_tool(function) for function in FUNCTIONS], config, journal=journal)


def _openai(config: Any, journal: Path) -> Any:
    from openai.lib.responses_tool_runner import RegisteredFunction

    from interlock.integrations.openai import protect_functions

    def registered(function: Callable[..., Any]) -> Any:
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        schema = {"type": "object", "properties": {name: {} for name in names}, "required": list(names)}
        return RegisteredFunction(
            tool={"type": "function", "name": function.__name__, "parameters": schema, "strict": False},
            execute=lambda arguments: str(function(**arguments)),
        )

    return protect_functions([registered(function) for function in FUNCTIONS], config, journal=journal)


def _openai_agents(config: Any, journal: Path) -> Any:
    from agents import function_tool

    from interlock.integrations.openai_agents import protect_tools

    return protect_tools([function_tool(function) for function in FUNCTIONS], config, journal=journal)


def _langchain(config: Any, journal: Path) -> Any:
    from langchain_core.tools import StructuredTool

    from interlock.integrations.langchain import protect_tools

    return protect_tools(
        [StructuredTool.from_function(function) for function in FUNCTIONS], config, journal=str(journal)
    )


def _langgraph(config: Any, journal: Path) -> Any:
    from langchain_core.tools import StructuredTool

    from interlock.integrations.langgraph import ToolCallGate

    return ToolCallGate(
        [StructuredTool.from_function(function) for function in FUNCTIONS], config, journal=str(journal)
    )


def _adk(config: Any, journal: Path) -> Any:
    from interlock.integrations.adk import protect_tools

    return protect_tools(FUNCTIONS, config, journal=journal)


def _pydantic_ai(config: Any, journal: Path) -> Any:
    from interlock.integrations.pydantic_ai import InterlockCapability

    return InterlockCapability(config, tools=FUNCTIONS, journal=journal)


def _mcp(config: Any, journal: Path) -> Any:
    from mcp.server.mcpserver import MCPServer

    from interlock.integrations.mcp import protect_server

    server: Any = MCPServer("payments")
    for function in FUNCTIONS:
        server.tool()(function)
    return protect_server(server, config, journal=journal)


def _fastmcp(config: Any, journal: Path) -> Any:
    from fastmcp import FastMCP

    from interlock.integrations.fastmcp import protect_server

    server: Any = FastMCP("payments")
    for function in FUNCTIONS:
        server.tool(function)
    return protect_server(server, config, journal=journal)


WRAPPERS = [
    _loop,
    _anthropic,
    _openai,
    _openai_agents,
    _langchain,
    _langgraph,
    _adk,
    _pydantic_ai,
    _mcp,
    _fastmcp,
]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_misspelt_argument_is_refused_at_the_door(wrapper: Callable[..., Any], tmp_path: Path) -> None:
    """Each wrapper knows its tools' own schemas: it takes the right configuration, and refuses to start with a misspelt argument."""
    config = copy.deepcopy(CONFIG)
    wrapper(config, tmp_path / "right").close()
    places: list[tuple[Callable[[dict[str, Any]], None], str]] = [
        (lambda tool: tool.update(key=["orderid"]), "did you mean 'order_id'?"),
        (lambda tool: tool.update(idempotency_argument="referense"), "did you mean 'reference'?"),
        (lambda tool: tool["premises"].update(arguments={"orderid": "order_id"}), "did you mean 'order_id'?"),
        (lambda tool: tool["premises"].update(arguments={"order_id": "order"}), "did you mean 'order_id'?"),
        (lambda tool: tool["lookup"].update(arguments={"refrence": "$effect_id"}), "did you mean 'reference'?"),
    ]
    for number, (misspell, meant) in enumerate(places):
        config = copy.deepcopy(CONFIG)
        misspell(config["tools"]["create_refund"])
        with pytest.raises(ConfigurationError) as refused:
            wrapper(config, tmp_path / str(number))
        assert meant in str(refused.value)
        assert not (tmp_path / str(number)).exists()


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_gated_tool_is_never_asked(wrapper: Callable[..., Any], tmp_path: Path) -> None:
    """In each wrapper a configuration that would ask the gated tool itself, and so do it once more, is refused at the door."""
    config = copy.deepcopy(CONFIG)
    config["tools"]["create_refund"]["lookup"]["tool"] = "create_refund"
    with pytest.raises(ConfigurationError, match="lookup asks 'create_refund', which is gated itself"):
        wrapper(config, tmp_path / "journal")
    assert not (tmp_path / "journal").exists()
