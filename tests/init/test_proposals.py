"""What `interlock init` proposes: a key that is a name, a look-up with a reason, a ready-made effect, one gate for one effect."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from interlock import InterlockError
from interlock.cli import main
from interlock.config import load
from interlock.tools import protect


def write(place: Path, name: str, text: str) -> None:
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def look(place: Path, capsys: Any) -> dict[str, Any]:
    main(["init", str(place), "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def say(place: Path, capsys: Any) -> str:
    main(["init", str(place)])
    return str(capsys.readouterr().out)


# --- keys ------------------------------------------------------------------------------------------------------------

ORDER = """
import dataclasses, requests
@dataclasses.dataclass
class Order:
    pi: str
    note: str = ""
"""
BODIES = {
    "an attribute": ("order", "requests.post('u', json={'pi': order.pi, 'why': order.note})", "order.pi"),
    "an item": ("order", "requests.post('u', json={'pi': order['pi'], 'why': order['note']})", "order.pi"),
    "an item by get": ("order", "requests.post('u', json={'pi': order.get('pi')})", "order.pi"),
    "a nested one": ("order", "requests.post('u', json={'pi': order.payment.id})", "order.payment.id"),
    "a method of the value": ("order: Order", "requests.post('u', data=order.pi.strip())", "order.pi"),
    "what names the thing before its owner": (
        "order",
        "requests.post('u', json=[order.customer_id, order.number])",
        "order.number",
    ),
    "an id beside an object": ("note: Order, order_id: str", "requests.post(order_id, note.note)", "order_id"),
}


@pytest.mark.parametrize("case", BODIES)
def test_a_key_is_what_names_the_object(case: str, tmp_path: Path, capsys: Any) -> None:
    """Of an object the key is what the body reads of it that looks like an identity, never all of it."""
    parameters, body, key = BODIES[case]
    write(tmp_path, "shop.py", f"{ORDER}\ndef give({parameters}):\n    {body}\n")
    [finding] = look(tmp_path, capsys)["findings"]
    assert finding["key"][0] == key
    assert "{order}" not in finding["proposal"]


@dataclasses.dataclass
class Order:
    pi: str
    note: str


def declared(proposal: str, place: Path, monkeypatch: Any) -> dict[str, Any]:
    monkeypatch.chdir(place)
    names: dict[str, Any] = {"Order": Order}
    exec(proposal, names)
    return names


def test_two_notes_are_one_key(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    """The printed code, run: another note on the same order is the same request."""
    write(
        tmp_path, "shop.py", f"{ORDER}\ndef give(order: Order):\n    requests.post('u', json=[order.pi, order.note])\n"
    )
    [finding] = look(tmp_path, capsys)["findings"]
    names = declared(finding["proposal"], tmp_path, monkeypatch)
    with names["gate"]:
        assert str(names["give"](Order("pi_1", "a"))) == "COMMITTED"
        assert str(names["give"](Order("pi_1", "b"))) == "REFUSED:conflicting_payload"
        assert str(names["give"](Order("pi_2", "b"))) == "COMMITTED"


def test_an_object_without_a_class_is_told(tmp_path: Path, capsys: Any) -> None:
    """The gate keeps what is sent and rebuilds it after a crash, so it has to be told the class of an object."""
    write(tmp_path, "shop.py", f"{ORDER}\ndef give(order):\n    requests.post('u', data=order.pi)\n")
    assert any(said.startswith("annotate order") for said in look(tmp_path, capsys)["findings"][0]["to_do"])


UNNAMED = {
    "nothing read is an id": ("order: Order", "requests.post('u', data=order.note)"),
    "nothing is read": ("order: Order", "requests.post('u', json=dataclasses.asdict(order))"),
    "a dict": ("order: dict", "requests.post('u', json=order)"),
}


@pytest.mark.parametrize("case", UNNAMED)
def test_a_key_that_cannot_be_seen_refuses_to_run(case: str, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    """Where nothing that is read looks like an identity, the printed code says what to name, loads, and refuses each call."""
    parameters, body = UNNAMED[case]
    write(tmp_path, "shop.py", f"{ORDER}\ndef give({parameters}):\n    {body}\n")
    [finding] = look(tmp_path, capsys)["findings"]
    assert finding["key"] == []
    assert "# NAME_A_FIELD" in finding["proposal"]
    assert any("NAME_A_FIELD" in said for said in finding["to_do"])
    names = declared(finding["proposal"], tmp_path, monkeypatch)
    with names["gate"], pytest.raises(InterlockError, match="NAME_A_FIELD"):
        names["give"]({"pi": "pi_1", "note": "a"})


def test_a_tools_key_is_a_path_into_its_object(tmp_path: Path, capsys: Any) -> None:
    """In a configuration the same is a path; a placeholder loads, and the gate refuses calls until it is filled in."""
    tool = "@tool\ndef refund_order(order: Order) -> dict:\n    requests.post('u', json={})\n"
    write(tmp_path, "shop.py", ORDER + tool.format("order.pi"))
    assert look(tmp_path, capsys)["configuration"]["tools"]["refund_order"]["key"] == ["order.pi"]
    write(tmp_path, "shop.py", ORDER + tool.format("order.note"))
    configuration = look(tmp_path, capsys)["configuration"]
    assert configuration["tools"]["refund_order"]["key"] == ["order.NAME_A_FIELD"]

    def refund_order(order: dict[str, Any]) -> dict[str, Any]:
        return {}

    load(configuration)
    tools = protect([refund_order], configuration, journal=tmp_path / "journal")
    tools.recover()
    assert tools["refund_order"](order={"pi": "pi_1", "note": "a"})["status"].partition(":")[0] not in (
        "COMMITTED",
        "DUPLICATE_IGNORED",
    )


# --- look-ups and premises -------------------------------------------------------------------------------------------

LOOK_UP = "@tool\ndef look_up_order(order_id: str) -> dict:\n    return requests.get(order_id).json()\n"
OTHERS = {
    "S3": "import boto3\ns3 = boto3.client('s3')\n@tool\ndef save(bucket: str):\n    s3.put_object(Bucket=bucket)\n",
    "mail": "@tool\ndef send_mail(address: str):\n    smtplib.SMTP('h').send_message(address)\n",
    "git": "@tool\ndef publish(branch: str):\n    subprocess.run(['git', 'push'])\n",
    "a function": "def save(bucket: str):\n    boto3.client('s3').put_object(Bucket=bucket)\n",
}


@pytest.mark.parametrize("other", OTHERS)
def test_no_look_up_without_a_reason(other: str, tmp_path: Path, capsys: Any) -> None:
    """What finds one thing is no look-up of another, and no premise of a call that is not about it; that none was found is said."""
    write(tmp_path, "shop.py", f"import requests, smtplib, subprocess, boto3\n{LOOK_UP}{OTHERS[other]}")
    [finding] = look(tmp_path, capsys)["findings"]
    assert (finding["lookups"], finding["premises"]) == ([], [])
    text = say(tmp_path, capsys)
    assert "look_up_order" not in text
    assert "look-up: none was found" in text


FOUND_BY = {
    "it takes the key": (
        "@tool\ndef find_it(reference: str): ...\n",
        "@tool\ndef act(x_id: str, reference: str):\n    requests.post(x_id)\n",
    ),
    "it is named for the thing": (
        "@tool\ndef find_ticket(x: str): ...\n",
        "@tool\ndef create_ticket(title: str):\n    requests.post(title)\n",
    ),
    "the verb is the thing": (
        "@tool\ndef list_refunds(x: str): ...\n",
        "@tool\ndef refund_order(order_id: str):\n    requests.post(order_id)\n",
    ),
    "one client, one kind of object": (
        "@tool\ndef find_it(x: str):\n    return stripe.Invoice.list(limit=x)\n",
        "@tool\ndef act(order_id: str):\n    return stripe.Invoice.create(customer=order_id)\n",
    ),
    "one client, one kind of object, in its verb": (
        "@tool\ndef find_it(x: str):\n    return s3.head_object(Key=x)\n",
        "import boto3\ns3 = boto3.client('s3')\n@tool\ndef act(order_id: str):\n    return s3.put_object(Key=order_id)\n",
    ),
}


@pytest.mark.parametrize("reason", FOUND_BY)
def test_a_look_up_for_which_there_is_a_reason(reason: str, tmp_path: Path, capsys: Any) -> None:
    """A tool that takes the same reference, or finds the same thing at the same client, could be the look-up."""
    reader, acting = FOUND_BY[reason]
    write(tmp_path, "shop.py", f"import requests, stripe\n{acting}{reader}")
    [finding] = look(tmp_path, capsys)["findings"]
    assert len(finding["lookups"]) == 1


def test_what_finds_the_order_is_a_premise_of_its_refund(tmp_path: Path, capsys: Any) -> None:
    """An order that is looked up says a fact about its refund; it does not find the refund."""
    write(
        tmp_path,
        "shop.py",
        f"import requests\n{LOOK_UP}@tool\ndef refund(order_id: str):\n    requests.post(order_id)\n",
    )
    [finding] = look(tmp_path, capsys)["findings"]
    assert (finding["lookups"], finding["premises"]) == ([], ["look_up_order"])


# --- ready-made effects ----------------------------------------------------------------------------------------------

READY = {
    "stripe_refund": "stripe.Refund.create(charge=order_id, amount=amount)",
    "stripe_payment_intent": "stripe.PaymentIntent.capture(order_id)",
    "stripe_transfer": "stripe.Transfer.create(amount=amount)",
    "stripe_payout": "stripe.Payout.create(amount=amount)",
    "stripe_credit_grant": "stripe.billing.CreditGrant.create(amount=amount)",
    "stripe_customer_balance": "stripe.Customer.create_balance_transaction(order_id, amount=amount)",
}


@pytest.mark.parametrize("mark", ["", "@tool\n"])
@pytest.mark.parametrize("made", READY)
def test_a_ready_made_effect_is_all_that_is_proposed(
    made: str, mark: str, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    """Where there is a ready-made effect, its use is printed alone: no tier 3, no configuration; and the code loads with a real client."""
    import stripe

    write(tmp_path, "shop.py", f"import stripe\n{mark}def act(order_id, amount):\n    return {READY[made]}\n")
    found = look(tmp_path, capsys)
    [finding] = found["findings"]
    assert finding["ready_made"] == f"interlock.targets.stripe.{made}"
    assert found["configuration"] is None
    text = say(tmp_path, capsys)
    assert "nobody can know" not in text
    assert "tier" not in text
    assert "@gate.effect" not in text
    assert made in text
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"client": stripe.StripeClient("sk_test_1")}
    exec(finding["proposal"], names)
    assert [*names["gate"].effects]
    names["gate"].close()


def test_a_ready_made_effect_is_given_what_the_body_reads(tmp_path: Path, capsys: Any) -> None:
    """The payment and the amount that the call has now are those of the printed use."""
    body = "stripe.Refund.create(payment_intent=order.pi, amount=order.amount)"
    write(tmp_path, "shop.py", f"import stripe\ndef give(order: Order):\n    {body}\n")
    [finding] = look(tmp_path, capsys)["findings"]
    assert "refund({'payment_intent': order.pi}, amount=order.amount)" in finding["proposal"]
    assert "..." not in finding["proposal"]


def test_what_goes_through_a_ready_made_effect_is_gated(tmp_path: Path, capsys: Any) -> None:
    """Once the ready-made effect is used as it was printed, the tool that calls it is told as gated, from another file, too."""
    write(
        tmp_path, "shop.py", "import stripe\n@tool\ndef refund_order(order_id, amount):\n    stripe.Refund.create()\n"
    )
    [finding] = look(tmp_path, capsys)["findings"]
    gate, _, tool = finding["proposal"].partition("def ")
    write(tmp_path, "shop.py", f"{gate}\n@tool\ndef {tool}")
    found = look(tmp_path, capsys)
    assert found["findings"] == []
    assert any(name.startswith("refund_order") for name in found["gated"])
    write(tmp_path, "gates.py", gate)
    write(tmp_path, "shop.py", f"from gates import refund\n@tool\ndef {tool}")
    assert look(tmp_path, capsys)["findings"] == []


# --- one gate for one effect -----------------------------------------------------------------------------------------

INNER = "def give(order_id, amount):\n    requests.post(order_id)\n"
OUTER = "@tool\ndef refund_order(order_id, amount):\n    return give(order_id, amount)\n"


def named(found: dict[str, Any]) -> list[str]:
    return [finding["name"] for finding in found["findings"]]


def test_of_a_tool_and_what_only_it_calls_the_tool_is_proposed(tmp_path: Path, capsys: Any) -> None:
    """One effect, one gate: the tool's arguments name the request. What it holds, and why that is not gated again, is said."""
    write(tmp_path, "shop.py", f"import requests\n{INNER}{OUTER}")
    found = look(tmp_path, capsys)
    assert named(found) == ["refund_order"]
    [note] = found["findings"][0]["notes"]
    assert "give (shop.py:2)" in note
    assert "gate inside a gate" in note
    assert note in say(tmp_path, capsys)


