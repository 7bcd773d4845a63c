"""The seam for wrappers: what is refused when it is built, what a call is answered with, and what stands on the record."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
import logging
import math
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr
from typing_extensions import TypedDict

from interlock import Budget, ConfigurationError, Interlock, JournalError, Rejected, Status, Verdict, matches
from interlock.extend import Effect, Parameters, ProtectedTools, ToolFailed, ToolGate, load
from interlock.rules.values import raised_in
from interlock.testing import SimulatedCrash
from interlock.tools import protect

CONFIG: dict[str, Any] = {
    "tools": {
        "create_refund": {
            "key": ["order_id"],
            "premises": {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["refunded_total"]},
            "lookup": {"tool": "find_refund", "arguments": {"reference": "$effect_id"}, "found": "found"},
            "idempotency_argument": "reference",
            "dedupes": False,
            "settle_after": 0,
        }
    }
}


class Service:
    """Tools over a list; what each was called with is kept."""

    def __init__(self) -> None:
        self.refunds: list[dict[str, Any]] = []
        self.order: dict[str, Any] = {"refunded_total": 0, "refund": {"parts": [{"total": 0}]}, "open": True}
        self.contexts: list[Any] = []
        self.fails: BaseException | None = None

    def create_refund(self, arguments: dict[str, Any], context: Any) -> Any:
        self.contexts.append(context)
        if self.fails is not None:
            raise self.fails
        self.refunds.append(arguments)
        return {"id": f"re_{len(self.refunds)}", **arguments}

    def get_order(self, arguments: dict[str, Any], context: Any) -> Any:
        self.contexts.append(context)
        return self.order

    def find_refund(self, arguments: dict[str, Any], context: Any) -> Any:
        found = [refund for refund in self.refunds if refund["reference"] == arguments["reference"]]
        return {"found": bool(found), "refund": found[0] if found else None, "all": self.refunds}

    @property
    def tools(self) -> dict[str, Any]:
        return {
            "create_refund": self.create_refund,
            "get_order": self.get_order,
            "find_refund": self.find_refund,
        }


def config(**options: Any) -> dict[str, Any]:
    """The refund's configuration with options; None leaves one out."""
    made = copy.deepcopy(CONFIG)
    tool = made["tools"]["create_refund"]
    tool.update(options)
    made["tools"]["create_refund"] = {name: how for name, how in tool.items() if how is not None}
    return made


@pytest.fixture
def service() -> Service:
    return Service()


def gate(service: Service, tmp_path: Path, how: Any = None) -> ToolGate:
    """A gate over the service's tools, recovered."""
    made = ToolGate(CONFIG if how is None else how, tools=service.tools, journal=tmp_path / "journal")
    made.recover()
    return made


CALL = {"order_id": "881", "amount": 20}
OPEN = {"order_id": "882", "amount": 20, "note": "late"}


def test_first_call_and_replay_are_told_the_same(service: Service, tmp_path: Path) -> None:
    """The configuration of the README works as it stands: a call lands once, and a second one is told the same value and text."""
    with gate(service, tmp_path) as tools:
        first = tools.call("create_refund", CALL, evidence={"tool_call_id": "call_1", "step": 3, "none": None})
        second = tools.call("create_refund", CALL)
    assert (first.ok, second.ok, str(second.outcome)) == (True, True, "DUPLICATE_IGNORED")
    assert first.message == second.message
    assert first.value == second.value == first.raw
    assert len(service.refunds) == 1
    proposed = first.outcome.receipt().entries[0]["data"]
    assert proposed["origin"] == {"tool_call_id": "call_1", "step": 3}
    assert proposed["payload"] == {"arguments": CALL}
    assert service.refunds[0]["reference"] == first.outcome.effect_id
    assert first.as_dict().keys() == {"status", "ok", "message", "value", "effect_id", "key"}


def test_origin_is_no_part_of_identity(service: Service, tmp_path: Path) -> None:
    """Two calls that differ in the framework's ids alone are one request, with one digest."""
    with gate(service, tmp_path) as tools:
        tools.call("create_refund", CALL, evidence={"tool_call_id": "a"})
        again = tools.call("create_refund", CALL, evidence={"tool_call_id": "b"})
    assert str(again.outcome) == "DUPLICATE_IGNORED"


def test_models_own_reference_is_dropped(service: Service, tmp_path: Path) -> None:
    """A model that fills in the gate's own argument changes nothing: it is neither payload nor sent."""
    with gate(service, tmp_path) as tools:
        first = tools.call("create_refund", {**CALL, "reference": "mine"})
        again = tools.call("create_refund", {**CALL, "reference": "another"})
    assert service.refunds[0]["reference"] == first.outcome.effect_id
    assert str(again.outcome) == "DUPLICATE_IGNORED"


def test_bad_input_is_answered_and_not_journalled(service: Service, tmp_path: Path) -> None:
    """Arguments that cannot be taken are answered with what to correct, and leave nothing on the journal."""
    with gate(service, tmp_path) as tools:
        answers = [
            tools.call("create_refund", arguments)
            for arguments in (
                {"amount": 20},
                {"order_id": ""},
                {"order_id": 8.5},
                {**CALL, "amount": float("nan")},
                ["881"],
            )
        ]
        assert all(answer.is_error and str(answer.outcome) == "REFUSED:bad_input" for answer in answers)
        assert all("Correct the arguments and call again" in answer.message for answer in answers)
        assert "'order_id' is missing" in answers[0].message
        assert tools.interlock.journal.open_effects() == []
    assert service.refunds == []


def test_missing_premise_is_an_error_and_never_unchanged(service: Service, tmp_path: Path) -> None:
    """A field that the answer lacks stops the call, though it lacked it before, too; nothing is sent and nothing journalled."""
    service.order = {"other": 1}
    with gate(service, tmp_path) as tools:
        answers = [tools.call("create_refund", CALL) for _ in range(2)]
    assert {str(answer.outcome) for answer in answers} == {"REFUSED:unreadable"}
    assert "no 'refunded_total'" in answers[0].outcome.detail
    assert service.refunds == []


