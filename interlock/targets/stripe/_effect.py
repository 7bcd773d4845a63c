"""A gated call to Stripe: what all ready-made effects share. Owns how a call becomes a payload, and what the gate is told about Stripe.

    call:     refund(case, amount=2000)
    record:   case (plain data), subject ("pi_..."), amount, currency, params, notes, metadata
    binds:    subject, amount, currency, params: another of these under one key is a conflict; notes and metadata may differ
    sent:     what was recorded first, with the metadata `interlock_effect_id` = the idempotency key, which the look-up finds

docs.stripe.com/api/idempotent_requests: a key may be pruned once it is 24 hours old, and then makes a new request. The gate keeps a
margin of the longest send at the end of that window; after it, it looks up by metadata over a List, which shows what was answered
(docs.stripe.com/search says that Search lags, and does not cover every object).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from interlock.authority import Approval, Permission, permission_of
from interlock.callbacks import KEY_ARGUMENT
from interlock.declaration import seconds
from interlock.effects import Proposal
from interlock.errors import AuthorityUnclear, BadInput, ConfigurationError
from interlock.function import EffectFunction
from interlock.gate import resolve
from interlock.outcomes import Outcome
from interlock.record import NamedTuple
from interlock.rules.values import raised_by, text_of, what_then
from interlock.targets.stripe._callback import asked, asynchronous, references, synchronous
from interlock.targets.stripe._case import CaseCallback, CaseReader, plain
from interlock.targets.stripe._connection import Calls, Connection
from interlock.targets.stripe._decision import decided, why_another
from interlock.targets.stripe._error import verdict_of
from interlock.targets.stripe._mark import MARKS
from interlock.targets.stripe._plan import Moved, Plan

A = TypeVar("A")

WINDOW = timedelta(hours=24)
"""docs.stripe.com/api/idempotent_requests: keys may be pruned once they are at least 24 hours old."""
SETTLE_AFTER_S = 10.0
"""How long a request may still be in Stripe's hands once its sender is gone; "absent" is not trusted before.

A sender that lives waits for up to `timeout=`, which is longer: an answer may be late though the request has long been carried out. And
should one be carried out later than this, no second one follows from it: while Stripe knows the key it drops a second request, and what
was called absent is looked up once more before anything is sent for it again. Until then REFUSED or FAILED was said of what has landed.
"""
AT_MOST = 10_000
"""How many objects a look-up reads before it says that it cannot tell."""
OPTIONS = frozenset(
    {
        "api_key",
        "stripe_version",
        "stripe_account",
        "stripe_context",
        "max_network_retries",
        "idempotency_key",
        "content_type",
        "headers",
        "base",
        "usage",
        "method_",
        "url_",
    }
)
"""What the SDK would take out of a request's parameters for itself."""


class Parts(NamedTuple):
    """What one call comes down to.

    Attributes:
        subject: what is acted on: a payment, a customer, an account; None if nothing.
        amount: in the currency's smallest unit; None if the effect moves none of its own.
        currency: as the caller said it; None if not.
        params: further parameters that make it this very request.
        notes: parameters that may differ between tries; what was recorded first is sent.
        metadata: further metadata.
    """

    subject: str | None
    amount: int | None = None
    currency: str | None = None
    params: Mapping[str, Any] | None = None
    notes: Mapping[str, Any] | None = None
    metadata: Mapping[str, str] | None = None