def test_a_tool_is_seen_to_act_by_what_it_calls(tmp_path: Path, capsys: Any) -> None:
    """A tool whose name says nothing acts if what it calls does, at any depth, handed over as a value, and from another file."""
    write(tmp_path, "shop/pay.py", f"import requests\n{INNER}def between(order_id):\n    give(order_id, 1)\n")
    write(
        tmp_path,
        "tools.py",
        "from shop.pay import between\n@tool\ndef handle(order_id):\n    to_thread(between, order_id)\n",
    )
    found = look(tmp_path, capsys)
    assert named(found) == ["handle"]
    assert "through give" in found["findings"][0]["why"][0]


@pytest.mark.parametrize(
    "other",
    ["def nightly(order_id):\n    give(order_id, 1)\n", "give('881', 1)\n", "schedule.every().day.do(give)\n"],
)
def test_what_something_else_calls_too_is_gated_itself(other: str, tmp_path: Path, capsys: Any) -> None:
    """Where not only the tool leads to it, the function is proposed, so that each way goes through the gate; the tool is not, too."""
    write(tmp_path, "shop.py", f"import requests\n{INNER}{OUTER}{other}")
    found = look(tmp_path, capsys)
    assert named(found) == ["give"]
    assert any("refund_order" in note for note in found["findings"][0]["notes"])
    assert not any("refund_order" in said for said in found["unclear"])