def test_missing_found_is_not_absence(service: Service, tmp_path: Path) -> None:
    """A look-up whose answer lacks the field says nothing: the effect stays open and is not sent again."""
    how = config(lookup={"tool": "get_order", "arguments": {"reference": "$effect_id"}, "found": "refund.there"})
    service.fails = TimeoutError("no answer")
    with gate(service, tmp_path, how) as tools:
        answer = tools.call("create_refund", CALL)
        service.fails = None
        assert str(answer.outcome) == "IN_FLIGHT:lookup_failed"
        assert str(tools.call("create_refund", CALL).outcome) == "IN_FLIGHT:lookup_failed"
    assert service.refunds == []


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"tools": {}}, "gates no tool"),
        ({"tools": {"create_refnd": {"key": "order_id"}}}, "was not handed over; did you mean 'create_refund'?"),
        (config(premises={"tool": "get_ordr", "fields": "x"}), "premises asks the tool 'get_ordr'"),
        (
            config(lookup={"tool": "find", "arguments": {"a": "$effect_id"}, "found": "x"}),
            "lookup asks the tool 'find'",
        ),
        (config(idempotency_argument=None), "the tool never gets it"),
        (config(idempotency_argument=None, lookup=None, dedupes=True), "nothing carries the key"),
        (config(expect={"refundd_total": 5}), "expect names 'refundd_total'"),
        (config(premises=None, expect={"refunded_total": 5}), "expect without premises"),
        (
            config(premises=[{"tool": "get_order", "fields": "open"}, {"tool": "get_order", "fields": "open"}]),
            "two premises are named 'open'",
        ),
        (config(binds=["order.id"]), "name whole arguments"),
        ({"create_refund": Effect(key=lambda order_id, /: order_id)}, "by position"),
    ],
)
def test_what_cannot_be_kept_is_refused_when_it_is_built(
    how: Any, expected: str, service: Service, tmp_path: Path
) -> None:
    """Each option that could not do what it says is refused at the door."""
    with pytest.raises(ConfigurationError) as raised:
        gate(service, tmp_path, how)
    assert expected in str(raised.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"lookup": {"tool": "create_refund", "arguments": {"reference": "$effect_id"}, "found": "id"}},
            "lookup asks 'create_refund', which is gated itself",
        ),
        ({"premises": {"tool": "send_mail", "fields": ["sent"]}}, "premises asks 'send_mail', which is gated itself"),
        ({"allowed": {"tool": "send_mail", "field": "sent"}}, "asks 'send_mail', which is gated itself"),
        ({"approval": {"tool": "send_mail", "field": "sent"}}, "asks 'send_mail', which is gated itself"),
    ],
)
@pytest.mark.parametrize("mail", [{"key": "to"}, Effect(key=lambda to: to)], ids=["data", "Python"])
def test_a_gated_tool_checks_nothing(mail: Any, options: Any, said: str, service: Service, tmp_path: Path) -> None:
    """A tool that is gated is never asked for a fact, since it would be done each time, past the gate."""
    how = config(**options)
    how["tools"]["send_mail"] = mail
    tools = {**service.tools, "send_mail": lambda arguments, context: {"sent": True}}
    with pytest.raises(ConfigurationError) as refused:
        ToolGate(how, tools=tools, journal=tmp_path / "journal")
    assert said in str(refused.value)
    assert not (tmp_path / "journal").exists()


def test_whatever_is_found_may_count_as_ours_on_purpose(service: Service, tmp_path: Path) -> None:
    """Where a service allows one per order, a look-up by the order takes what anybody did for it, if the configuration says so."""
    service.order["refund"] = {"id": "by hand"}
    service.fails = TimeoutError("no answer")
    asked = {"tool": "get_order", "arguments": {"order_id": "order_id"}, "found": "refund", "counts_as_ours": True}
    with gate(service, tmp_path, config(lookup=asked)) as made:
        answer = made.call("create_refund", CALL)
    assert (str(answer.outcome), answer.value) == ("COMMITTED_ON_QUERY", {"id": "by hand"})


