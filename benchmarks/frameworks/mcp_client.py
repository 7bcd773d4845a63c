"""MCP: a host with the official client, and a payments server over stdio, each a process of its own.

Run as a program it is that server. The server dies in the refund, and its host with it, as when their machine does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness import log
from benchmarks.suites.matrix import arms
from benchmarks.suites.matrix.case import TOOL, Job
from benchmarks.suites.matrix.framework import Framework

FRAMEWORK = Framework(
    name="mcp_client",
    title="MCP client and server",
    packages=("mcp",),
    extra="mcp",
    docs="https://modelcontextprotocol.io/specification/2025-11-25/server/tools (User Interaction Model; a human able to deny invocations)",
    starts="the host keeps the model's tool call, and asks a person, as the specification says of every invocation",
    approves="the host starts the server over stdio and sends `tools/call`",
    persists="nothing by the protocol; the host keeps the call that has no result yet, in a file",
    resumes="the call has no result, so the host asks the person again, starts the server, and sends it again",
    default="the business key of the approved request, made by the server",
    wrapper="interlock.integrations.mcp.protect_server",
    example="mcp_proxy",
    order=75,
)
ROOT = Path(__file__).resolve().parents[2]


def start(job: Job) -> None:
    """Keep the call that the model made."""
    job.save("call", {"name": TOOL, "arguments": job.arguments})


def approve(job: Job) -> Any:
    """Send it."""
    return asyncio.run(_called(job))


def resume(job: Job) -> Any:
    """Ask again, and send it again."""
    if not job.approvals.allows(job.amount_minor):
        return arms.NOT_APPROVED
    return asyncio.run(_called(job))


async def _called(job: Job) -> Any:
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    call = job.saved("call")
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "benchmarks.frameworks.mcp_client", job.model_dump_json()],
        cwd=ROOT,
        env=dict(os.environ),
    )
    try:
        async with Client(stdio_client(server)) as client:
            result = await client.call_tool(call["name"], call["arguments"])
    except Exception:
        if job.die is None:
            raise
        os.kill(os.getpid(), signal.SIGKILL)
    return result.content[0].text  # type: ignore[union-attr]


def serve(job: Job) -> None:
    """Be the payments server, until standard input closes."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("payments", log_level="ERROR")

    @server.tool()
    def create_refund(order_id: str, amount: int, reference: str = "") -> str:
        """Refund part of a payment."""
        return arms.act(job, reference)

    if job.arm == "interlock":
        from interlock.integrations.mcp import protect_server

        protect_server(server, {"tools": {TOOL: arms.effect_of(job)}}, journal=job.journal).recover()
    server.run("stdio")


if __name__ == "__main__":
    log.mute()
    serve(Job.model_validate_json(sys.argv[1]))
