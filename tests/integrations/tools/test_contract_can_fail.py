"""The contract finds a wrapper that does not keep it: a loop without a gate fails its tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from interlock.testing.integration import IntegrationContract, IntegrationDriver, ModelCall, Place, Told


class Ungated(IntegrationDriver):
    """A loop that calls its tools as they are."""

    evidence = ("tool_use_id",)

    def recover(self) -> Sequence[Any]:
        return []

    def run(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        told: list[Told] = []
        for call in calls:
            try:
                told.append(Told(json.dumps(self.place.functions[call.tool](**call.arguments))))
            except Exception as error:
                told.append(Told(str(error), is_error=True))
        return told

    resume = run
    run_with_retry = run


class Contract(IntegrationContract):
    driver = Ungated
    __test__ = False


@pytest.mark.parametrize(
    "name",
    [
        "test_first_call_lands",
        "test_same_call_again_gets_the_first_result",
        "test_other_payload_under_one_key_is_refused",
        "test_refusal_is_told_to_the_model",
        "test_ambiguous_is_told_to_the_model",
        "test_ids_are_on_the_record_and_never_the_key",
        "test_killed_after_the_send_then_resumed",
        "test_recover_settles_without_a_model",
        "test_two_calls_with_a_kill_between",
        "test_lost_answer_after_it_landed",
        "test_parallel_calls_of_one_key",
        "test_two_processes_at_the_same_time",
        "test_driver_says_what_is_not_applicable",
    ],
)
def test_loop_without_a_gate_fails(name: str, tmp_path: Path) -> None:
    """Each of these tests fails for a loop without a gate."""
    place = Place(tmp_path)

    def open_driver(place: Place, *, recover: bool = True) -> IntegrationDriver:
        return Ungated(place)

    test = getattr(Contract(), name)
    arguments = () if name == "test_driver_says_what_is_not_applicable" else (place, open_driver)
    with pytest.raises(AssertionError):
        test(*arguments)