@pytest.mark.parametrize(
    "wrong", [{"found": "fond"}, {"result": "refnd"}, {"found": {"items": "found", "where": {"a": "$effect_id"}}}]
)
@pytest.mark.parametrize("runs_async", [False, True])
def test_a_look_up_that_is_configured_wrongly_is_an_operators(
    runs_async: bool, wrong: Any, service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A path that leads to nothing is told once at ERROR and to a person, and a model hears that an operator has to look."""
    how = config(lookup={**CONFIG["tools"]["create_refund"]["lookup"], **wrong})
    send = service.create_refund

    def lost(arguments: dict[str, Any], context: Any) -> Any:
        send(arguments, context)
        raise TimeoutError("no answer")

    tools = {**service.tools, "create_refund": lost}
    if runs_async:

        async def find(arguments: dict[str, Any], context: Any) -> Any:
            return service.find_refund(arguments, context)

        tools["find_refund"] = find
    with ToolGate(how, tools=tools, journal=tmp_path / "journal") as made:
        made.recover()
        answers = [made.call("create_refund", CALL) for _ in range(2)]
    for answer in answers:
        assert str(answer.outcome) == "IN_FLIGHT:lookup_failed"
        assert answer.message == (
            "It is not known yet whether it happened; an operator has to look at the gate's configuration. Calling again will not help "
            "until then."
        )
        assert "The configuration of 'lookup' has to be corrected" in answer.outcome.for_person
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1
    assert len(service.refunds) == 1


def test_a_model_hears_nothing_of_the_inside(service: Service, tmp_path: Path) -> None:
    """A check that raised may be tried again, one that is configured wrongly may not; neither tells a model of classes and functions."""
    permission = {"tool": "get_order", "field": "opn"}
    with gate(service, tmp_path / "a", config(allowed=permission)) as made:
        answer = made.call("create_refund", CALL)
    assert answer.message.startswith("Not done: what it depends on could not be read, so nothing was sent; an operator")
    service.order["open"] = "yes"
    with gate(service, tmp_path / "b", config(allowed={**permission, "field": "open"})) as made:
        assert "an operator has to look" in made.call("create_refund", CALL).message
    tools = {**service.tools, "get_order": lambda arguments, context: {}["no such order"]}
    with ToolGate(CONFIG, tools=tools, journal=tmp_path / "c") as made:
        made.recover()
        answer = made.call("create_refund", CALL)
    assert answer.message == (
        "Not done: what it depends on could not be read, so nothing was sent. It can be tried again later."
    )
    assert "KeyError" in answer.outcome.detail
    asks = {"tool": "get_order", "arguments": {"order_id": "note"}, "fields": ["refunded_total"]}
    with gate(service, tmp_path / "d", config(premises=asks)) as made:
        answer = made.call("create_refund", CALL)
    assert answer.message == (
        "Not done: the argument 'note' is missing. Nothing was sent. Correct the arguments and call again."
    )
    assert service.refunds == []


@pytest.mark.parametrize("limit", [{"at_most": 5}, {"at_least": 5}], ids=json.dumps)
def test_a_fact_that_its_condition_cannot_judge_is_an_operators(
    service: Service, tmp_path: Path, limit: dict[str, Any]
) -> None:
    """A text that is compared with a number: no later call will do, and the model hears so."""
    service.order["refunded_total"] = "7"
    with gate(service, tmp_path, config(expect={"refunded_total": limit})) as made:
        answer = made.call("create_refund", CALL)
    assert str(answer.outcome) == "REFUSED:unreadable"
    assert answer.message.startswith("Not done: what it depends on could not be read, so nothing was sent; an operator")
    assert service.refunds == []


def test_a_mistake_in_a_file_is_told_with_the_file(service: Service, tmp_path: Path) -> None:
    """What is found out beside the tools names the file as what is found out in it does; a dict has no name."""
    file = tmp_path / "gate.json"
    file.write_text(json.dumps(config(binds=["order.id"])))
    with pytest.raises(ConfigurationError) as refused:
        ToolGate(load(file), tools=service.tools, journal=tmp_path / "journal")
    assert str(refused.value).startswith(f"{file}: tool 'create_refund': binds= names")
    file.write_text(json.dumps(config(key=["orderid"])))
    with pytest.raises(ConfigurationError) as refused:
        ToolGate(file, tools=service.tools, journal=tmp_path / "journal", parameters=PARAMETERS)
    assert str(refused.value).startswith(f"{file}: tool 'create_refund': key names")


def test_nested_paths_literals_and_lists(service: Service, tmp_path: Path) -> None:
    """Facts come from nested paths under names of one's own, arguments from literals, and a look-up finds our item of a list."""
    how = config(
        key=["order.id", "part"],
        premises={
            "tool": "get_order",
            "arguments": {"kind": {"literal": 5}},
            "fields": {"total": "refund.parts.0.total"},
        },
        lookup={
            "tool": "find_refund",
            "arguments": {"reference": "$effect_id"},
            "found": {"items": "all", "where": {"reference": "$effect_id"}},
        },
    )
    arguments = {"order": {"id": "8:1"}, "part": 2, "amount": 20}
    with gate(service, tmp_path, how) as tools:
        answer = tools.call("create_refund", arguments)
        assert answer.outcome.key == "8%3A1:2"
        assert answer.outcome.receipt().entries[0]["data"]["seen"] == {"total": 0}
        found = tools.effects["create_refund"].look_up({"arguments": arguments}, answer.outcome.effect_id)
        assert found == service.refunds[0]
        assert tools.effects["create_refund"].look_up({"arguments": arguments}, "nobody's") is None


@pytest.mark.parametrize(
    ("said", "value", "holds"),
    [
        ({"equals": 0}, 0, True),
        (0, 5, False),
        ({"one_of": [1, 2]}, 2, True),
        ({"one_of": [1, 2]}, 3, False),
        ({"at_least": 10}, 10, True),
        ({"at_least": {"argument": "amount"}}, 19, False),
        ({"at_least": {"argument": "amount"}}, 20, True),
        ({"at_most": {"argument": "amount"}}, 21, False),
        ({"unchanged": True}, 7, True),
    ],
)
def test_conditions_of_a_configuration(said: Any, value: Any, holds: bool, service: Service, tmp_path: Path) -> None:
    """Each condition judges the fact as it says, also against an argument of the call."""
    service.order["refunded_total"] = value
    with gate(service, tmp_path, config(expect={"refunded_total": said})) as tools:
        answer = tools.call("create_refund", CALL)
    assert str(answer.outcome) == ("COMMITTED" if holds else "REFUSED:premise_false")


@pytest.mark.parametrize(
    ("rule", "now", "tolerated"),
    [
        ({"increase": True}, 9, True),
        ({"increase": True}, 1, False),
        ({"to": [1]}, 1, True),
        ({"decrease": True}, 9, False),
    ],
)
def test_tolerated_changes(rule: Any, now: Any, tolerated: bool, service: Service, tmp_path: Path) -> None:
    """A change of the declared harmless kind between decision and send is tolerated, another is not."""
    service.order["refunded_total"] = 5
    how = config(expect={"refunded_total": {"tolerates": {"why": "harmless here", **rule}}})
    with gate(service, tmp_path, how) as tools:
        proposal = tools.effects["create_refund"].proposal(arguments=CALL)
        service.order["refunded_total"] = now
        outcome = tools.interlock.submit(proposal)
    assert outcome.ok is tolerated


def test_permission_must_be_true_or_false(service: Service, tmp_path: Path) -> None:
    """Permission and approval both must be true; anything that is neither true nor false stops the call."""
    how = config(
        allowed={"tool": "get_order", "field": "open"}, approval={"tool": "get_order", "field": ["open", "also"]}
    )
    with gate(service, tmp_path, how) as tools:
        for order, code in (
            ({"also": True}, "COMMITTED"),
            ({"also": False}, "REFUSED:lease"),
            ({"also": 1}, "REFUSED:unreadable"),
        ):
            service.order = {"refunded_total": 0, "open": True, **order}
            assert str(tools.call("create_refund", {"order_id": code, "amount": 1}).outcome) == code


def test_budget_is_shared(service: Service, tmp_path: Path) -> None:
    """A configured cap is shared by calls, and the model is told not to split a call up."""
    how = config(budget={"key": ["customer", {"literal": "refunds"}], "limit": 50, "amount": "amount"})
    with gate(service, tmp_path, how) as tools:
        assert tools.call("create_refund", {"order_id": "1", "amount": 30, "customer": "7"}).ok
        over = tools.call("create_refund", {"order_id": "2", "amount": 30, "customer": "7"})
        assert str(over.outcome) == "REFUSED:over_limit"
        assert tools.call("create_refund", {"order_id": "3", "amount": 30, "customer": "8"}).ok


def test_binds_lets_the_rest_differ(service: Service, tmp_path: Path) -> None:
    """With binds a reworded reason is the same request, and a changed amount is not; what was recorded first is sent."""
    with gate(service, tmp_path, config(binds=["order_id", "amount"])) as tools:
        assert tools.call("create_refund", {**CALL, "note": "broken"}).ok
        assert str(tools.call("create_refund", {**CALL, "note": "damaged"}).outcome) == "DUPLICATE_IGNORED"
        assert str(tools.call("create_refund", {**CALL, "amount": 21}).outcome) == "REFUSED:conflicting_payload"
    assert [refund["note"] for refund in service.refunds] == ["broken"]


PRICED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string"},
        "amount": {"type": "integer"},
        "reference": {"type": "string"},
        "currency": {"type": "string", "default": "usd"},
    },
    "required": ["order_id", "amount", "reference"],
}


