"""The gate's callbacks over a plan's requests and a user's callbacks: once blocking, once awaited. Owns nothing but the difference.

What fails is said once, in the words of whoever failed: Stripe's reading, or the user's `approval=` or `premises=`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import stripe

from interlock.authority import Permission
from interlock.callbacks import KEY_ARGUMENT
from interlock.effects import Facts
from interlock.errors import AuthorityUnclear, PremiseUnreadable
from interlock.gate import resolve
from interlock.settlement import Settlement
from interlock.targets.stripe._case import CaseCallback
from interlock.targets.stripe._connection import Call, Calls, as_dict
from interlock.targets.stripe._error import told, unreadable
from interlock.targets.stripe._plan import ARGUMENTS, Plan, StripeObject

if TYPE_CHECKING:
    from interlock.targets.stripe._effect import StripeEffect

Callbacks = tuple[Callable[..., Any], ...]


def references(plan: Plan) -> Callable[..., list[str]]:
    assert plan.references is not None
    read = plan.references
    return lambda value: read(_fields(value))


def _fields(value: Any) -> Mapping[str, Any]:
    """The fields of what was made, whether it comes as an object or as the look-up found it."""
    return value.model_dump() if isinstance(value, StripeObject) else value if isinstance(value, Mapping) else {}


def synchronous(effect: StripeEffect[Any]) -> Callbacks:
    connection, plan = effect.connection, effect._plan

    def send(
        case: Any,
        subject: Any,
        amount: Any,
        currency: Any,
        params: Any,
        notes: Any,
        metadata: Any,
        since: Any,
        idempotency_key: str,
        approved: Any = None,
    ) -> StripeObject:
        given = _given(case, subject, amount, currency, params, notes, metadata, since, approved)
        try:
            made = connection.run(_once(plan.create(given, idempotency_key)))
        except stripe.StripeError as error:
            raise told(error, single_attempt=connection.makes_one_attempt) from error
        return StripeObject.of(made)

    def facts(**given: Any) -> Facts:
        try:
            own = connection.run(plan.facts(given, given[KEY_ARGUMENT])) if plan.facts is not None else Facts({})
        except stripe.StripeError as error:
            raise _no_facts(effect.name, error) from error
        if effect._premises is None:
            return own
        return _together(own, resolve(effect._premises(given["case"], given)), effect.name)

    def look_up(**given: Any) -> Any:
        return connection.run(plan.find(given, given[KEY_ARGUMENT]))

    def allowed(**given: Any) -> Permission:
        assert effect._approval is not None
        try:
            answer = resolve(effect._approval(given["case"], given))
        except Exception as error:
            raise effect.unread(error) from error
        try:
            moved = connection.run(effect.moved(answer, given))
        except stripe.StripeError as error:
            raise _no_amount(effect.name, error) from error
        return effect.permission(answer, moved, given)

    def budget(**given: Any) -> Any:
        assert effect._budget is not None
        return effect._budget(given["case"], given)

    def settlement(value: Any, **given: Any) -> Settlement | None:
        assert plan.settlement is not None
        return connection.run(plan.settlement(given, _fields(value)))

    return send, facts, look_up, allowed, budget, settlement


def asynchronous(effect: StripeEffect[Any]) -> Callbacks:
    connection, plan = effect.connection, effect._plan

    async def send(
        case: Any,
        subject: Any,
        amount: Any,
        currency: Any,
        params: Any,
        notes: Any,
        metadata: Any,
        since: Any,
        idempotency_key: str,
        approved: Any = None,
    ) -> StripeObject:
        given = _given(case, subject, amount, currency, params, notes, metadata, since, approved)
        try:
            made = await connection.arun(_once(plan.create(given, idempotency_key)))
        except stripe.StripeError as error:
            raise told(error, single_attempt=connection.makes_one_attempt) from error
        return StripeObject.of(made)

    async def facts(**given: Any) -> dict[str, Any]:
        try:
            own = await connection.arun(plan.facts(given, given[KEY_ARGUMENT])) if plan.facts is not None else Facts({})
        except stripe.StripeError as error:
            raise _no_facts(effect.name, error) from error
        if effect._premises is None:
            return own
        return _together(own, await asked(effect._premises, given), effect.name)

    async def look_up(**given: Any) -> Any:
        return await connection.arun(plan.find(given, given[KEY_ARGUMENT]))

    async def allowed(**given: Any) -> Permission:
        assert effect._approval is not None
        try:
            answer = await asked(effect._approval, given)
        except Exception as error:
            raise effect.unread(error) from error
        try:
            moved = await connection.arun(effect.moved(answer, given))
        except stripe.StripeError as error:
            raise _no_amount(effect.name, error) from error
        return effect.permission(answer, moved, given)

    async def budget(**given: Any) -> Any:
        assert effect._budget is not None
        return await asked(effect._budget, given)

    async def settlement(value: Any, **given: Any) -> Settlement | None:
        assert plan.settlement is not None
        return await connection.arun(plan.settlement(given, _fields(value)))

    return send, facts, look_up, allowed, budget, settlement


async def asked(callback: CaseCallback, given: Mapping[str, Any]) -> Any:
    """A user's callback, off the event loop if it would block it."""
    if callback.is_async:
        return await callback(given["case"], given)
    answer = await asyncio.to_thread(callback, given["case"], given)
    return await answer if inspect.isawaitable(answer) else answer


def _given(*values: Any) -> dict[str, Any]:
    return dict(zip(ARGUMENTS, values, strict=True))


def _once(call: Call) -> Calls[dict[str, Any]]:
    return as_dict((yield call))


def _together(own: Facts, theirs: Any, effect: str) -> Facts:
    if not isinstance(theirs, Mapping):
        raise PremiseUnreadable(
            f"effect {effect!r}: premises= gave {theirs!r:.200}; give a dict of named facts. Nothing was sent."
        )
    if twice := own.keys() & theirs.keys():
        raise PremiseUnreadable(
            f"effect {effect!r}: premises= names {', '.join(sorted(twice))}, which the target reads itself. Use another name. "
            "Nothing was sent."
        )
    return Facts({**own, **theirs}, own.own, own.before)


def _no_facts(effect: str, error: stripe.StripeError) -> PremiseUnreadable:
    return PremiseUnreadable(
        f"effect {effect!r}: its facts could not be read. {unreadable(error)} Nothing was sent; ask again when they can be read."
    )


def _no_amount(effect: str, error: stripe.StripeError) -> AuthorityUnclear:
    return AuthorityUnclear(
        f"effect {effect!r}: what the approval must cover could not be read. {unreadable(error)} Nothing was sent; ask again when it can "
        "be read."
    )
