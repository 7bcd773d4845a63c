"""Faults that people reported of tools behind MCP, where a test of the proxy's own does not have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.server.mcpserver import MCPServer

from interlock.integrations.mcp import protect_server

CONFIG = {
    "tools": {
        "merge_pull": {
            "key": ["number"],
            "premises": {"tool": "get_pull", "arguments": {"number": "number"}, "fields": ["head", "state"]},
            "expect": {"state": "open"},
            "allowed": {"tool": "is_head", "arguments": {"number": "number", "sha": "sha"}, "field": "is_head"},
        }
    }
}


class Forge:
    """A pull request whose head moves."""

    def __init__(self) -> None:
        self.head = "aaa"
        self.merged: list[str] = []

    def get_pull(self, number: int) -> dict[str, Any]:
        """Look at a pull request."""
        return {"head": self.head, "state": "open"}

    def is_head(self, number: int, sha: str) -> dict[str, Any]:
        """Say whether this commit is the head."""
        return {"is_head": sha == self.head}

    def merge_pull(self, number: int, sha: str) -> dict[str, Any]:
        """Merge whatever is the head now, as a merge without an expected head does."""
        self.merged.append(self.head)
        return {"merged": self.head}


async def merge(forge: Forge, journal: Path, sha: str) -> Any:
    """What a client is told that merges what was reviewed."""
    server = MCPServer("forge")
    for tool in (forge.merge_pull, forge.get_pull, forge.is_head):
        server.tool()(tool)
    gate = protect_server(server, CONFIG, journal=journal)
    await gate.arecover()
    try:
        async with Client(server) as client:
            return await client.call_tool("merge_pull", {"number": 7, "sha": sha})
    finally:
        gate.close()


@pytest.mark.parametrize("moves", [False, True])
async def test_what_was_reviewed_is_what_is_merged(tmp_path: Path, moves: bool) -> None:
    """github-mcp-server#3181: a commit pushed after the review is not merged; the reviewed head is a condition, read at the send."""
    forge = Forge()
    reviewed = forge.head
    if moves:
        forge.head = "evil"
    result = await merge(forge, tmp_path / "journal", reviewed)
    assert forge.merged == ([] if moves else ["aaa"])
    assert bool(result.is_error) is moves
    if moves:
        assert "Calling again will not help" in result.content[0].text