def tell(service: Service, tmp_path: Path, takes: Parameters, *calls: dict[str, Any], **options: Any) -> list[str]:
    """The codes of calls to a tool that takes this, through a gate of its own."""
    with ToolGate(
        config(premises=None, **options),
        tools=service.tools,
        journal=tmp_path / "journal",
        parameters={"create_refund": takes},
    ) as made:
        made.recover()
        return [str(made.call("create_refund", call).outcome) for call in calls]


def test_one_request_in_two_spellings(service: Service, tmp_path: Path) -> None:
    """A call that differs from the record in what its tool takes for the same is that request; what was recorded first is what was sent."""
    takes = Parameters.of_schema(PRICED)
    spelled_out = {**CALL, "currency": "usd"}
    assert tell(service, tmp_path, takes, CALL, spelled_out, {**CALL, "currency": "eur"}, {**CALL, "amount": 21}) == [
        "COMMITTED",
        "DUPLICATE_IGNORED",
        "REFUSED:conflicting_payload",
        "REFUSED:conflicting_payload",
    ]
    assert "currency" not in service.refunds[0]
    second = {**spelled_out, "order_id": "882"}
    assert tell(service, tmp_path, takes, second, {**CALL, "order_id": "882"}) == ["COMMITTED", "DUPLICATE_IGNORED"]
    assert service.refunds[1]["currency"] == "usd"


def test_an_argument_that_a_tool_takes_since_then_makes_no_other_request(service: Service, tmp_path: Path) -> None:
    """What was done before a tool got a further argument is still done; with another value than its default it is another request."""
    before = Parameters(("order_id", "amount", "reference"))
    assert tell(service, tmp_path, before, CALL) == ["COMMITTED"]
    since = Parameters.of_schema(PRICED)
    assert tell(service, tmp_path, since, {**CALL, "currency": "usd"}, {**CALL, "currency": "eur"}) == [
        "DUPLICATE_IGNORED",
        "REFUSED:conflicting_payload",
    ]
    assert len(service.refunds) == 1


def test_what_a_tool_makes_of_its_arguments_is_compared(service: Service, tmp_path: Path) -> None:
    """A tool that converts tells what it would get; what it would not take, and what only looks alike, stays another request."""

    def meant(given: Any) -> dict[str, Any]:
        return {**given, "amount": int(given["amount"])}

    def hidden(given: Any) -> dict[str, Any]:
        return {**given, "amount": SecretStr(str(given["amount"]))}

    takes = Parameters.of_schema(PRICED)._replace(meant=meant)
    texts = [{**CALL, "amount": amount} for amount in ("20", "twenty", True)]
    assert (
        tell(service, tmp_path, takes, CALL, *texts)
        == ["COMMITTED", "DUPLICATE_IGNORED"] + ["REFUSED:conflicting_payload"] * 2
    )
    other = {**CALL, "order_id": "882"}
    assert tell(service, tmp_path, takes._replace(meant=hidden), other, {**other, "amount": 21}) == [
        "COMMITTED",
        "REFUSED:conflicting_payload",
    ]


def test_a_tools_own_types_never_end_a_call(service: Service, tmp_path: Path) -> None:
    """A default that is no data is the same one in both calls; types that cannot be compared leave it at another request."""

    class Stubborn:
        def __eq__(self, other: object) -> bool:
            raise TypeError("not comparable")

        __hash__ = object.__hash__

    client = object()
    takes = Parameters.of_schema(PRICED)._replace(meant=lambda given: {"currency": "usd", "client": client, **given})
    assert tell(service, tmp_path, takes, CALL, {**CALL, "currency": "usd"}) == ["COMMITTED", "DUPLICATE_IGNORED"]
    takes = takes._replace(meant=lambda given: {**given, "client": Stubborn()})
    other = {**CALL, "order_id": "882"}
    assert tell(service, tmp_path, takes, other, {**other, "currency": "usd"}) == [
        "COMMITTED",
        "REFUSED:conflicting_payload",
    ]


def test_spelling_counts_only_in_what_binds(service: Service, tmp_path: Path) -> None:
    """With binds the other arguments may differ by more than their spelling, and the bound ones by their spelling."""
    takes = Parameters.of_schema({**PRICED, "properties": {**PRICED["properties"], "note": {"type": "string"}}})
    reworded = {**CALL, "note": "broken", "currency": "usd"}
    codes = tell(
        service, tmp_path, takes, CALL, reworded, {**reworded, "amount": 21}, binds=["order_id", "amount", "currency"]
    )
    assert codes == ["COMMITTED", "DUPLICATE_IGNORED", "REFUSED:conflicting_payload"]


@pytest.mark.parametrize("then", [None, ["order_id"]])
def test_binds_that_is_named_later(then: list[str] | None, service: Service, tmp_path: Path) -> None:
    """Once `binds` says what counts, what was done before is judged by that, too, and what a crash left open is settled."""
    takes = Parameters.of_schema({**PRICED, "properties": {**PRICED["properties"], "note": {"type": "string"}}})
    assert tell(service, tmp_path, takes, {**CALL, "note": "broken"}, binds=then) == ["COMMITTED"]
    with ToolGate(config(premises=None, binds=then), tools=service.tools, journal=tmp_path / "journal") as made:
        bound = {name: OPEN[name] for name in then or OPEN}
        rest = {} if then is None else {"unbound": {name: OPEN[name] for name in OPEN if name not in bound}}
        proposal = made.effects["create_refund"].proposal(arguments=bound, **rest)
        with pytest.raises(SimulatedCrash):
            made.interlock.submit(proposal, crash_before_effect=True)
    calls = [{**CALL, "note": "damaged"}, {**CALL, "amount": 21}, {**OPEN, "note": "damaged"}]
    assert tell(service, tmp_path, takes, *calls, binds=["order_id", "amount"]) == [
        "DUPLICATE_IGNORED",
        "REFUSED:conflicting_payload",
        "DUPLICATE_IGNORED",
    ]
    assert [(refund["order_id"], refund["note"]) for refund in service.refunds] == [("881", "broken"), ("882", "late")]


