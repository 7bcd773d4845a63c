"""Stripe's webhooks for a gate: a small ASGI app that a user mounts. An event is a trigger; what is recorded is read from Stripe.

docs.stripe.com/webhooks: an event may come twice, late, before another that is older, and not only about what we made; anything but
2xx is delivered again (for up to three days in live mode); the signature carries a time, against replays. So:

    forged, wrong secret, too old, not JSON, no object  400   nothing is done
    too big                                             413
    of what no effect of ours made, or of nothing       200   nothing is done
    of one that did                                     200   read again; the same as before writes nothing
    of one that may be in flight right now              503   it is waited for a moment; then Stripe delivers again
    the journal or Stripe cannot be used now            503   Stripe delivers again
    its function is not registered here                 500   likewise

Knows no storage and no rule of settlement: that is `Interlock.aresettle`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import stripe

from interlock.effects import Kind
from interlock.errors import ConfigurationError, JournalError, SettlementUnreadable
from interlock.outcomes import Outcome
from interlock.rules.lifecycle import LANDED, OPEN
from interlock.targets.stripe._mark import MARKS
from interlock.targets.stripe.settlement import ids_in

if TYPE_CHECKING:
    from interlock.decorator import Interlock

log = logging.getLogger("interlock")

BODY_AT_MOST = 1 << 20
"""The largest body that is read, in bytes. Stripe's events are some kilobytes."""
EARLY_WAIT_S = 3.0
"""How long an event waits for effects that are in flight when it comes, in seconds; well below what Stripe waits for an answer."""
EARLY_POLL_S = 0.05
EARLY_FOR_S = 3600.0
"""An effect that was sent longer ago than this is not waited for, in seconds: recovery settles it, and `gate.watch()` reads it then."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def webhook_app(
    gate: Interlock,
    client: stripe.StripeClient,
    *,
    secret: str | Sequence[str],
    on_change: Callable[[Outcome], Any] | None = None,
) -> App:
    """An ASGI app that takes Stripe's events and reads the effects that they tell of again.

    Mount it anywhere: `Mount("/stripe/events", app=webhook_app(gate, client, secret=...))`, or serve it by itself. It answers POST.
    Subscribe to what can change an effect: `refund.*`, `charge.dispute.*`, `payout.*`, `transfer.*`, `payment_intent.*`. It does not
    replace `gate.watch()`: an event may never come.

    Args:
        gate: the gate, with the functions declared on it.
        client: verifies the signature.
        secret: the endpoint's `whsec_...`; several while it is rotated.
        on_change: told the `Outcome` of each change, after it is on the record; may be async. If it raises, that is logged.

    Raises:
        ConfigurationError: there is no secret, or no `StripeClient`.

    **Durable when** it answers 2xx: what Stripe said of each effect of ours that the event is about.
    **If the process dies** before: nothing was answered, and Stripe delivers the event again.
    """
    secrets: tuple[Any, ...] = (secret,) if isinstance(secret, str) else tuple(secret)
    if not secrets or not all(isinstance(known, str) and known for known in secrets):
        raise ConfigurationError(
            "webhook_app: secret= is the signing secret of the endpoint (whsec_...); without one anybody could send events."
        )
    if not isinstance(client, stripe.StripeClient):
        raise ConfigurationError(f"webhook_app: the client is {type(client).__name__}; give a stripe.StripeClient.")
    return _Webhook(gate, client, secrets, on_change)


class _Webhook:
    """The app."""

    def __init__(
        self,
        gate: Interlock,
        client: stripe.StripeClient,
        secrets: tuple[str, ...],
        on_change: Callable[[Outcome], Any] | None,
    ) -> None:
        self._gate = gate
        self._client = client
        self._secrets = secrets
        self._on_change = on_change

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise NotImplementedError(f"webhook_app speaks HTTP, not {scope['type']}.")
        status, text = await self._answer(scope, receive)
        body = json.dumps({"message": text}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if status == 405:
            headers.append((b"allow", b"POST"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, str]:
        if scope["method"] != "POST":
            return 405, "events are posted"
        body = await _read(receive)
        if body is None:
            return 413, f"an event is at most {BODY_AT_MOST} bytes long"
        event = self._verified(body, _header(scope, b"stripe-signature"))
        if event is None:
            return 400, "not an event signed with this endpoint's secret, or too old"
        try:
            return await self._take(event)
        except JournalError as error:
            log.error("event %s: the journal cannot be used: %s", event.get("id"), error, exc_info=error)
            return 503, "it cannot be recorded now"
        except SettlementUnreadable as error:
            log.error("event %s: Stripe could not be read again: %s", event.get("id"), error, exc_info=error)
            return 503, "it cannot be read now"
        except Exception as error:
            log.error("event %s was not taken: %s", event.get("id"), error, exc_info=error)
            return 500, "it could not be taken"

    def _verified(self, body: bytes, signature: str) -> Mapping[str, Any] | None:
        """The event, if its signature and its time are right."""
        for secret in self._secrets:
            try:
                self._client.construct_event(body, signature, secret)
            except stripe.SignatureVerificationError:
                continue
            except Exception as error:  # noqa: BLE001 - a signed body that is no event: the SDK raises what comes of it
                log.warning("a signed request is no event: %s", error)
                return None
            event: Any = json.loads(body)
            return event if isinstance(event, dict) else None
        return None

    async def _take(self, event: Mapping[str, Any]) -> tuple[int, str]:
        data = event.get("data")
        about = data.get("object") if isinstance(data, Mapping) else None
        if not isinstance(about, Mapping):
            return 200, "about nothing that we made"
        metadata = about.get("metadata")
        said = [metadata.get(mark) for mark in MARKS] if isinstance(metadata, Mapping) else []
        marks = [mark for mark in said if isinstance(mark, str)]
        are_known = bool(marks) and all([await self._find([mark]) for mark in marks])
        is_early = False if are_known else await self._wait_for_what_is_in_flight()
        found = list(dict.fromkeys(await self._find([*marks, *ids_in(about)])))
        failed: Exception | None = None
        for effect_id in found:
            try:
                await self._gate.aresettle(effect_id, on_change=self._on_change)
            except Exception as error:  # noqa: BLE001 - raised below; one effect's failure never stops the others
                failed = failed or error
        if failed is not None:
            raise failed
        if is_early:
            return 503, "about something that may be in flight"
        for mark in marks:
            await asyncio.to_thread(self._tell_of_unlanded, mark, str(event.get("id")))
        return 200, f"effects read again: {len(found)}"

    async def _find(self, references: Sequence[str]) -> list[str]:
        def find() -> list[str]:
            return [effect_id for reference in references for effect_id in self._gate.find(reference)]

        return await asyncio.to_thread(find)

    async def _wait_for_what_is_in_flight(self) -> bool:
        """Whether something that was on its way when the event came still is: the event may be about that, which has no references yet."""
        waiting = await asyncio.to_thread(self._in_flight)
        for _ in range(int(EARLY_WAIT_S / EARLY_POLL_S)):
            if not waiting:
                return False
            await asyncio.sleep(EARLY_POLL_S)
            waiting = await asyncio.to_thread(lambda ids: [one for one in ids if self._is_open(one)], waiting)
        return bool(waiting)

    def _in_flight(self) -> list[str]:
        effects, now = self._gate.effects, self._gate.clock.now()
        found = []
        for effect_id, name in self._gate.journal.open_effects():
            if name in effects and not effects[name].watch_for_s:
                continue
            last = self._gate.journal.load(effect_id).entries[-1]
            sent_s = (now - datetime.fromisoformat(last.at)).total_seconds()
            if last.kind is Kind.DISPATCHED and sent_s < EARLY_FOR_S:
                found.append(effect_id)
        return found

    def _is_open(self, effect_id: str) -> bool:
        return self._gate.journal.load(effect_id).kind in OPEN

    def _tell_of_unlanded(self, mark: str, event: str) -> None:
        """An object carries our mark, and the record does not say that its effect has landed: that is for a person to know."""
        history = self._gate.journal.load(mark)
        if history.entries and history.kind not in LANDED:
            log.warning(
                "event %s shows that Stripe has an object of effect %s, which is %s on the record. A person should look at it.",
                event,
                mark,
                history.kind,
            )


async def _read(receive: Receive) -> bytes | None:
    """The body, or None if it is too long."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > BODY_AT_MOST:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for known, value in scope["headers"] if known == name), "")
