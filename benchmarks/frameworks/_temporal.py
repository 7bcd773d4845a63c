"""Temporal's workflow of a case. Workflows stand at the top of a module, which Temporal's sandbox imports anew; so it is one of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError


@workflow.defn
class Case:
    """Wait for the approval, then refund."""

    def __init__(self) -> None:
        self._approved = False
        self._waits = False

    @workflow.signal
    def approve(self) -> None:
        """The approval is there."""
        self._approved = True

    @workflow.query
    def waits(self) -> bool:
        """Whether it has come to where it waits for the approval."""
        return self._waits

    @workflow.run
    async def run(self, attempt_s: float) -> Any:
        """Returns what the refund's activity told, or what its error says."""
        decided = await workflow.execute_activity("decide", start_to_close_timeout=timedelta(seconds=60))
        self._waits = True
        await workflow.wait_condition(lambda: self._approved)
        try:
            return await workflow.execute_activity(
                "refund",
                decided,
                start_to_close_timeout=timedelta(seconds=attempt_s),
                retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=100)),
            )
        except ActivityError as error:
            cause = error.cause
            if not isinstance(cause, ApplicationError) or not cause.details:
                raise
            return {"status": cause.details[0]["status"], "message": cause.message}