if TYPE_CHECKING:
    from typing import TypedDict

    from interlock.decorator import Interlock

    class Options(TypedDict, total=False):
        """What every Stripe effect takes beside its key.

        Callbacks get the case first, and by name what else they want of `subject`, `amount`, `currency` and `idempotency_key`.

        Attributes:
            approval: who allowed it: answers an `Approval`, True, False or None. Asked before the call (its id names the decision), right
                before the send and after a crash. With `Approval(at=...)` what others did since then counts as done since the decision,
                also before the first call; a confirmation, a capture, a cancellation or a new payment reads nothing of that kind, and
                `at` changes nothing there. True names no decision: it stands under the one on record.
            premises: further facts of your own: a dict.
            expect: what they must be.
            budget: a cap shared with other effects.
            case: the class of the case; by default the annotation of `key=`. Without one, callbacks get its fields.
            metadata: further metadata of what is made: a dict, or a function of the case.
            timeout: the longest a send takes (seconds or timedelta); 30 by default.
            settle_after: how long a request may still be in Stripe's hands once its sender is gone; 10 seconds by default.
            wait: how long a call waits for another live sender of the same effect.
            watch_for: how long `gate.watch()` reads it again after it was accepted, for effects that settle later.
            name: name of the effect; part of its identity.
        """

        approval: Callable[..., Any] | None
        premises: Callable[..., Any] | None
        expect: Mapping[str, Any] | None
        budget: Callable[..., Any] | None
        case: type[Any] | None
        metadata: Mapping[str, str] | Callable[..., Mapping[str, str]] | None
        timeout: float | timedelta
        settle_after: float | timedelta
        wait: float | timedelta
        watch_for: float | timedelta | None
        name: str

    class Decider(TypedDict, total=False):
        """What a decider adds to a call: see `EffectFunction.submit`."""

        decision: str
        seen: Mapping[str, Any] | None
        wait: float | timedelta | None


class Common:
    """`Options` with their defaults."""

    def __init__(self, key: Callable[..., str], asynchronous: bool, name: str, given: Options) -> None:
        self.key = key
        self.asynchronous = asynchronous
        self.approval = given.get("approval")
        self.premises = given.get("premises")
        self.expect = given.get("expect")
        self.budget = given.get("budget")
        self.case = given.get("case")
        self.metadata = given.get("metadata")
        self.timeout = given.get("timeout", 30.0)
        self.settle_after = given.get("settle_after", SETTLE_AFTER_S)
        self.wait = given.get("wait", 0.0)
        self.watch_for = given.get("watch_for")
        self.name = given.get("name", name)


