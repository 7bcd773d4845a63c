"""The proxy's own traps, with a client that is nothing but its lines, in both eras."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.decorator import Interlock
from interlock.rules.canonical import derive_id
from interlock.testing.driver import Place, gating
from tests.integrations.mcp.conversation import ENVELOPE, REFUND, Conversation, text_of
from tests.integrations.mcp.driver import environment, proxy_arguments


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(params=[True, False], ids=["modern", "handshake"])
def talk(request: Any, place: Place) -> Iterator[Conversation]:
    with Conversation(place, modern=request.param) as talk:
        yield talk


def outcome_of(result: dict[str, Any]) -> str:
    status: str = result["_meta"]["interlock/outcome"]["status"]
    return status


# --- what a client sees ----------------------------------------------------------------------------------------------------


def test_the_list_shows_what_is_gated(talk: Conversation) -> None:
    """`tools/list` marks the gated tool, hides the argument that the gate fills in, and leaves the other tools as they are."""
    tools = {tool["name"]: tool for tool in talk.answer(talk.ask("tools/list"))["result"]["tools"]}
    gated = tools["create_refund"]
    assert gated["_meta"]["interlock/gated"] == {"key": ["order_id"], "tier": 2}
    assert "at most once per order_id" in gated["description"]
    assert gated["annotations"]["idempotentHint"] is True
    assert "reference" not in gated["inputSchema"]["properties"]
    assert gated["inputSchema"]["required"] == ["order_id", "amount"]
    assert gated["execution"] == {"taskSupport": "forbidden"}
    assert "outputSchema" not in gated, "a looked-up result need not have that form, and a client ends the run over it"
    assert set(tools["get_order"]) == {"name", "inputSchema"}


def test_a_result_carries_outcome_and_receipt(talk: Conversation) -> None:
    """The result of a gated call has what was decided and a receipt that verifies, where no model sees it."""
    from interlock.receipts import Receipt

    result = talk.call(REFUND)
    assert outcome_of(result) == "COMMITTED"
    receipt = Receipt.from_dict(result["_meta"]["interlock/receipt"])
    assert receipt.verify().ok
    assert ("resultType" in result) == talk.modern
    again = talk.call(REFUND)
    assert outcome_of(again) == "DUPLICATE_IGNORED"
    assert again["structuredContent"] == result["structuredContent"]
    assert ("resultType" in again) == talk.modern
    other = talk.call({**REFUND, "amount": 21})
    assert outcome_of(other) == "REFUSED:conflicting_payload"
    assert "interlock/receipt" not in other["_meta"], "it would be the first call's"
    assert result["structuredContent"]["id"] not in json.dumps(other)


def test_a_refusal_is_a_result_and_never_an_error(talk: Conversation) -> None:
    """What is refused comes back as a result with `isError`, with the sentence for the model; nothing reached the tool."""
    talk.place.service.forbid("881")
    result = talk.call(REFUND)
    assert result["isError"] is True
    assert "Calling again will not help" in text_of(result)
    assert talk.place.service.arrivals("881") == 0


def test_the_key_is_the_gates_own_and_not_the_models(talk: Conversation) -> None:
    """Sendmux#115, ComposioHQ/composio#3654: a key that the model makes up, or leaves out, is replaced by the gate's own."""
    talk.call({**REFUND, "reference": "made-up-by-the-model"})
    talk.call({**REFUND, "reference": "made-up-once-more"})
    refunds = talk.place.service.refunds("881")
    assert [refund["reference"] for refund in refunds] == [derive_id("create_refund", "881")]


def test_arguments_that_do_not_fit_are_not_sent(talk: Conversation) -> None:
    """Arguments that the tool's own schema rules out are told to the model before anything is on the record."""
    result = talk.call({"order_id": "881", "amount": "twenty"})
    assert result["isError"] is True
    assert "amount" in text_of(result)
    assert "Nothing was sent" in text_of(result)
    assert talk.place.service.arrivals("881") == 0
    assert not talk.call(REFUND).get("isError")


def test_arguments_that_the_tool_does_not_have_are_told(talk: Conversation) -> None:
    """An argument that a model invents is told to it with the names that there are; it is neither sent nor part of the request."""
    result = talk.call({**REFUND, "urgency": "high"})
    assert result["isError"] is True
    assert "create_refund has no argument 'urgency'; it has: order_id, amount, note." in text_of(result)
    assert "Nothing was sent" in text_of(result)
    assert talk.place.service.arrivals("881") == 0
    assert not talk.call(REFUND).get("isError")
    assert not talk.call({**REFUND, "reference": "made-up"}).get("isError")