def test_a_ready_made_effect_stands_where_the_call_is(tmp_path: Path, capsys: Any) -> None:
    """What replaces the call to the service is proposed for the function that makes it, not for the tool."""
    write(tmp_path, "shop.py", f"import stripe\ndef give(order_id, amount):\n    stripe.Refund.create()\n{OUTER}")
    assert named(look(tmp_path, capsys)) == ["give"]


@pytest.mark.parametrize(
    "gated",
    [
        "@gate.effect(key=lambda order_id: order_id, dedupes=True)\ndef give(order_id, amount):\n    requests.post(order_id)\n",
        f"{INNER}give = gate.effect(key=lambda order_id: order_id, dedupes=True)(give)\n",
    ],
)
def test_a_tool_that_calls_a_gated_function_is_not_gated_again(gated: str, tmp_path: Path, capsys: Any) -> None:
    """A tool whose effect goes through a gate already is told as gated; one that acts beside it is proposed, with a word on it."""
    write(tmp_path, "shop.py", f"import requests\n{gated}{OUTER}")
    found = look(tmp_path, capsys)
    assert named(found) == []
    assert "refund_order (through give)" in found["gated"]
    write(tmp_path, "shop.py", f"import requests\n{gated}{OUTER.replace('return', 'requests.put(1);')}")
    found = look(tmp_path, capsys)
    assert named(found) == ["refund_order"]
    assert any("give" in note and "gated already" in note for note in found["findings"][0]["notes"])


