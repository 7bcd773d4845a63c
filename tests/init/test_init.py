"""`interlock init` on a small project: what it names, proposes, leaves alone and cannot judge."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from interlock import ConfigurationError
from interlock.cli import main
from interlock.config import load
from interlock.tools import protect

SHOP = Path(__file__).with_name("shop")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The project; its files end in .txt here, so that no tool takes them for source of this one."""
    place = tmp_path / "shop"
    place.mkdir()
    for file in SHOP.iterdir():
        shutil.copy(file, place / file.name.removesuffix(".txt"))
    return place


def look(place: Path, capsys: Any) -> tuple[int, dict[str, Any]]:
    code = main(["init", str(place), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_findings(shop: Path, capsys: Any) -> None:
    """The ungated tool and function are named with key and proposal; the gated and the reading ones are not; broken files are told."""
    code, found = look(shop, capsys)
    assert code == 1
    assert found["stack"] == ["pydantic-ai"]
    assert found["gated"] == ["close_order"]
    assert [finding["name"] for finding in found["findings"]] == ["refund_order", "notify"]
    refund, notify = found["findings"]
    assert refund["key"] == ["order_id"]
    assert (refund["carries"], refund["premises"], refund["lookups"]) == ("reference", ["get_order"], ["find_refund"])
    assert any("settle_after" in said for said in refund["to_do"])
    assert not any("settle_after" in said for said in notify["to_do"])
    assert notify["key"] == ["customer_id"]
    assert notify["tier"].startswith("3")
    assert any(said.startswith("broken.py:1") for said in found["unclear"])


def test_proposal_is_a_configuration(shop: Path, capsys: Any) -> None:
    """What is proposed for a tool can be read as a configuration; put into a file, it counts as gated."""
    _, found = look(shop, capsys)
    proposal = json.loads(found["findings"][0]["proposal"])
    load(proposal)
    (shop / "interlock.json").write_text(json.dumps(proposal))
    _, again = look(shop, capsys)
    assert "refund_order" in again["gated"]
    assert [finding["name"] for finding in again["findings"]] == ["notify"]


def test_nothing_of_the_project_runs(tmp_path: Path, capsys: Any) -> None:
    """Source is read, never run; folders of other people's code are left out; a project without effects ends with 0."""
    (tmp_path / "trap.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "other.py").write_text("def send(x_id):\n    requests.post(x_id)\n")
    code, found = look(tmp_path, capsys)
    assert (code, found["findings"], found["files"]) == (0, [], 1)
    assert not (tmp_path / "ran").exists()


def test_usage(tmp_path: Path, capsys: Any) -> None:
    """A path that is not there is bad usage."""
    assert main(["init", str(tmp_path / "nowhere")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_text(shop: Path, capsys: Any) -> None:
    """Without --json the same is told in words, with the place."""
    assert main(["init", str(shop)]) == 1
    text = capsys.readouterr().out
    assert "agent.py:18 refund_order: sends an HTTP request that may write" in text
    assert "Gated already: close_order." in text


def write(place: Path, name: str, text: str) -> None:
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


ACTS = "def {name}(order_id, amount):\n    requests.post(order_id)\n"


def test_the_whole_tree_is_walked(tmp_path: Path, capsys: Any) -> None:
    """Packages at any depth are read; other people's code, hidden folders and tests are not, tests only when asked for."""
    for name in ("one.py", "shop/two.py", "shop/desk/back/three.py"):
        write(tmp_path, name, ACTS.format(name=Path(name).stem))
    for name in ("node_modules/x/a.py", ".hidden/b.py", "my-env/lib/c.py", "build/d.py", ".e.py"):
        write(tmp_path, name, ACTS.format(name="other"))
    write(tmp_path, "my-env/pyvenv.cfg", "")
    for name in ("tests/f.py", "shop/test_g.py", "shop/g_test.py", "conftest.py"):
        write(tmp_path, name, ACTS.format(name="tested"))
    _, found = look(tmp_path, capsys)
    assert sorted(finding["name"] for finding in found["findings"]) == ["one", "three", "two"]
    assert main(["init", str(tmp_path), "--json", "--tests"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [finding["name"] for finding in found["findings"]].count("tested") == 4


TOOLS = """
from pydantic_ai import Agent
agent = Agent()
@agent.tool_plain
def refund(order_id: str, amount: int) -> dict: ...
@agent.tool_plain
def mail(order_id: str) -> dict:
    return send_email(order_id)
"""
CONFIGS = {
    "json": ("conf/gate.json", '{"tools": {"refund": {"key": ["order_id"]}}}'),
    "toml": ("conf/gate.toml", '[tools.refund]\nkey = ["order_id"]\n'),
    "dict": ("gate.py", 'CONFIG = {"tools": {"refund": {"key": ["order_id"]}}}'),
    "dict by name": ("gate.py", 'how = {"key": ["order_id"]}\nGuard({"tools": {"refund": how}})'),
    "effect": ("gate.py", 'protect(tools, {"refund": Effect(key=lambda order_id: order_id)})'),
    "decorated by a call": ("gate.py", "gate.effect(key=lambda order_id: order_id)(refund)"),
}


@pytest.mark.parametrize("form", CONFIGS)
def test_what_is_gated_is_not_proposed(form: str, tmp_path: Path, capsys: Any) -> None:
    """A tool that a configuration gates, in JSON, TOML or Python, anywhere in the project, is told as gated; the others are proposed."""
    write(tmp_path, "agent.py", TOOLS)
    write(tmp_path, *CONFIGS[form])
    _, found = look(tmp_path, capsys)
    assert "refund" in found["gated"]
    assert [finding["name"] for finding in found["findings"]] == ["mail"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("menu.py", 'MENU = {"tools": {"refund": {"color": "red"}, "mail": 3}}'),
        ("menu.json", '{"tools": {"refund": {"color": "red"}}}'),
        ("pyproject.toml", '[tool.refund]\nkey = ["order_id"]\n'),
    ],
)
def test_something_else_that_has_tools_gates_nothing(tmp_path: Path, capsys: Any, name: str, text: str) -> None:
    """A dict or file that has "tools" and is no configuration of ours hides no finding."""
    write(tmp_path, "agent.py", TOOLS)
    write(tmp_path, name, text)
    _, found = look(tmp_path, capsys)
    assert [finding["name"] for finding in found["findings"]] == ["refund", "mail"]


def test_a_configuration_that_the_gate_would_refuse_gates_nothing(tmp_path: Path, capsys: Any) -> None:
    """A misspelt option is told with its file, and the tool is proposed."""
    write(tmp_path, "agent.py", TOOLS)
    write(tmp_path, "gate.toml", '[tools.refund]\nkey = ["order_id"]\nlokup = "find"\n')
    _, found = look(tmp_path, capsys)
    assert [finding["name"] for finding in found["findings"]] == ["refund", "mail"]
    assert any(said.startswith("gate.toml") and "lokup" in said for said in found["unclear"])


MARKS = {
    "@tool\n{}": "langchain's decorator",
    "@function_tool\n{}": "OpenAI Agents'",
    "@function_tool(strict_mode=False)\n{}": "with options",
    "@mcp.tool()\n{}": "MCP's and fastmcp's",
    "@agent.tool\n{}": "pydantic-ai's",
    "@beta_tool\n{}": "Anthropic's runner",
    "{}\ntools = [FunctionTool(act_on)]": "ADK's",
    "{}\nAgent(tools=[act_on])": "handed over in a list",
    "{}\nTOOLS = [act_on]\nAgent(tools=TOOLS)": "through a variable",
    "{}\nserver.tool(name='act_on')(act_on)": "MCP's, as a call",
    "{}\nStructuredTool.from_function(func=act_on)": "langchain's, by name",
}


@pytest.mark.parametrize("form", MARKS, ids=MARKS.values())
def test_tools_of_each_framework_are_seen(form: str, tmp_path: Path, capsys: Any) -> None:
    """However a framework is told of a tool, one that nothing can be said of is told as not judged, never left out."""
    write(tmp_path, "agent.py", form.format("def act_on(order_id: str) -> str: ..."))
    _, found = look(tmp_path, capsys)
    assert found["findings"] == []
    assert any("tool act_on: nothing tells" in said for said in found["unclear"])


@pytest.mark.parametrize(
    "form",
    [
        "@mcp.tool(annotations=ToolAnnotations(destructiveHint=True))\n{}",
        "@mcp.tool(annotations={{'readOnlyHint': False}})\n{}",
        "{}\nmcp.add_tool(act_on, annotations=ToolAnnotations(destructiveHint=True))",
        "{}\nserver.tool(name='act_on', annotations={{'destructiveHint': True}})(act_on)",
        "{}\nTool(name='act_on', annotations=ToolAnnotations(readOnlyHint=False))",
    ],
)
def test_annotations_say_that_a_tool_writes(form: str, tmp_path: Path, capsys: Any) -> None:
    """A tool that MCP annotations call destructive, or not read-only, is proposed whatever it is called; a read-only one is not."""
    write(tmp_path, "server.py", form.format("def act_on(order_id: str) -> str: ..."))
    _, found = look(tmp_path, capsys)
    assert [finding["name"] for finding in found["findings"]] == ["act_on"]
    read_only = form.replace("readOnlyHint", "destructiveHint").replace("destructiveHint", "readOnlyHint")
    read_only = read_only.replace("False", "True")
    write(tmp_path, "server.py", read_only.format("def act_on(order_id: str) -> str: ..."))
    _, found = look(tmp_path, capsys)
    assert found["findings"] == []


def test_a_tool_is_proposed_under_the_name_the_model_knows(tmp_path: Path, capsys: Any) -> None:
    """A tool with a name of its own is configured by that name."""
    write(
        tmp_path,
        "server.py",
        "@mcp.tool(name='refund_order')\ndef act(order_id: str) -> str:\n    requests.post(order_id)\n",
    )
    _, found = look(tmp_path, capsys)
    assert list(found["configuration"]["tools"]) == ["refund_order"]


def test_what_only_gated_functions_call_is_behind_the_gate(tmp_path: Path, capsys: Any) -> None:
    """A helper that a gated function alone calls is not proposed; one that something else calls, too, is."""
    gated = "@gate.effect(key=lambda order_id: order_id)\ndef refund(order_id):\n    post(order_id)\n"
    write(tmp_path, "a.py", "def post(order_id):\n    requests.post(order_id)\n" + gated)
    assert look(tmp_path, capsys)[1]["findings"] == []
    write(tmp_path, "b.py", "def around(order_id):\n    post(order_id)\n")
    assert [finding["name"] for finding in look(tmp_path, capsys)[1]["findings"]] == ["post"]


def test_the_printed_configuration_loads_and_works(shop: Path, tmp_path: Path, capsys: Any) -> None:
    """The text has one configuration of all tools; it loads as printed, and a gate takes it with the project's own tools."""
    write(shop, "more.py", "@agent.tool_plain\ndef cancel_booking(booking_id: str) -> dict: ...\n")
    main(["init", str(shop)])
    text = capsys.readouterr().out
    printed = text[text.index("\n{") : text.index("\n}") + 2]
    loaded = load(json.loads(printed))
    assert sorted(loaded.tools) == ["cancel_booking", "refund_order"]

    def refund_order(order_id: str, amount: int, reason: str, reference: str = "") -> dict[str, Any]:
        return {"order_id": order_id, "reference": reference}

    def cancel_booking(booking_id: str) -> dict[str, Any]:
        return {"booking_id": booking_id}

    def get_order(order_id: str) -> dict[str, Any]:
        return {"refunded_total": 0}

    def find_refund(reference: str) -> dict[str, Any]:
        return {"found": False}

    tools = protect([refund_order, cancel_booking, get_order, find_refund], loaded, journal=tmp_path / "journal")
    tools.recover()
    assert tools["refund_order"](order_id="881", amount=20, reason="")["status"] == "COMMITTED"


def test_what_it_cannot_know_is_never_taken_for_unchanged(tmp_path: Path, capsys: Any) -> None:
    """Where no field can be seen, the configuration loads with a placeholder, says so, and the gate refuses calls until it is filled in."""
    write(tmp_path, "agent.py", TOOLS + "@agent.tool_plain\ndef get_order(order_id: str) -> dict: ...\n")
    _, found = look(tmp_path, capsys)
    assert all(any("NAME_A_FIELD" in said for said in finding["to_do"]) for finding in found["findings"])

    def refund(order_id: str, amount: int) -> dict[str, Any]:
        return {}

    def mail(order_id: str) -> dict[str, Any]:
        return {}

    def get_order(order_id: str) -> dict[str, Any]:
        return {"refunded_total": 0}

    tools = protect([refund, mail, get_order], found["configuration"], journal=tmp_path / "journal")
    tools.recover()
    assert tools["refund"](order_id="881", amount=20)["status"] == "REFUSED:unreadable"


def test_an_argument_that_is_still_to_be_added_is_refused_at_the_start(tmp_path: Path, capsys: Any) -> None:
    """For a tool without an id the configuration loads, and no gate starts with it before the tool has the argument."""
    write(tmp_path, "agent.py", "@tool\ndef send_text(text: str) -> dict: ...\n")
    _, found = look(tmp_path, capsys)

    def send_text(text: str) -> dict[str, Any]:
        return {}

    load(found["configuration"])
    with pytest.raises(ConfigurationError, match="request_id"):
        protect([send_text], found["configuration"], journal=tmp_path / "journal")


@pytest.mark.parametrize(
    ("head", "called"),
    [
        ("def notify(customer_id, text):", ("c1", "hello")),
        ("def notify(text):", ("r1", "hello")),
        ("def notify(order_id, *, idempotency_key):", ("o1",)),
    ],
)
def test_the_printed_code_loads_and_works(
    head: str, called: tuple[str, ...], tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    """What is printed for a function runs as it is, and the gate takes calls of it."""
    write(tmp_path, "one.py", f"{head}\n    requests.post(text)\n")
    _, found = look(tmp_path, capsys)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(found["findings"][0]["proposal"], names)
    with names["gate"]:
        assert str(names["notify"](*called)) == "COMMITTED"
        assert str(names["notify"](*called)) == "DUPLICATE_IGNORED"


CALLS = {
    "client.v1.refunds.create(params={})": "writes to Stripe",
    "stripe.PaymentIntent.capture('pi')": "writes to Stripe",
    "httpx.post('u')": "sends an HTTP request that may write",
    "smtplib.SMTP('x').send_message(m)": "sends a message",
    "table.put_item(Item={})": "writes through boto3 or a queue",
    "slack.chat_postMessage(channel='c')": "writes to Slack",
    "repo.create_issue(title='t')": "writes to GitHub",
    "twilio_client.messages.create(to='1', body='x')": "sends through a messaging service or a model",
    "resend.Emails.send({})": "sends mail",
    "calendar.events().insert(body={})": "writes through a Google API",
    "cursor.execute('INSERT INTO x VALUES (1)')": "writes to a database",
    "subprocess.run(['git', 'push'])": "runs git push",
    "requests.request('DELETE', 'u')": "sends an HTTP request that may write",
    "requests.request('GET', 'u')": "",
    "urllib.request.urlopen('u', data=b'')": "sends an HTTP request that may write",
    "urllib.request.urlopen('u')": "",
    "stripe.billing.CreditGrant.create(amount=1)": "writes to Stripe",
    "requests.get('u')": "",
    "cursor.execute('SELECT 1')": "",
    "client.messages.create(model='m', messages=[])": "",
    "client.chat.completions.create(model='m', messages=[])": "",
}


FOLLOWED = {
    "import boto3\ns3 = boto3.client('s3')": ("s3.put_object(Key=order_id)", "writes through boto3 or a queue"),
    "import boto3 as aws\nqueue = aws.client('sqs')": ("queue.send_message(MessageBody='')", "sends a message"),
    "import boto3\nec2 = boto3.resource('ec2')": ("ec2.describe_instances()", ""),
    "from requests import post": ("post('u')", "sends an HTTP request that may write"),
    "import httpx\nweb = httpx.Client()": ("web.put('u')", "sends an HTTP request that may write"),
    "import httpx\nweb = httpx.Client(timeout=3)": ("web.get('u')", ""),
    "from github import Github\nhub = Github('t')": (
        "hub.get_repo('r').create_file('p', 'm', 'c')",
        "writes to GitHub",
    ),
    "from slack_sdk import WebClient\nchat = WebClient()": ("chat.chat_postMessage(channel='c')", "writes to Slack"),
    "from slack_sdk.web.async_client import AsyncWebClient\nchat = AsyncWebClient()": (
        "chat.chat_scheduleMessage()",
        "writes to Slack",
    ),
    "from sendgrid import SendGridAPIClient\nout = SendGridAPIClient('k')": ("out.send(m)", "sends mail"),
    "import resend": ("resend.Emails.send({})", "sends mail"),
    "import smtplib as mail\nhost = mail.SMTP('h')": ("host.sendmail('a', 'b', 'c')", "sends a message"),
    "import stripe as money": ("money.Refund.create(charge=order_id)", "writes to Stripe"),
    "from stripe import StripeClient\npsp = StripeClient('k')": ("psp.v1.refunds.create({})", "writes to Stripe"),
    "from googleapiclient.discovery import build\nsheets = build('sheets', 'v4')": (
        "sheets.spreadsheets().values().append(body={}).execute()",
        "writes through a Google API",
    ),
    "cache = {}\nclass Post: ...": ("cache.put('k')", ""),
}


@pytest.mark.parametrize("made", FOLLOWED)
def test_a_client_is_followed_to_its_library(made: str, tmp_path: Path, capsys: Any) -> None:
    """A call on a variable is judged by the library that made it, whatever the variable is called."""
    call, why = FOLLOWED[made]
    write(tmp_path, "one.py", f"{made}\n\ndef act(order_id):\n    return {call}\n")
    _, found = look(tmp_path, capsys)
    assert [finding["why"] for finding in found["findings"]] == ([[why]] if why else [])


READY = {
    "stripe.Refund.create()": "stripe_refund",
    "client.v1.payment_intents.capture('pi')": "stripe_payment_intent",
    "client.v1.transfers.create({})": "stripe_transfer",
    "stripe.Payout.create()": "stripe_payout",
    "client.v1.billing.credit_grants.create({})": "stripe_credit_grant",
    "client.v1.customers.balance_transactions.create('c', {})": "stripe_customer_balance",
    "stripe.Invoice.create()": "",
}


@pytest.mark.parametrize("call", READY)
def test_a_ready_made_effect_is_named(call: str, tmp_path: Path, capsys: Any) -> None:
    """A Stripe call that this library has an effect for is told with its name, which exists."""
    import interlock.targets.stripe as targets

    write(tmp_path, "one.py", f"def act(order_id):\n    return {call}\n")
    _, found = look(tmp_path, capsys)
    assert [finding["ready_made"].rpartition(".")[2] for finding in found["findings"]] == [READY[call]]
    assert not READY[call] or hasattr(targets, READY[call])


@pytest.mark.parametrize("call", CALLS)
def test_known_calls(call: str, tmp_path: Path, capsys: Any) -> None:
    """A function is named by the call that it makes; one that reads, or asks a model, is not."""
    (tmp_path / "one.py").write_text(f"def act(order_id):\n    return {call}\n")
    _, found = look(tmp_path, capsys)
    assert [finding["why"] for finding in found["findings"]] == ([[CALLS[call]]] if CALLS[call] else [])