def test_what_nobody_can_know_is_logged_once(place: Place) -> None:
    """An effect that is AMBIGUOUS on start stands in the proxy's log once."""
    place.service.lay("kill_after", order_id="881")
    del place.config["tools"]["create_refund"]["lookup"]
    with Conversation(place) as talk:
        talk.ask("tools/call", {"name": "create_refund", "arguments": REFUND})
        assert talk.process.wait(20) == -signal.SIGKILL
    with Conversation(place) as talk:
        talk.answer(talk.ask("tools/list"))
        log = talk.log.read_text()
    assert log.count("AMBIGUOUS") == 1, log


# --- what passes as it came ------------------------------------------------------------------------------------------------


def test_everything_else_passes_as_it_came(talk: Conversation) -> None:
    """What is not a gated call reaches the server byte for byte, also what no version of the protocol knows yet."""
    line = json.dumps(
        talk.request("x/unknown", {"a": [1, 2.50, "\u00e9"]}, own="my-id"), indent=None, separators=(" , ", " : ")
    )
    talk.write(line.encode())
    assert talk.answer("my-id")["error"]["code"] == -32601
    raw = (talk.place.directory / "frames.jsonl").read_text()
    assert line in raw


def test_ids_of_the_client_are_never_taken_for_our_own(talk: Conversation) -> None:
    """A client may name its requests as the proxy does; both are answered, each its own."""
    own = talk.ask("tools/call", {"name": "get_order", "arguments": {"order_id": "881"}}, own="il-1")
    talk.call(REFUND)
    assert any(message and message.get("id") == own for message in talk.heard)
    assert not [m for m in talk.heard if m and str(m.get("id", "")).startswith("il-") and m["id"] != "il-1"]


def test_progress_of_a_gated_call_reaches_the_client(talk: Conversation) -> None:
    """The client's progress token goes with the call, and its progress comes back; a premise's call has none."""
    result = talk.call(REFUND, _meta={"progressToken": "p-1"})
    assert not result.get("isError")
    progress = [message for message in talk.heard if message and message.get("method") == "notifications/progress"]
    assert [message["params"]["progressToken"] for message in progress] == ["p-1"]


def test_facts_are_asked_in_the_clients_era(talk: Conversation) -> None:
    """A premise's call carries the client's envelope where there is one; the server keeps to the era of its first message."""
    talk.call(REFUND)
    asked = [frame for frame in talk.frames() if frame.get("params", {}).get("name") == "get_order"]
    live = [frame for frame in asked if str(frame["id"]).startswith("il-")]
    assert live
    assert all(("_meta" in frame["params"]) == talk.modern for frame in live)


def test_a_gated_call_in_a_batch_is_gated(place: Place) -> None:
    """In a batch of the old era the gated call goes through the gate, and the others to the server."""
    with Conversation(place, modern=False) as talk:
        refund = talk.request("tools/call", {"name": "create_refund", "arguments": REFUND})
        order = talk.request("tools/call", {"name": "get_order", "arguments": {"order_id": "881"}})
        talk.write([order, refund])
        assert not talk.answer(refund["id"])["result"].get("isError")
        again = talk.ask("tools/call", {"name": "create_refund", "arguments": REFUND})
        talk.answer(again)
        assert any(isinstance(one, list) and one[0]["id"] == order["id"] for one in talk.heard), talk.heard
    assert len(place.service.refunds("881")) == 1


def test_a_call_that_can_be_read_in_two_ways_is_not_handed_on(talk: Conversation) -> None:
    """A line with a name twice, which two readers take differently, never reaches the server; nor does a call without an id."""
    twice = json.dumps(talk.request("tools/call", {"name": "get_order", "arguments": REFUND}))
    talk.write(twice.replace('"name": "get_order"', '"name": "create_refund", "name": "get_order"').encode())
    assert talk.answer(None)["error"]["code"] == -32700
    silent = talk.request("tools/call", {"name": "create_refund", "arguments": REFUND})
    del silent["id"]
    talk.write(silent)
    talk.answer(talk.ask("ping") if not talk.modern else talk.ask("tools/list"))
    assert talk.place.service.arrivals("881") == 0


def test_a_task_is_told_that_it_cannot_be_one(place: Place) -> None:
    """A call as a task of 2025-11-25 would answer before anything happened; it is refused with the way out."""
    with Conversation(place, modern=False) as talk:
        result = talk.call(REFUND, task={"ttl": 1000})
        assert result["isError"] is True
        assert "call it without one" in text_of(result)
    assert place.service.arrivals("881") == 0