def test_a_variable_that_is_called_like_a_gated_function_is_none(tmp_path: Path, capsys: Any) -> None:
    """A name that a function binds itself is its own: it leads to no gate elsewhere, and hides no finding."""
    gated = "@gate.effect(key=lambda order_id: order_id, dedupes=True)\ndef give(order_id): ...\n"
    write(tmp_path, "a.py", gated)
    write(tmp_path, "b.py", "@tool\ndef send_all(order_id):\n    return [give for give in rows]\n")
    write(tmp_path, "c.py", "@tool\ndef send_one(order_id):\n    give = row\n    return give(1)\n")
    assert named(look(tmp_path, capsys)) == ["send_all", "send_one"]


def test_a_factory_of_tools_is_not_gated_with_them(tmp_path: Path, capsys: Any) -> None:
    """What a function inside a function does is the inner one's, not both's."""
    write(
        tmp_path,
        "shop.py",
        "import requests\ndef make():\n    @tool\n    def refund(order_id):\n        requests.post(order_id)\n    return [refund]\n",
    )
    assert named(look(tmp_path, capsys)) == ["refund"]


# --- gated, and what a crash makes of it -----------------------------------------------------------------------------

PLAIN = "def give(order_id, idempotency_key):\n    requests.post(order_id)\n"
WEAK = {
    "decorator": ("shop.py", f"@gate.effect(key=lambda order_id: order_id)\n{PLAIN}"),
    "dedupes=False": ("shop.py", f"@gate.effect(key=lambda order_id: order_id, dedupes=False)\n{PLAIN}"),
    "call": ("shop.py", f"{PLAIN}gate.effect(key=lambda order_id: order_id)(give)\n"),
    "dict": ("shop.py", '@tool\ndef give(order_id): ...\nCONFIG = {"tools": {"give": {"key": ["order_id"]}}}\n'),
    "json": ("gate.json", '{"tools": {"give": {"key": ["order_id"]}}}'),
    "toml": ("gate.toml", '[tools.give]\nkey = ["order_id"]\n'),
    "Effect": ("shop.py", 'protect(tools, {"give": Effect(key=lambda order_id: order_id)})\n'),
}
STRONG = {
    "dedupes": ("shop.py", f"@gate.effect(key=lambda order_id: order_id, dedupes=True)\n{PLAIN}"),
    "lookup": ("shop.py", f"@gate.effect(key=lambda order_id: order_id, lookup=find)\n{PLAIN}"),
    "not to be seen": ("shop.py", f"@gate.effect(key=lambda order_id: order_id, **options)\n{PLAIN}"),
    "dict": ("shop.py", 'CONFIG = {"tools": {"give": {"key": ["order_id"], "dedupes": True, "lookup": how}}}\n'),
    "ready-made": (
        "shop.py",
        "from interlock.targets.stripe import stripe_refund\ngive = stripe_refund(gate, client, key=str)\n",
    ),
    "json": (
        "gate.json",
        '{"tools": {"give": {"key": ["order_id"], "idempotency_argument": "reference", "dedupes": true, "window": "24h"}}}',
    ),
}


@pytest.mark.parametrize("form", WEAK)
def test_a_gated_effect_that_a_crash_leaves_ambiguous_is_remarked(form: str, tmp_path: Path, capsys: Any) -> None:
    """With neither look-up nor dedupe key a crash ends AMBIGUOUS: that is said, with the place; it is no finding."""
    write(tmp_path, "other.py", "x = 1\n")
    write(tmp_path, *WEAK[form])
    found = look(tmp_path, capsys)
    [remark] = found["remarks"]
    assert remark.startswith(WEAK[form][0])
    assert "give" in remark
    assert "AMBIGUOUS" in remark
    assert found["findings"] == []
    assert remark in say(tmp_path, capsys)


@pytest.mark.parametrize("form", STRONG)
def test_a_gated_effect_that_can_be_recovered_gets_no_remark(form: str, tmp_path: Path, capsys: Any) -> None:
    """Where a look-up or a dedupe key is declared, or it cannot be seen, nothing is said."""
    write(tmp_path, "other.py", "x = 1\n")
    write(tmp_path, *STRONG[form])
    assert look(tmp_path, capsys)["remarks"] == []
