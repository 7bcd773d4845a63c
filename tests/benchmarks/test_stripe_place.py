from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import requests
import stripe
from requests.adapters import HTTPAdapter

from benchmarks import __main__ as command
from benchmarks.harness.stripe_place import LocalOnly, StripePlace, money_of
from benchmarks.harness.stripe_wire import KEY_VARIABLE, PACE_S, Door, KeyRefused, Service, connect, read_key
from benchmarks.suites.e2e.suite import SUITE as E2E


@pytest.fixture
def place(tmp_path: Path) -> StripePlace:
    return StripePlace(directory=tmp_path / "ledger", run="run-test")


@pytest.mark.parametrize("prefix", ["sk_live_", "rk_live_"])
def test_a_live_key_is_refused_by_name_and_not_repeated(prefix: str) -> None:
    """A live key is refused by its prefix before anything is sent, and the message does not repeat it."""
    with pytest.raises(KeyRefused, match=f"live key \\({prefix}") as refused:
        read_key({KEY_VARIABLE: f"{prefix}51Secret"})
    assert "51Secret" not in str(refused.value)


@pytest.mark.parametrize("key", ["", "pk_test_1", "whsec_1"])
def test_what_is_no_test_mode_secret_key_is_refused(key: str) -> None:
    """No key, and a key of another kind, are refused with a word on what is needed."""
    with pytest.raises(KeyRefused, match="sk_test_"):
        read_key({KEY_VARIABLE: key})


def test_a_live_key_ends_the_command_before_a_cell_is_played(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """`--stripe live` with a live key exits 2 with the reason and writes no result."""
    monkeypatch.setenv(KEY_VARIABLE, "sk_live_51Secret")
    assert command.run(E2E, ["--quick", "--stripe", "live", "--out", str(tmp_path)]) == command.CANNOT_RUN
    assert "live key" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_every_object_of_a_cell_is_tagged_whoever_makes_it(place: StripePlace) -> None:
    """Payments, hand refunds and an arm's refunds carry the run and the cell, beside the metadata of their own."""
    with place:
        payment = place.pay("cell-1")
        place.refund_by_hand("cell-1", payment.id, 500)
        arm = connect(place.door_of("cell-1"))
        arm.v1.refunds.create({"payment_intent": payment.id, "amount": 700, "metadata": {"key": "mine"}})
        tags = {"bench_run": "run-test", "bench_cell": "cell-1"}
        assert payment.metadata.to_dict() == tags
        assert [refund["metadata"] for refund in place.refunds(payment.id)] == [tags, {"key": "mine", **tags}]
        assert money_of(place.refunds(payment.id)) == (1200, 2)


def test_refunds_that_failed_moved_no_money() -> None:
    """A failed or canceled refund counts neither as money nor as a refund; a pending one does."""
    refunds = [{"status": status, "amount": 1} for status in ("succeeded", "pending", "failed", "canceled")]
    assert money_of(refunds) == (2, 2)


def test_a_pruned_door_writes_every_key_differently(place: StripePlace) -> None:
    """Behind the emulated prune the same key makes a second refund, as at a service that forgot it; before, it replays the first."""
    with place:
        payment = place.pay("cell-1")
        for pruned, count in (("", 1), ("", 1), ("pruned", 2), ("pruned", 2)):
            client = connect(place.door.model_copy(update={"pruned": pruned}))
            client.v1.refunds.create({"payment_intent": payment.id, "amount": 500}, {"idempotency_key": "k"})
            assert money_of(place.refunds(payment.id)) == (500 * count, count)


def test_below_tier_1_no_key_leaves(place: StripePlace) -> None:
    """A client that sends no key sends none, also not the random one that the SDK adds."""
    with place:
        payment = place.pay("cell-1")
        client = connect(place.door, sends_key=False)
        for _ in range(2):
            client.v1.refunds.create({"payment_intent": payment.id, "amount": 500}, {"idempotency_key": "k"})
        assert money_of(place.refunds(payment.id)) == (1000, 2)


def test_live_has_no_faults_and_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only the local service has is refused live, in words; the keys are emulated instead."""
    monkeypatch.setenv(KEY_VARIABLE, "sk_test_1")
    place = StripePlace(Service.LIVE)
    with pytest.raises(LocalOnly, match="--stripe local"):
        _ = place.local
    assert place.forget_keys(Door(service=Service.LIVE)).pruned
    assert place.meta()["service"] == "live"


def test_a_live_client_goes_to_stripe_with_the_test_key_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The live client is the SDK's own address with the environment's test key, and a live key makes none."""
    monkeypatch.setenv(KEY_VARIABLE, "sk_test_1")
    assert isinstance(connect(Door(service=Service.LIVE)), stripe.StripeClient)
    monkeypatch.setenv(KEY_VARIABLE, "rk_live_1")
    with pytest.raises(KeyRefused):
        connect(Door(service=Service.LIVE))


def test_what_goes_out_live_is_tagged_paced_and_addressed_to_stripe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Live, each request goes to api.stripe.com with the test key, what it creates is tagged, and no two follow at once."""
    sent: list[tuple[float, requests.PreparedRequest]] = []

    def answer(self: HTTPAdapter, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        sent.append((time.monotonic(), request))
        response = requests.Response()
        response.status_code = 200
        response._content = b'{"id": "re_1", "object": "refund"}'
        return response

    monkeypatch.setenv(KEY_VARIABLE, "sk_test_1")
    monkeypatch.setattr(HTTPAdapter, "send", answer)
    with StripePlace(Service.LIVE, run="run-live") as place:
        for _ in range(3):
            assert place.refund_by_hand("cell-1", "pi_1", 500) == "re_1"
    moments = [moment for moment, _ in sent]
    assert min(later - earlier for earlier, later in itertools.pairwise(moments)) >= 0.9 * PACE_S
    for _, request in sent:
        assert request.url == "https://api.stripe.com/v1/refunds"
        assert request.headers["Authorization"] == "Bearer sk_test_1"
        body = str(request.body)
        assert "metadata[bench_run]=run-live" in unquote(body)
        assert int(request.headers["Content-Length"]) == len(body)