# --- ends ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("modern", [True, False], ids=["modern", "handshake"])
@pytest.mark.parametrize("at", ["before", "after"])
def test_the_proxy_is_killed_and_its_client_reconnects(place: Place, at: str, modern: bool) -> None:
    """The proxy dies right before or after the send; a new one settles that on start, and the same call under the same id is told it.

    ComposioHQ/composio#3654, MikkoParkkola/mcp-gateway#56: ids of requests begin anew with each connection, so they are no key.
    """
    place.service.lay("kill_before" if at == "before" else "kill_after", order_id="881")
    with Conversation(place, modern=modern) as talk:
        own = talk.ask("tools/call", {"name": "create_refund", "arguments": REFUND})
        assert talk.process.wait(20) == -signal.SIGKILL
    with Conversation(place, modern=modern) as talk:
        again = talk.ask("tools/call", {"name": "create_refund", "arguments": REFUND})
        assert again == own
        result = talk.answer(again)["result"]
        assert not result.get("isError")
        assert result["structuredContent"] == place.service.refunds("881")[0]
        log = talk.log.read_text()
        assert log.count("recovered create_refund '881'") == 1, log
        assert f"interlock: the journal is {place.journal}" in log
    assert len(place.service.refunds("881")) == 1


def test_only_the_proxy_is_killed_while_the_server_sends(place: Place) -> None:
    """The proxy alone is killed in the middle of a send: its server goes with it, and the next proxy makes it happen, once."""
    place.service.lay("slow", order_id="881", delay_s=1.0)
    with Conversation(place) as talk:
        talk.ask("tools/call", {"name": "create_refund", "arguments": REFUND})
        place.service.wait_for_arrival("881")
        talk.kill()
    with Conversation(place) as talk:
        assert not talk.call(REFUND).get("isError")
        time.sleep(1.1)
    assert len(place.service.refunds("881")) == 1


@pytest.mark.parametrize("modern", [True, False], ids=["modern", "handshake"])
def test_the_server_ends_in_the_middle_of_a_call(place: Place, modern: bool) -> None:
    """The server ends after the refund stands: the proxy looks it up in a process of its own, answers, and ends as the server did."""
    with Conversation(place, modern=modern, traits=["exits"]) as talk:
        result = talk.call(REFUND)
        assert outcome_of(result) == "COMMITTED_ON_QUERY"
        assert talk.process.wait(20) == 3
    assert len(place.service.refunds("881")) == 1


def test_the_client_goes_in_the_middle_of_a_call(place: Place) -> None:
    """The client closes its end while a refund is on its way: the proxy stays until that has ended and is on the record."""
    place.service.lay("slow", order_id="881", delay_s=0.4)
    with Conversation(place) as talk:
        talk.ask("tools/call", {"name": "create_refund", "arguments": REFUND})
        place.service.wait_for_arrival("881")
        assert talk.end() == 0
    with Interlock(place.journal) as gate:
        assert gate.journal.load(derive_id("create_refund", "881")).entries[-1].kind == "COMMITTED"


def test_cancelled_gets_no_answer_and_counts(talk: Conversation) -> None:
    """A call that its client cancels gets no answer and is not cancelled at the server: what has left counts, and is told later."""
    talk.place.service.lay("slow", order_id="881", delay_s=0.3)
    own = talk.ask("tools/call", {"name": "create_refund", "arguments": REFUND})
    talk.place.service.wait_for_arrival("881")
    talk.tell("notifications/cancelled", {"requestId": own, **({"_meta": ENVELOPE} if talk.modern else {})})
    talk.place.service.wait_for_refund("881")
    time.sleep(0.2)
    assert not talk.call(REFUND).get("isError")
    assert not any(message and message.get("id") == own for message in talk.heard)
    assert len(talk.place.service.refunds("881")) == 1
    assert not [frame for frame in talk.frames() if frame.get("method") == "notifications/cancelled"]


def test_cancelling_what_is_not_gated_reaches_the_server(talk: Conversation) -> None:
    """The cancellation of a request that the proxy does not hold passes as it came."""
    talk.tell("notifications/cancelled", {"requestId": "other", **({"_meta": ENVELOPE} if talk.modern else {})})
    talk.answer(talk.ask("tools/list"))
    assert [frame for frame in talk.frames() if frame.get("method") == "notifications/cancelled"]


# --- rounds ----------------------------------------------------------------------------------------------------------------


