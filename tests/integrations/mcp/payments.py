"""The server behind the proxy, in a process of its own: the contract's refund service as MCP tools. `python payments.py DIRECTORY`.

Where a fault of the service kills "the process", the proxy (its parent) dies with it, and so do the processes that KILL_TOO names.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

from interlock.testing.driver import Place

kill = os.kill


def kill_all(pid: int, number: int) -> None:
    """Those who are to die with us; the proxy last, since this process does not outlive it."""
    if number == signal.SIGKILL and pid == os.getpid() and "KILL_TOO" in os.environ:
        for other in (*json.loads(os.environ["KILL_TOO"]), os.getppid()):
            kill(other, signal.SIGKILL)
    kill(pid, number)


if __name__ == "__main__":
    os.kill = kill_all
    server = MCPServer("payments")
    place = Place(Path(sys.argv[1]), is_async=True)
    for function in place.functions.values():
        server.tool()(function)
    server.run("stdio")