@pytest.mark.parametrize(("rejected", "code"), [(False, "AMBIGUOUS"), (True, "FAILED:rejected")])
def test_error_result_of_a_tool(
    rejected: bool, code: str, service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A tool's error result leaves the fate unknown, unless it is declared to mean that nothing happened.

    The log says in one line which option declares it: an answer is no crash, and needs no traceback.
    """
    service.fails = ToolFailed("card declined")
    with gate(service, tmp_path, config(lookup=None, rejected_on_error=rejected)) as tools:
        answer = tools.call("create_refund", CALL)
    assert str(answer.outcome) == code
    assert ("card declined" in answer.message) is rejected
    logged = [record for record in caplog.records if "card declined" in record.getMessage()]
    assert all(record.exc_info is None for record in logged)
    assert ["rejected_on_error" in record.getMessage() for record in logged] == ([] if rejected else [True])
    assert not any("rejected_on=" in record.getMessage() for record in logged)


def test_an_effect_may_judge_an_error_result_itself(service: Service, tmp_path: Path) -> None:
    """What an `Effect` says of `ToolFailed`, by its type or by a function that sees what the tool answered, stands."""
    service.fails = ToolFailed({"code": "declined"})

    def judge(error: BaseException) -> Verdict | None:
        return Verdict.REJECTED if isinstance(error, ToolFailed) and error.result["code"] == "declined" else None

    for number, how in enumerate(
        (
            Effect(key=lambda order_id: order_id, classify=judge),
            Effect(key=lambda order_id: order_id, rejected_on=ToolFailed),
        )
    ):
        with gate(service, tmp_path / str(number), {"create_refund": how}) as tools:
            assert tools.call("create_refund", CALL).outcome.status is Status.FAILED


def test_what_was_said_is_said_once(service: Service, tmp_path: Path) -> None:
    """A tool's reason for not doing it reaches the model, one time."""
    service.fails = Rejected("the slot is taken")
    with gate(service, tmp_path) as tools:
        assert tools.call("create_refund", CALL).message.count("the slot is taken") == 1


def test_context_reaches_the_tools_and_never_the_record(service: Service, tmp_path: Path) -> None:
    """The framework's live object is handed to the tool and to those asked for it in this call; recovery hands over None."""
    live = object()
    with gate(service, tmp_path) as tools:
        answer = tools.call("create_refund", CALL, context=live)
        assert service.contexts == [live, live]
        assert "context" not in answer.outcome.receipt().entries[0]["data"]["payload"]
        service.contexts.clear()
        tools.interlock.submit(tools.effects["create_refund"].proposal(arguments={"order_id": "9", "amount": 1}))
        assert set(service.contexts) == {None}


def test_python_effects_take_arguments_by_name(service: Service, tmp_path: Path) -> None:
    """An `Effect` in Python has callbacks that name the tool's arguments, conditions that do so, and a look-up by key."""
    how = Effect(
        key=lambda order_id: f"refund:{order_id}",
        premises=lambda order_id: {"left": 100},
        expect={"left": matches(lambda now, amount: now >= amount)},
        allowed=lambda amount, context=None: amount < 1000,
        budget=lambda amount: Budget("all", 500, amount),
        lookup=lambda idempotency_key: None,
        idempotency_argument="reference",
    )
    with gate(service, tmp_path, {"create_refund": how}) as tools:
        assert tools.call("create_refund", CALL).outcome.key == "refund:881"
        assert str(tools.call("create_refund", {"order_id": "2", "amount": 101}).outcome) == "REFUSED:premise_false"
        assert "'amount' is missing" in tools.call("create_refund", {"order_id": "3"}).message
    assert len(service.refunds) == 1


def test_sync_call_of_an_async_tool(tmp_path: Path) -> None:
    """A sync call awaits an async tool on a loop of its own; inside a running loop it is refused, and says what to await."""
    done: list[Any] = []

    async def create(arguments: dict[str, Any], context: Any) -> Any:
        await asyncio.sleep(0)
        done.append(arguments)
        return "refunded"

    with ToolGate(
        {"create_refund": Effect(key=lambda order_id: order_id)},
        tools={"create_refund": create},
        journal=tmp_path / "j",
    ) as tools:
        tools.recover()
        assert tools.call("create_refund", CALL).message == "refunded"

        async def inside() -> None:
            with pytest.raises(
                ConfigurationError, match=r"Await acall\(\) instead \(in place of reply\(\): areply\(\)\)\."
            ):
                tools.call("create_refund", {"order_id": "2"})
            with pytest.raises(ConfigurationError, match=r"Await arecover\(\)"):
                tools.recover()
            assert (await tools.acall("create_refund", {"order_id": "2"})).ok

        asyncio.run(inside())
    assert len(done) == 2


def test_handed_over_gate_stays_open(service: Service, tmp_path: Path) -> None:
    """A gate on an `Interlock` of the caller's leaves it open, and its effects stand beside the caller's own."""
    with Interlock(tmp_path / "journal") as own:
        ToolGate(CONFIG, tools=service.tools, journal=own).close()
        own.recover()
        assert own.effects["create_refund"].submit((), {"arguments": CALL, "context": None}).ok


@pytest.mark.parametrize("module", ["interlock", "interlock.tools", "interlock.extend", "interlock.config"])
def test_bare_import_pulls_in_no_framework(module: str) -> None:
    """What a bare install imports brings in nothing but pydantic and rfc8785 from outside."""
    code = (
        f"import sys, {module}; import pydantic.json_schema\n"
        "tops = {name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)\n"
        "print(sorted(tops & {'langchain_core', 'langgraph', 'agents', 'openai', 'anthropic', 'google', 'mcp', 'fastmcp', "
        "'pydantic_ai', 'stripe', 'httpx', 'httpx2', 'anyio', 'pytest'}))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_other_arguments_are_told_what_the_first_ones_came_to(tmp_path: Path) -> None:
    """A call with other arguments under a key that is done is refused and told so, and of the first call nothing but its fate."""
    service = Service()
    with ToolGate(CONFIG, tools=service.tools, journal=tmp_path) as gate:
        gate.recover()
        gate.call("create_refund", {"order_id": "881", "amount": 20})
        refused = gate.call("create_refund", {"order_id": "881", "amount": 21})
    assert refused.message.startswith("Refused: this request was already made with other arguments.")
    assert refused.message.endswith("The first one was done.")
    assert "re_1" not in refused.message, "what the first call was told may be about another customer"


def test_other_arguments_are_told_that_nobody_knows_of_the_first_ones(service: Service, tmp_path: Path) -> None:
    """Under a key whose first effect is AMBIGUOUS other arguments are refused with just that; under one that failed, with that."""
    service.fails = TimeoutError("no answer")
    unknown = {"order_id": "881", "amount": 20}
    with gate(service, tmp_path, config(lookup=None, premises=None)) as made:
        assert made.call("create_refund", unknown).outcome.status == "AMBIGUOUS"
        refused = made.call("create_refund", {**unknown, "amount": 21})
        assert str(refused.outcome) == "REFUSED:conflicting_payload"
        assert "It is unknown whether the first one happened; a person has to check." in refused.message
        assert "Nobody knows whether the first one happened" in refused.outcome.for_person
        service.fails = Rejected("no money")
        assert made.call("create_refund", {**unknown, "order_id": "882"}).outcome.status == "FAILED"
        refused = made.call("create_refund", {"order_id": "882", "amount": 21})
        assert refused.message.endswith("The first one was not done.")


def test_what_a_tool_raises_is_one_line_with_its_place(
    service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception of a tool is told in one line, with the place in the user's own code; its traceback is for who asks for it."""
    caplog.set_level(logging.DEBUG, logger="interlock")
    service.fails = ValueError("no\nanswer " + "x" * 5000)
    with gate(service, tmp_path, config(lookup=None, premises=None)) as made:
        made.call("create_refund", CALL)
        asyncio.run(made.acall("create_refund", {**CALL, "order_id": "882"}))
    logged = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(logged) == 2
    for record in logged:
        said = logging.Formatter().format(record)
        assert "create_refund raised ValueError: no answer xxx" in said
        assert f"in create_refund ({__file__}:" in said
        assert "\n" not in said
        assert len(said) < 1000
    traced = [record for record in caplog.records if record.exc_info]
    assert len(traced) == 2
    assert all(
        record.levelno == logging.DEBUG and "Traceback" in logging.Formatter().format(record) for record in traced
    )


def test_the_place_of_an_exception_is_the_users() -> None:
    """Of a traceback that ends in a library the last frame of the user's own code is named."""
    with pytest.raises(ValueError, match="property name") as raised:
        json.loads("{")
    assert f"in test_the_place_of_an_exception_is_the_users ({__file__}:" in raised_in(raised.value)
    assert raised_in(KeyError("a")) == "KeyError: 'a'", "never raised, so from nowhere"


def test_not_known_yet_is_not_told_as_under_way(service: Service, tmp_path: Path) -> None:
    """After the tool itself raised, nobody works on it: the model is told that it is not known yet, and when to ask again."""
    service.fails = TimeoutError("no answer")
    with gate(service, tmp_path, config(settle_after=2.2, lookup_lag=4.2)) as made:
        answer = made.call("create_refund", CALL)
    assert str(answer.outcome) == "IN_FLIGHT:absence_not_yet_trusted"
    assert "still under way" not in answer.message
    assert "It is not known yet whether this happened" in answer.message
    assert f"call again in {math.ceil(answer.outcome.retry_after or 0)} s for the result" in answer.message


def test_a_renamed_tool_keeps_its_effects_under_the_old_name(
    service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Under a new name what an old one left open is reported with the advice, once; with `name` it is the same effect as before."""
    service.fails = SystemExit(1)
    with pytest.raises(SystemExit), gate(service, tmp_path, config(premises=None)) as made:
        made.call("create_refund", CALL)
    service.fails = None
    renamed: dict[str, Any] = {"tools": {"refund_order": config(premises=None)["tools"]["create_refund"]}}
    tools = {"refund_order": service.create_refund, "find_refund": service.find_refund}
    with ToolGate(renamed, tools=tools, journal=tmp_path / "journal") as made:
        assert [str(outcome) for outcome in made.recover()] == ["IN_FLIGHT:no_function"]
        assert "'name' in its configuration" in caplog.text
        assert len([record for record in caplog.records if "create_refund" in record.getMessage()]) == 1
        assert "'name' in its configuration" in made.recover()[0].for_person
    renamed["tools"]["refund_order"]["name"] = "create_refund"
    with ToolGate(renamed, tools=tools, journal=tmp_path / "journal") as made:
        (settled,) = made.recover()
        assert (settled.effect, settled.status) == ("create_refund", Status.REAPPLIED_AFTER_QUERY)
        assert made.call("refund_order", CALL).outcome.status == Status.DUPLICATE_IGNORED
    effect = Effect(key=lambda order_id: order_id, idempotency_argument="reference", name="create_refund")
    with ToolGate({"refund_order": effect}, tools=tools, journal=tmp_path / "journal") as made:
        assert made.call("refund_order", CALL).outcome.status == Status.DUPLICATE_IGNORED
    two = {"tools": {**renamed["tools"], "create_refund": {"key": "order_id"}}}
    with pytest.raises(ConfigurationError, match="two functions are declared as effect 'create_refund'"):
        ToolGate(two, tools={**tools, "create_refund": service.create_refund}, journal=tmp_path / "journal")
    assert len(service.refunds) == 1
    assert len(service.refunds) == 1


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string"},
        "amount": {"type": "integer"},
        "reference": {"type": "string"},
        "customer": {"$ref": "#/$defs/Customer"},
        "kind": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
        "note": {"anyOf": [{"type": "object", "properties": {"text": {}}}, {"type": "null"}]},
    },
    "$defs": {"Customer": {"type": "object", "properties": {"name": {"type": "string"}}}},
}
PARAMETERS = {
    "create_refund": Parameters.of_schema(SCHEMA),
    "get_order": Parameters(("order_id",)),
    "find_refund": Parameters.of_schema(
        {"type": "object", "properties": {"reference": {"type": "string"}, "page": {}}, "required": ["reference"]},
        answer={
            "type": "object",
            "properties": {
                "found": {"type": "boolean"},
                "refund": {"type": "object", "additionalProperties": True},
                "all": {"type": "array", "items": {"type": "object", "properties": {"reference": {}}}},
            },
        },
    ),
}
LOOKUP = CONFIG["tools"]["create_refund"]["lookup"]
MISSPELT: list[tuple[dict[str, Any], str]] = [
    ({"key": ["orderid"]}, "key names 'orderid', which 'create_refund' does not take; did you mean 'order_id'?"),
    ({"key": ["customer.nam"]}, "did you mean 'name'?"),
    ({"key": ["lines.0.skus"]}, "did you mean 'sku'?"),
    ({"key": ["reference"]}, "the key cannot be made of 'reference'"),
    ({"idempotency_argument": "referenc"}, "idempotency_argument names 'referenc'"),
    ({"binds": ["ammount"]}, "binds names 'ammount', which 'create_refund' does not take; did you mean 'amount'?"),
    (
        {"premises": {"tool": "get_order", "arguments": {"orderid": "order_id"}, "fields": ["refunded_total"]}},
        "premises.arguments names 'orderid', which 'get_order' does not take; did you mean 'order_id'?",
    ),
    (
        {"premises": {"tool": "get_order", "arguments": {"order_id": "order"}, "fields": ["refunded_total"]}},
        "premises.arguments names 'order', which 'create_refund' does not take; did you mean 'order_id'?",
    ),
    (
        {"lookup": {"tool": "find_refund", "arguments": {"ref": "$effect_id"}, "found": "found"}},
        "lookup.arguments names 'ref', which 'find_refund' does not take",
    ),
    (
        {
            "lookup": {
                "tool": "find_refund",
                "arguments": {"reference": "$effect_id"},
                "found": {"items": "all", "where": {"order": "order_ids"}},
            }
        },
        "lookup.found.where names 'order_ids'",
    ),
    ({"key": ["kind.x"]}, "key names 'kind.x', which 'create_refund' does not take"),
    (
        {"lookup": {**LOOKUP, "arguments": {"page": "$effect_id"}}},
        "lookup.arguments leaves out 'reference', which 'find_refund' must have",
    ),
    (
        {"lookup": {**LOOKUP, "found": "fond"}},
        "lookup.found names 'fond', which the answer of 'find_refund' does not have; did you mean 'found'?",
    ),
    ({"lookup": {**LOOKUP, "result": "refnd"}}, "did you mean 'refund'?"),
    ({"lookup": {**LOOKUP, "found": "found.id"}}, "lookup.found names 'found.id'"),
    ({"lookup": {**LOOKUP, "found": {"items": "al", "where": {"reference": "$effect_id"}}}}, "did you mean 'all'?"),
    (
        {"lookup": {**LOOKUP, "found": {"items": "all", "where": {"refrence": "$effect_id"}}}},
        "did you mean 'reference'?",
    ),
    (
        {"allowed": {"tool": "find_refund", "arguments": {"reference": "note"}, "field": "fund"}},
        "did you mean 'found'?",
    ),
    ({"budget": {"key": ["refunds"], "limit": 5, "amount": "amount"}}, '{"literal": "refunds"}'),
    ({"budget": {"key": ["customer.id"], "limit": 5, "amount": "amount"}}, "budget.key names 'customer.id'"),
    ({"budget": {"key": "day", "limit": 5, "amount": "amounts"}}, "budget.amount names 'amounts'"),
    ({"expect": {"refunded_total": {"at_most": {"argument": "amont"}}}}, "expect.refunded_total.at_most names 'amont'"),
]


@pytest.mark.parametrize(("options", "said"), MISSPELT)
def test_an_argument_that_no_tool_takes_is_refused_at_the_door(
    options: dict[str, Any], said: str, service: Service, tmp_path: Path
) -> None:
    """Wherever a configuration names an argument, the tools' own schemas judge it when the gate is built, with what was probably meant."""
    with pytest.raises(ConfigurationError) as refused:
        ToolGate(config(**options), tools=service.tools, journal=tmp_path / "journal", parameters=PARAMETERS)
    assert said in str(refused.value)
    assert not (tmp_path / "journal").exists()


def test_what_a_schema_does_not_tell_is_not_refused(service: Service, tmp_path: Path) -> None:
    """A path into a part that comes in several forms, a tool that takes anything, and one of which nothing is known are let through."""
    known = {"create_refund": Parameters.of_schema(SCHEMA), "get_order": Parameters.of_schema({"type": "object"})}
    made = ToolGate(config(key=["note.anything"]), tools=service.tools, journal=tmp_path / "a", parameters=known)
    made.close()
    open_ended = Parameters.of_schema({**SCHEMA, "additionalProperties": True})
    made = ToolGate(
        config(key=["more"]), tools=service.tools, journal=tmp_path / "b", parameters={"create_refund": open_ended}
    )
    made.close()


def test_a_callback_that_takes_what_the_tool_has_not_is_refused_at_the_door(service: Service, tmp_path: Path) -> None:
    """A Python callback that needs an argument which no call will bring is refused when the gate is built."""
    how = {"create_refund": Effect(key=lambda order_id: order_id, premises=lambda orderid: {"paid": True})}
    with pytest.raises(
        ConfigurationError, match=r"premises= takes 'orderid', which is no argument.*did you mean 'order_id'"
    ):
        ToolGate(how, tools=service.tools, journal=tmp_path / "journal", parameters=PARAMETERS)
    how = {"create_refund": Effect(key=lambda order_id: order_id, lookup=lambda key: None)}
    with pytest.raises(
        ConfigurationError, match=r"lookup= takes 'key'.*it takes: order_id,.* idempotency_key, context"
    ):
        ToolGate(how, tools=service.tools, journal=tmp_path / "journal", parameters=PARAMETERS)


def test_tools_with_a_gate_are_a_list_that_recovers(service: Service, tmp_path: Path) -> None:
    """What wrappers hand back is a list like any other, and settles and gives up the one gate behind it."""
    made = ProtectedTools(["a", "b"], gate(service, tmp_path))
    assert made == ["a", "b"]
    assert list(made.recover()) == list(asyncio.run(made.arecover(wait=0))) == []
    made.close()
    with pytest.raises(JournalError):
        made.gate.call("create_refund", CALL)


def test_what_the_approver_saw_must_still_hold(service: Service, tmp_path: Path) -> None:
    """Facts that were read when approval was asked for are compared at the send, also in another process; a new approval is judged anew."""
    with gate(service, tmp_path) as tools:
        seen = json.loads(json.dumps(tools.read_facts("create_refund", CALL)))
        assert seen == {"effect": "create_refund", "key": "881", "facts": {"refunded_total": 0}}
    service.order["refunded_total"] = 5
    with gate(service, tmp_path) as tools:
        late = tools.call("create_refund", CALL, decision="approval 1", seen=seen)
        assert str(late.outcome) == "REFUSED:stale_premise"
        assert "needs a new decision" in late.message
        assert service.refunds == []
        again = asyncio.run(tools.aread_facts("create_refund", CALL))
        assert tools.call("create_refund", CALL, decision="approval 2", seen=again).ok
        assert tools.call("create_refund", CALL, decision="approval 1", seen=seen).ok, (
            "what has landed is told, whatever changed"
        )
    assert len(service.refunds) == 1


def test_what_was_seen_of_another_request_is_not_compared(service: Service, tmp_path: Path) -> None:
    """A reviewer who changes the key makes it another request, whose facts are read at the send; a changed amount is still the same one."""
    with gate(service, tmp_path) as tools:
        seen = tools.read_facts("create_refund", CALL)
        service.order["refunded_total"] = 5
        assert not tools.call("create_refund", {**CALL, "amount": 9}, seen=seen).ok
        assert tools.call("create_refund", {**CALL, "order_id": "882"}, seen=seen).ok


def test_what_was_seen_of_another_tool_is_not_compared(service: Service, tmp_path: Path) -> None:
    """A reviewer who changes the tool makes it another request under the same key: its own facts are read, and it may have none."""
    asks = {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": ["open"]}
    how = config()
    how["tools"] |= {"credit": {"key": "order_id", "premises": asks}, "send_mail": {"key": "order_id"}}
    tools = {**service.tools, "credit": lambda *_: "credited", "send_mail": lambda *_: "sent"}
    with ToolGate(how, tools=tools, journal=tmp_path / "journal") as made:
        made.recover()
        seen = made.read_facts("create_refund", CALL)
        service.order["refunded_total"] = 5
        assert made.call("credit", CALL, seen=seen, decision="a").message == "credited"
        assert made.call("send_mail", CALL, seen=seen, decision="a").message == "sent"
        assert not made.call("create_refund", CALL, seen=seen, decision="a").ok


def test_facts_that_the_approver_could_not_see(service: Service, tmp_path: Path) -> None:
    """Facts that could not be read when approval was asked for refuse the approved call, though they can be read by then."""
    service.order, whole = {}, service.order
    with gate(service, tmp_path) as tools:
        seen = [tools.read_facts("create_refund", CALL), asyncio.run(tools.aread_facts("create_refund", CALL))]
        service.order = whole
        for one in seen:
            assert one is not None
            answer = tools.call("create_refund", CALL, seen=one)
            assert str(answer.outcome) == "REFUSED:unreadable"
            assert "when approval was asked for" in answer.message
            assert "get_order" not in answer.message
        bad = tools.call("create_refund", CALL, seen={"facts": {"refunded_total": 0}})
        assert str(bad.outcome) == "REFUSED:bad_input"
        assert tools.read_facts("create_refund", {}) is None
    assert service.refunds == []


def test_facts_for_an_approver_are_kept_faithfully(service: Service, tmp_path: Path) -> None:
    """Facts that JSON does not know come back as they were, and a callback that takes the live object gets it when they are read."""
    live: list[Any] = []

    async def premises(order_id: str, context: Any) -> dict[str, Any]:
        live.append(context)
        return {"paid": Decimal("10.50"), "rest": Decimal(service.order["refunded_total"])}

    how = {"create_refund": Effect(key=lambda order_id: order_id, premises=premises)}
    with gate(service, tmp_path, how) as tools:
        seen = json.loads(json.dumps(tools.read_facts("create_refund", CALL, context="live")))
        assert live == ["live"]
        assert tools.call("create_refund", CALL, seen=seen).ok
        assert tools.read_facts("create_refund", {**CALL, "order_id": "882"}) is not None
    no_premises = {"create_refund": Effect(key=lambda order_id: order_id)}
    with gate(service, tmp_path / "other", no_premises) as tools:
        assert tools.read_facts("create_refund", CALL) is None


class Part(TypedDict):
    total: int


class AsDict(TypedDict):
    part: Part


@dataclasses.dataclass
class AsDataclass:
    part: Part


class AsModel(BaseModel):
    part: Part


class AsOpenModel(BaseModel, extra="allow"):
    part: Part


@pytest.mark.parametrize("returned", [AsDict, AsDataclass, AsModel, AsOpenModel, dict[str, Any], "Nowhere"])
def test_a_typed_answer_is_checked_at_the_door(returned: Any, tmp_path: Path) -> None:
    """A path into what a function of one's own returns is followed as far as its annotation tells, when the tools are put together."""

    def pay(order_id: str) -> str:
        return "paid"

    def get_order(order_id: str) -> Any:
        return {"part": {"total": 0}}

    get_order.__annotations__["return"] = returned

    def gating(path: str) -> dict[str, Any]:
        premises = {"tool": "get_order", "arguments": {"order_id": "order_id"}, "fields": {"total": path}}
        return {"tools": {"pay": {"key": "order_id", "premises": premises}}}

    protect([pay, get_order], gating("part.total"), journal=tmp_path / "right").close()
    if returned not in (AsDict, AsDataclass, AsModel):
        protect([pay, get_order], gating("prt.total"), journal=tmp_path / "untold").close()
        return
    for wrong in ("prt.total", "part.totl", "part.total.x"):
        with pytest.raises(ConfigurationError, match="which the answer of 'get_order' does not have"):
            protect([pay, get_order], gating(wrong), journal=tmp_path / "wrong")


def test_effects_in_python_import_no_configuration(tmp_path: Path) -> None:
    """A process whose tools are all gated with `Effect`s never imports the configuration of data; one that hands a dict does."""
    code = """
import sys
from interlock.extend import Effect, ToolGate
from interlock.tools import protect
def pay(order_id): return "paid"
effect = Effect(key=lambda order_id: order_id)
for number, how in enumerate(({"pay": effect}, {"tools": {"pay": effect}})):
    with protect([pay], how, journal=f"{sys.argv[1]}/{number}") as tools:
        tools.recover()
        assert tools["pay"]("881")["status"] == "COMMITTED"
ours = {"interlock.config", "interlock.extend._configured", "tomllib", "difflib"}
assert not ours & set(sys.modules), ours & set(sys.modules)
from interlock.extend import ToolConfig, ToolsConfig, load
protect([pay], {"tools": {"pay": {"key": "order_id"}}}, journal=f"{sys.argv[1]}/data").close()
assert "interlock.extend._configured" in sys.modules
print(ToolConfig.__module__, ToolsConfig.__module__, load.__module__)
"""
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["interlock.config"] * 3