class StripeEffect(Generic[A]):
    """A gated call to Stripe. What it answers with is an `Outcome`, or an awaitable of one if it is asynchronous.

    Attributes:
        effect: the gated function below it, as `gate.effect` made it.
        name: name of the effect; part of its identity.
    """

    def __init__(self, gate: Interlock, client: Any, plan: Plan, common: Common) -> None:
        name = common.name
        timeout_s = seconds("timeout", common.timeout, name, positive=True)
        self.name = name
        self.gate = gate
        self.connection = Connection(client, effect=name, timeout_s=timeout_s, asynchronous=common.asynchronous)
        self._plan = plan
        self._reader = CaseReader(common.case, key=common.key, effect=name)
        self._key = self._callback(common.key, "key", ("subject", "amount"), may_wait=False)
        self._approval = None if common.approval is None else self._callback(common.approval, "approval")
        self._premises = None if common.premises is None else self._callback(common.premises, "premises")
        self._budget = None if common.budget is None else self._callback(common.budget, "budget")
        self._metadata: Mapping[str, str] | CaseCallback | None
        given = common.metadata
        self._metadata = (
            given if given is None or isinstance(given, Mapping) else self._callback(given, "metadata", may_wait=False)
        )
        has_facts = plan.facts is not None or self._premises is not None
        make = asynchronous if common.asynchronous else synchronous
        send, facts, look_up, allowed, budget, settlement = make(self)
        declare = gate.effect(
            key=self._key_of,
            premises=facts if has_facts else None,
            expect={**plan.expect, **(common.expect or {})} if has_facts else common.expect,
            allowed=allowed if self._approval is not None else None,
            budget=budget if self._budget is not None else None,
            lookup=look_up,
            dedupes=True,
            window=WINDOW,
            timeout=common.timeout,
            settle_after=common.settle_after,
            wait=common.wait,
            settlement=settlement if plan.settlement is not None else None,
            references=references(plan) if plan.references is not None else None,
            watch_for=common.watch_for,
            classify=verdict_of,
            binds=("subject", "amount", "currency", "params"),
            name=name,
        )
        self.effect: EffectFunction[A] = cast("EffectFunction[A]", declare(send))

    def __repr__(self) -> str:
        return f"<{self.name!r} at Stripe, tier {self.effect.capabilities.tier}>"

    async def asubmit(
        self,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        decision: str = "",
        seen: Mapping[str, Any] | None = None,
        wait: float | timedelta | None = None,
        origin: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """As calling it, without blocking the event loop, whether it is asynchronous or not.

        Args:
            args: what a call takes by place: the case.
            kwargs: what a call takes by name.
            decision: as a call takes it.
            seen: as a call takes it.
            wait: as a call takes it.
            origin: where the call came from (a framework's ids): plain data that stands on the record and decides nothing.
        """
        given = dict(kwargs or {})
        parts = self._parts(*args, **given)
        arguments = self._arguments(args[0] if args else given["case"], parts)
        if self._approval is None:
            answer = None
        elif self.effect.is_coroutine:
            answer = await self._aasked(arguments)
        else:
            answer = await asyncio.to_thread(self._asked, arguments)
        decided = self._decided(arguments, answer, {"decision": decision, "seen": seen})
        return await self.effect.asubmit((), arguments, decision=decided, seen=seen, wait=wait, origin=origin)

    @property
    def _parts(self) -> Callable[..., Parts]:
        """What a call comes down to; takes what a call takes, without what a decider adds. Each kind's own."""
        raise NotImplementedError

    # --- for the kinds -----------------------------------------------------------------------------------------------

    def submit_call(self, case: Any, parts: Parts, decider: Decider) -> A:
        """One call, from its parts to its outcome."""
        arguments = self._arguments(case, parts)
        if self.effect.is_coroutine and self._approval is not None:
            return cast("A", self._asubmit_call(arguments, decider))
        decision = self._decided(arguments, self._asked(arguments), decider)
        return self.effect.submit((), arguments, decision=decision, seen=decider.get("seen"), wait=decider.get("wait"))

    async def _asubmit_call(self, arguments: dict[str, Any], decider: Decider) -> Outcome:
        """The same for an asynchronous effect, whose approval is awaited before it can name the decision."""
        decision = self._decided(arguments, await self._aasked(arguments), decider)
        return await self.effect.asubmit(
            (), arguments, decision=decision, seen=decider.get("seen"), wait=decider.get("wait")
        )

    def propose_call(self, case: Any, parts: Parts, decider: Decider) -> Proposal:
        """One call, from its parts to a proposal that `gate.submit` takes later."""
        arguments = self._arguments(case, parts)
        decision = self._decided(arguments, self._asked(arguments), decider)
        return self.effect.propose((), arguments, decision=decision, seen=decider.get("seen"))

    def named_by(self, callback: CaseCallback | None, case: Any, fields: tuple[str, ...]) -> Any:
        """What a case names: by the user's callback, else the case itself if it is a text, else the first of its fields that is set."""
        written = plain(case, self.name)
        if callback is not None:
            return self._told(callback, written)
        if isinstance(case, str):
            return case
        found = (case.get(field) if isinstance(case, Mapping) else getattr(case, field, None) for field in fields)
        return next((value for value in found if value is not None), None)

    def _callback(
        self, function: Any, role: str, offered: tuple[str, ...] = (), *, may_wait: bool = True
    ) -> CaseCallback:
        names = offered or ("subject", "amount", "currency", KEY_ARGUMENT)
        return CaseCallback(
            function, role=role, effect=self.name, offered=names, reader=self._reader, may_wait=may_wait
        )

    def _told(self, callback: CaseCallback, written: Any) -> Any:
        """What a callback that names something says of a case.

        Raises:
            BadInput: it raised.
        """
        try:
            return callback(written, {})
        except BadInput:
            raise
        except Exception as error:
            raise BadInput(
                f"effect {self.name!r}: {callback.role}= raised {text_of(error)}. Nothing was sent."
            ) from error

    def _arguments(self, case: Any, parts: Parts) -> dict[str, Any]:
        written = plain(case, self.name)
        more = dict(parts.metadata or {})
        if isinstance(self._metadata, CaseCallback):
            theirs = self._told(self._metadata, written)
            if not isinstance(theirs, Mapping):
                raise BadInput(
                    f"effect {self.name!r}: metadata= gave {theirs!r:.200}; give a dict of texts. Nothing was sent."
                )
            more = {**theirs, **more}
        elif self._metadata is not None:
            more = {**self._metadata, **more}
        for mark in MARKS:
            if mark in more:
                raise BadInput(
                    f"effect {self.name!r}: metadata {mark!r} is the gate's own; leave it out. Nothing was sent."
                )
        texts: Mapping[Any, Any] = more
        for name, value in texts.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise BadInput(
                    f"effect {self.name!r}: metadata {name!r}: {value!r} is not text to text. Nothing was sent."
                )
        return {
            "case": written,
            "subject": parts.subject,
            "amount": parts.amount,
            "currency": parts.currency,
            "params": dict(parts.params or {}),
            "notes": dict(parts.notes or {}),
            "metadata": more,
        }

    def _decided(self, arguments: dict[str, Any], answer: Any, decider: Decider) -> str:
        """The name of the decision, which is the approval's id, so that a new approval is judged anew; its moment goes with the call."""
        name, approved, since = decided(answer, decider.get("decision") or "", self.gate.clock.now())
        arguments |= {"since": since, "approved": approved}
        return name

    def _asked(self, arguments: Mapping[str, Any]) -> Any:
        """What `approval=` answers before the call; None if it has none or fails."""
        if self._approval is None:
            return None
        try:
            return resolve(self._approval(arguments["case"], {**arguments, KEY_ARGUMENT: ""}))
        except Exception:  # noqa: BLE001 - as below
            return None

    async def _aasked(self, arguments: Mapping[str, Any]) -> Any:
        assert self._approval is not None
        try:
            return await asked(self._approval, {**arguments, KEY_ARGUMENT: ""})
        except Exception:  # noqa: BLE001 - it is asked again before the send, where its failure is told
            return None

    def _key_of(self, case: Any, subject: Any, amount: Any) -> Any:
        return self._key(case, {"subject": subject, "amount": amount})

    def moved(self, answer: Any, given: Mapping[str, Any]) -> Calls[Moved]:
        """What a call would move, as far as an approval asks. Stripe is read only where the call itself does not say it."""
        said = Moved(given["amount"], given["currency"] or "")
        if not isinstance(answer, Approval) or self._plan.moves is None:
            return said
        asks = (answer.amount_minor is not None and said.amount is None) or (answer.currency and not said.currency)
        return (yield from self._plan.moves(given, given[KEY_ARGUMENT])) if asks else said

    def permission(self, answer: Any, moved: Moved, given: Mapping[str, Any]) -> Permission:
        """What an answer of `approval=` permits of this call."""
        try:
            permission = permission_of(
                answer, amount_minor=moved.amount, currency=moved.currency, now=self.gate.clock.now()
            )
        except BadInput as error:
            raise AuthorityUnclear(f"effect {self.name!r}: {error} Nothing was sent.") from error
        another = why_another(answer, given) if permission.allowed and isinstance(answer, Approval) else ""
        return Permission(False, another, permission.approval) if another else permission

    def unread(self, error: Exception) -> AuthorityUnclear:
        """An `approval=` that raised."""
        return AuthorityUnclear(
            f"effect {self.name!r}: approval= raised {raised_by(error)} Nothing was sent; {what_then(error, 'it')}"
        )


def common_of(name: str, key: Callable[..., str], asynchronous: bool, options: Options) -> Common:
    """The options of a declaration, with their defaults.

    Raises:
        ConfigurationError: there is no such option.
    """
    common = Common(key, asynchronous, name, options)
    takes = [option for option in vars(common) if option not in ("key", "asynchronous")]
    if unknown := options.keys() - set(takes):
        raise ConfigurationError(
            f"effect {name!r}: there is no option {', '.join(sorted(unknown))}. It takes: {', '.join(takes)}."
        )
    if asynchronous is not True and asynchronous is not False:
        raise ConfigurationError(f"effect {name!r}: asynchronous= is {asynchronous!r}; say True or False.")
    return common


def refuse_own(params: Any, own: frozenset[str], effect: str) -> None:
    """Refuse parameters that a call says by arguments of its own.

    Raises:
        BadInput: there is one, or it is no dict.
    """
    if params is None:
        return
    if not isinstance(params, Mapping):
        raise BadInput(
            f"effect {effect!r}: params= is {params!r:.200}; give a dict of Stripe's parameters. Nothing was sent."
        )
    if astray := OPTIONS & params.keys():
        raise BadInput(
            f"effect {effect!r}: params= names {', '.join(sorted(astray))}, which is no parameter of Stripe's but an option of its SDK. "
            "Set it on the StripeClient. Nothing was sent."
        )
    if said := own & params.keys():
        raise BadInput(
            f"effect {effect!r}: params= names {', '.join(sorted(said))}, which the call says by itself. Leave it out. Nothing was sent."
        )
