"""One worker process of a scenario: takes a job as a JSON line, does what the scenario's arm does, answers with a JSON line."""

from __future__ import annotations

import importlib
import sys

import stripe

from benchmarks.harness import log
from benchmarks.harness.supervisor import live_with_supervisor
from benchmarks.suites.e2e.case import Answer
from benchmarks.suites.scenarios.job import Job

MODULE = "benchmarks.suites.scenarios.worker"


def main() -> None:
    """Read the job, do it, answer."""
    live_with_supervisor()
    log.mute()
    line = sys.stdin.readline()
    if line:
        print(perform(Job.model_validate_json(line)).model_dump_json(), flush=True)


def perform(job: Job) -> Answer:
    """What the arm does; errors that an arm without a gate does not handle are its answer, as its user would see them."""
    acts = importlib.import_module(f"benchmarks.suites.scenarios.{job.scenario}_arms").ARMS[job.arm]
    try:
        answer: Answer = acts[job.action](job)
    except stripe.CardError as error:
        return Answer(status="DECLINED", text=str(error.user_message or error))
    except stripe.InvalidRequestError as error:
        return Answer(status="DECLINED", text=str(error.user_message or error), details={"code": error.code})
    except (stripe.APIConnectionError, stripe.APIError) as error:
        return Answer(status="UNCLEAR", text=str(error), retry_after_s=0.2)
    return answer


if __name__ == "__main__":
    main()
