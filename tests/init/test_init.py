"""`interlock init` on a small project: what it names, proposes, leaves alone and cannot judge."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from interlock.cli import main
from interlock.config import load

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
    assert refund["ready_made"] == "interlock.targets.stripe.stripe_refund"
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
    assert "agent.py:18 refund_order: writes to Stripe" in text
    assert "Gated already: close_order." in text


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
    "requests.get('u')": "",
    "cursor.execute('SELECT 1')": "",
    "client.messages.create(model='m', messages=[])": "",
    "client.chat.completions.create(model='m', messages=[])": "",
}


@pytest.mark.parametrize("call", CALLS)
def test_known_calls(call: str, tmp_path: Path, capsys: Any) -> None:
    """A function is named by the call that it makes; one that reads, or asks a model, is not."""
    (tmp_path / "one.py").write_text(f"def act(order_id):\n    return {call}\n")
    _, found = look(tmp_path, capsys)
    assert [finding["why"] for finding in found["findings"]] == ([[CALLS[call]]] if CALLS[call] else [])