def test_rounds_of_a_tool_that_asks_are_one_proposal(place: Place) -> None:
    """A tool answers `input_required`: that is handed on, is no success, and the next round is the same send under the same key."""
    with Conversation(place, traits=["asks"]) as talk:
        asked = talk.call(REFUND)
        assert asked["resultType"] == "input_required"
        assert place.service.arrivals("881") == 0
        answers = {"q": {"action": "accept", "content": {"sure": True}}}
        result = talk.call(REFUND, inputResponses=answers, requestState=asked["requestState"])
        assert outcome_of(result) == "COMMITTED", result
        assert outcome_of(talk.call(REFUND)) == "DUPLICATE_IGNORED"
    assert len(place.service.refunds("881")) == 1
    with Interlock(place.journal) as gate:
        kinds = [entry.kind for entry in gate.journal.load(derive_id("create_refund", "881")).entries]
    assert kinds == ["PROPOSED", "AUTHORIZED", "DISPATCHED", "COMMITTED"]


def test_a_round_that_is_never_answered_is_nothing_that_happened(place: Place) -> None:
    """A client that does not answer and calls anew is asked anew, and one that goes leaves nothing in doubt."""
    with Conversation(place, traits=["asks"]) as talk:
        talk.call(REFUND)
        assert talk.call(REFUND)["resultType"] == "input_required"
    with Interlock(place.journal) as gate:
        last = gate.journal.load(derive_id("create_refund", "881")).entries[-1]
    assert (last.kind, last.data["reason"]) == ("FAILED", "input_required")
    assert place.service.arrivals("881") == 0
    with Conversation(
        place, traits=["asks"]
    ) as talk:  # another process: the state of the old round belongs to a send that is over
        asked = talk.call(REFUND, inputResponses={"q": {"action": "accept"}}, requestState="stale")
        assert asked["resultType"] == "input_required"
        result = talk.call(REFUND, inputResponses={"q": {"action": "accept"}}, requestState=asked["requestState"])
        assert not result.get("isError")
    assert len(place.service.refunds("881")) == 1


# --- eras ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trait", "modern"), [("old", False), ("new", True)])
def test_a_server_of_one_era_is_recovered_and_served(place: Place, trait: str, modern: bool) -> None:
    """A server that knows only one era is asked for its tools, recovered and served in that one."""
    place.service.lay("kill_before", order_id="881")
    with Conversation(place, modern=modern, traits=[trait]) as talk:
        talk.ask("tools/call", {"name": "create_refund", "arguments": REFUND})
        assert talk.process.wait(20) == -signal.SIGKILL
    with Conversation(place, modern=modern, traits=[trait]) as talk:
        assert not talk.call(REFUND).get("isError")
        assert "recovered create_refund '881': REAPPLIED_AFTER_QUERY" in talk.log.read_text()
    assert len(place.service.refunds("881")) == 1


# --- the door --------------------------------------------------------------------------------------------------------------


def start(place: Place, *options: str, command: tuple[str, ...] = ()) -> tuple[int, str]:
    """A proxy that is to end by itself."""
    arguments = proxy_arguments(place, *options)
    if command:
        arguments = [*arguments[: arguments.index("--") + 1], *command]
    ended = subprocess.run(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, **environment()},
        check=False,
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"premise": {}}, "tools.create_refund.premise is no option; did you mean 'premises'?"),
        ({"idempotency_argument": "referenc"}, "did you mean 'reference'?"),
        ({"key": ["ordr_id"]}, "did you mean 'order_id'?"),
        ({"key": ["reference"]}, "the key cannot be made of 'reference'"),
        ({"premises": {"tool": "get_ordr", "fields": ["refunded_total"]}}, "did you mean 'get_order'?"),
    ],
)
def test_what_cannot_be_kept_is_refused_at_start(place: Place, change: dict[str, Any], sentence: str) -> None:
    """A misspelt option, argument or tool ends the proxy with exit code 2 and a sentence, before any client is answered."""
    place.config = gating(**change)
    code, said = start(place)
    assert code == 2
    assert sentence in said
    assert "Traceback" not in said


def test_a_gated_tool_that_the_server_does_not_have_is_refused_at_start(place: Place) -> None:
    """A tool that the server lacks would run without a gate under its real name."""
    place.config = {"tools": {"create_refunds": gating()["tools"]["create_refund"]}}
    code, said = start(place)
    assert code == 2
    assert "did you mean 'create_refund'?" in said


def test_a_server_that_does_not_start_is_told(place: Place) -> None:
    """A server's command that does not exist, or ends at once, is said so, with exit code 2."""
    code, said = start(place, command=("no-such-program",))
    assert code == 2
    assert "'no-such-program' cannot be started" in said
    code, said = start(place, command=(sys.executable, "-c", "raise SystemExit(7)"))
    assert code == 2
    assert "ended with 7" in said


def test_a_place_to_listen_that_is_none_is_refused(place: Place) -> None:
    """`--http` without a host is told how it is given."""
    code, said = start(place, "--http", "8000")
    assert code == 2
    assert "give a host and a port" in said
