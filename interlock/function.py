"""A gated function: one effect, called as before, and shown to the protocol as a `Target`.

Owns the calls of the user's callbacks and the checks of what they answer. How arguments become a payload is `binding.py`'s, what the
options may be is `declaration.py`'s, and order, journal and sending are the protocol's.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from interlock.authority import Permission
from interlock.binding import Binding
from interlock.callbacks import KEY_ARGUMENT, RESULT_ARGUMENT, Callback
from interlock.declaration import Declaration, capabilities, exceptions, expectations, seconds, watch_for_s
from interlock.effects import Facts, Proposal, as_decided
from interlock.errors import (
    AuthorityUnclear,
    BadInput,
    BudgetUnclear,
    ConfigurationError,
    InvalidKey,
    KeyDerivationFailed,
    NotSent,
    NotSerializable,
    PremiseUnreadable,
    Rejected,
    SettlementUnreadable,
    Unanswered,
)
from interlock.gate import resolve
from interlock.outcomes import Outcome
from interlock.ports import Target, Verdict, WatchFor
from interlock.rules.budgets import Budget, several
from interlock.rules.canonical import canonical_bytes, derive_id, digest
from interlock.rules.premises import Condition
from interlock.rules.values import (
    by_value,
    decode_result,
    encode,
    encode_result,
    is_text,
    raised_by,
    raised_in,
    storable,
    text_of,
    what_then,
    words_of,
)
from interlock.settlement import Settlement

if TYPE_CHECKING:
    from interlock.decorator import Interlock

log = logging.getLogger("interlock")

NOT_SENT_BY_NATURE: tuple[type[BaseException], ...] = (ConnectionRefusedError, socket.gaierror)
"""Raised as they are, these say that no connection came about. Wrapped in another exception they may hide an earlier try."""


_ADDED = ("decision", "seen", "wait")
"""What a decider may add to a call, by keyword."""
_NO_LIVE: Mapping[str, Any] = {}

A = TypeVar("A")
"""What a call answers with: an `Outcome`, or an awaitable of one."""


class EffectFunction(Generic[A]):
    """A function behind the gate. Call it as before; it answers with an `Outcome`. Also the protocol's `Target`.

    Attributes:
        gate: the `Interlock` it was declared on.
        name: name of the effect; part of its identity, so renaming it makes other effects of it.
    """

    def __init__(self, gate: Interlock, function: Callable[..., Any], declared: Declaration) -> None:
        self.gate = gate
        self.function = function
        name: Any = declared.name or getattr(function, "__name__", "")
        if not isinstance(name, str) or name in ("", "<lambda>"):
            raise ConfigurationError("an effect needs a name that stays the same after a restart: give name=.")
        self.name: str = name
        self.__name__ = self.name
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self._binding = Binding(
            function, effect=name, binds=declared.binds, ignore=declared.ignore, context=declared.context
        )
        names = self._binding.names
        self.binds = self._binding.binds
        self.defaults = self._binding.defaults
        self.is_coroutine = inspect.iscoroutinefunction(function)
        self._run: Callable[..., Any] = self.asubmit if self.is_coroutine else self.submit_blocking
        self.wait_s = seconds("wait", declared.wait, name)

        offered = (*names, KEY_ARGUMENT)
        if not callable(declared.key):
            raise ConfigurationError(
                f"effect {self.name!r}: key= must be a function that names the approved request, e.g. "
                f"key=lambda {', '.join(names[:1]) or 'order'}: f'{self.name}:{{...}}'."
            )
        self._key = Callback(declared.key, role="key", effect=self.name, available=names)
        if self._key.is_async:
            raise ConfigurationError(
                f"effect {self.name!r}: key= must not be async: it may only look at the arguments."
            )
        self._callbacks: dict[str, Callback] = {
            role: Callback(callback, role=role, effect=self.name, available=offered)
            for role, callback in (
                ("premises", declared.premises),
                ("allowed", declared.allowed),
                ("budget", declared.budget),
                ("lookup", declared.lookup),
            )
            if callback is not None
        }
        self.watch_for_s = watch_for_s(declared, name)
        for role, callback in (("settlement", declared.settlement), ("references", declared.references)):
            if callback is not None:
                self._callbacks[role] = self._of_result(role, callback, offered)
        self._premises = self._callbacks.get("premises")
        self._allowed = self._callbacks.get("allowed")
        self.has_premises = self._premises is not None
        self.has_authority = self._allowed is not None
        self.has_budget = declared.budget is not None
        self._conditions: Mapping[str, Condition] = expectations(declared, name, arguments=names)
        self._conditions_take = any(condition.takes for condition in self._conditions.values())
        self.capabilities = capabilities(
            declared, name, takes_key=self._binding.takes_key, lookup=self._callbacks.get("lookup")
        )
        self._rejected_on = exceptions("rejected_on", declared.rejected_on, self.name)
        self._not_sent_on = exceptions("not_sent_on", declared.not_sent_on, self.name)
        self._in_use_on = exceptions("in_use_on", declared.in_use_on, self.name)
        self._classify = declared.classify
        self._warned_of: set[str] = set()

    def __repr__(self) -> str:
        return f"<effect {self.name!r}, tier {self.capabilities.tier}>"

    @property
    def needs_loop(self) -> bool:
        """Whether the function, or a callback of it, is to be awaited."""
        return self.is_coroutine or any(callback.is_async for callback in self._callbacks.values())

    # --- calling ---------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> A:
        """Do it once: decide now, send if it may be sent, and answer with what became of it.

        Beside its own arguments it takes what a decider adds, by keyword: `decision=`, `seen=` and `wait=`, as `submit` explains
        them. (A parameter of the function that has one of these names is the function's; `submit` is free of such clashes.)

        Returns:
            An `Outcome`; for an `async def` function, an awaitable of one.

        Raises:
            BadInput: the arguments or the key are not acceptable; nothing was journalled or sent.
            CallbackFailed: permission or facts could not be read; nothing was sent.
            JournalError: the journal could not do its part.

        **Durable when** this returns: what was sent and what came back, or why nothing was.
        **If the process dies** before that: `gate.recover()`, or the next call with the same key, settles it.
        """
        answer: A = self._run(args, kwargs, **self._split(kwargs, _ADDED))
        return answer

    def submit(
        self,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        decision: str = "",
        seen: Mapping[str, Any] | None = None,
        wait: float | timedelta | None = None,
        origin: Mapping[str, Any] | None = None,
    ) -> A:
        """As calling it, with what a decider adds.

        Args:
            args: positional arguments.
            kwargs: keyword arguments.
            decision: names the decision, e.g. an approval's id. A refusal stands for its decision; a new one is judged anew.
            seen: the facts as the decider saw them; by default they are read now.
            wait: seconds to wait while another live sender has it; by default the effect's own `wait=`.
            origin: where the call came from (a framework's ids): plain data that stands on the record and decides nothing.
        """
        answer: A = self._run(args, kwargs, decision=decision, seen=seen, wait=wait, origin=origin)
        return answer

    def submit_blocking(
        self,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        decision: str = "",
        seen: Mapping[str, Any] | None = None,
        wait: float | timedelta | None = None,
        origin: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """As `submit`, in this thread, also for an `async def` function, which is then awaited on an event loop of its own."""
        proposal, target, wait_s = self._ready(args, kwargs, decision, seen, wait, origin)
        return self.gate._run(proposal, target, wait_s=wait_s)

    def asubmit(
        self,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        decision: str = "",
        seen: Mapping[str, Any] | None = None,
        wait: float | timedelta | None = None,
        origin: Mapping[str, Any] | None = None,
    ) -> Awaitable[Outcome]:
        """As `submit`, without blocking the event loop, also for a plain function, which is then called in a thread."""
        proposal, target, wait_s = self._ready(args, kwargs, decision, seen, wait, origin)
        return self.gate._arun(proposal, target, wait_s=wait_s)

    def _ready(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None,
        decision: str,
        seen: Mapping[str, Any] | None,
        wait: float | timedelta | None,
        origin: Mapping[str, Any] | None,
    ) -> tuple[Proposal, Target, float]:
        proposal, live = self._propose(args, kwargs or {}, decision=decision, seen=seen, origin=origin)
        wait_s = self.wait_s if wait is None else seconds("wait", wait, self.name)
        return proposal, BoundEffect(self, live, proposal.payload) if live else self, wait_s

    def proposal(self, *args: Any, **kwargs: Any) -> Proposal:
        """Decide now: read the facts as they are, and make the call into a `Proposal` for `gate.submit`.

        Takes `decision=` and `seen=` by keyword, as a call does.

        Raises:
            BadInput: the arguments or the key are not acceptable.
            PremiseUnreadable: the facts could not be read.
        """
        options = self._split(kwargs, ("decision", "seen"))
        return self.propose(args, kwargs, **options)

    async def aproposal(self, *args: Any, **kwargs: Any) -> Proposal:
        """As `proposal`, without blocking the event loop."""
        options = self._split(kwargs, ("decision", "seen"))
        proposal = self._plain_proposal(args, kwargs, **options)
        if not proposal.fresh or self._premises is None:
            return proposal._replace(fresh=False)
        read = self.read_facts
        beside = not self.is_async("premises")
        facts = (
            await asyncio.to_thread(read, proposal.payload, proposal.effect_id)
            if beside
            else read(proposal.payload, proposal.effect_id)
        )
        return proposal._replace(seen=as_decided(await facts if inspect.isawaitable(facts) else facts), fresh=False)

    def propose(
        self,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        decision: str = "",
        seen: Mapping[str, Any] | None = None,
    ) -> Proposal:
        """As `proposal`, with the decision's name and the facts as the decider saw them (by default read now)."""
        proposal = self._plain_proposal(args, kwargs or {}, decision=decision, seen=seen)
        if not proposal.fresh or self._premises is None:
            return proposal._replace(fresh=False)
        facts = resolve(self.read_facts(proposal.payload, proposal.effect_id))
        return proposal._replace(seen=as_decided(facts), fresh=False)

    # --- the protocol's Target ---------------------------------------------------------------------------------------

    def readmit(self, proposal: Proposal) -> Proposal:
        """A proposal that came from outside: a copy of its own, so that nobody can change it any more.

        Raises:
            BadInput: it was edited since it was made, or made for a function that takes other arguments or binds others.
        """
        if derive_id(proposal.effect, proposal.key) != proposal.effect_id:
            raise BadInput(
                f"the proposal's effect id is not that of {proposal.effect!r} {proposal.key!r}; do not edit proposals."
            )
        payload = copy.deepcopy(dict(proposal.payload))
        if self._binding.digest_of(payload) != proposal.digest:
            raise BadInput(
                f"the proposal of {proposal.effect!r} {proposal.key!r} was edited since it was made, or made under another binds=: its "
                "arguments are not those of its digest. Nothing was sent. Make a new proposal."
            )
        try:
            self._binding.check_names(payload)
        except ConfigurationError as error:
            raise BadInput(f"{error} Nothing was sent. Make a new proposal.") from None
        for name, part in (("seen", proposal.seen), ("origin", proposal.origin)):
            if part is not None:
                canonical_bytes(part, what=f"the proposal's {name}")
        return proposal._replace(payload=payload, seen=copy.deepcopy(proposal.seen))

    def check_record(self, check: Callable[[Mapping[str, Any]], None]) -> None:
        """Have every payload looked into before it is used: a recorded one may hold what is no longer taken.

        Args:
            check: raises ConfigurationError if it does.
        """
        self._binding.also_check = check

    def is_async(self, role: str) -> bool:
        """Whether `role` answers without blocking."""
        if role == "send":
            return self.is_coroutine
        callback = self._callbacks.get(role)
        return callback is None or callback.is_async

    def conditions(self, payload: Mapping[str, Any]) -> Mapping[str, Condition]:
        """The declared conditions, for this call."""
        return self._conditions_for(payload, None)

    def _conditions_for(self, payload: Mapping[str, Any], own: Mapping[str, Any] | None) -> Mapping[str, Condition]:
        if not self._conditions_take:
            return self._conditions
        arguments = self._binding.arguments(payload, {}, own=own)
        return {name: declared.given(arguments) for name, declared in self._conditions.items()}

    def read_facts(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        """The premises now, encoded."""
        return self._read_facts(self._binding.arguments(payload, {}), idempotency_key)

    def is_allowed(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        """Whether it is allowed now."""
        return self._is_allowed(self._binding.arguments(payload, {}), idempotency_key)

    def read_budgets(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        """The caps that this call shares: a tuple of `Budget`."""
        return self._read_budgets(self._binding.arguments(payload, {}), idempotency_key)

    def look_up(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        """Our own effect at the service."""
        return self._look_up(self._binding.arguments(payload, {}), idempotency_key)

    def watch(self, payload: Mapping[str, Any], idempotency_key: str, written: Any) -> WatchFor | None:
        """How to watch what has just landed. References that cannot be had are logged: the effect has landed all the same."""
        if not self.watch_for_s:
            return None
        # A later attempt has a key of its own; what the service shows of it must lead back to the effect.
        listed: list[str] = [idempotency_key]
        references = self._callbacks.get("references")
        if references is not None:
            try:
                given = references(self._with_result(payload, idempotency_key, written))
                if isinstance(given, str) or not all(reference is None or is_text(reference) for reference in given):
                    raise BadInput(f"references= gave {given!r:.200}; give a list of the service's ids.")
                listed += [reference for reference in given if reference]
            except Exception as error:
                log.error(
                    "effect %r: it landed, but references= gave none, so events will not find it; gate.watch() does. %s",
                    self.name,
                    raised_in(error),
                )
                log.debug("effect %r: the traceback of references=", self.name, exc_info=error)
        return WatchFor(self.watch_for_s, tuple(dict.fromkeys(listed)))

    def read_settlement(self, payload: Mapping[str, Any], idempotency_key: str, written: Any) -> Any:
        """What became of an accepted effect, as the service has it now: a `Settlement`, None if nothing is known, or an awaitable of it.

        Raises:
            SettlementUnreadable: it could not be read, or what was read is no settlement.
        """
        try:
            given = self._callbacks["settlement"](self._with_result(payload, idempotency_key, written))
        except Exception as error:
            raise self._unsettled(error) from error
        return (
            self._later(given, self._settled, self._unsettled) if inspect.isawaitable(given) else self._settled(given)
        )

    def send(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        """Call the function."""
        return self._send(payload, _NO_LIVE, idempotency_key)

    def classify(self, error: BaseException) -> tuple[Verdict, str]:
        """What an exception says about whether the effect landed."""
        if isinstance(error, Rejected):
            return Verdict.REJECTED, _reason(error) or "rejected"
        if isinstance(error, NotSent):
            return Verdict.NOT_SENT, _reason(error) or "not_sent"
        if isinstance(error, Unanswered):
            return Verdict.UNKNOWN, "unanswered"
        if self._classify is not None:
            try:
                verdict: object = self._classify(error)
            except Exception as failed:
                log.error("effect %r: classify= failed, so the fate is unknown: %s", self.name, raised_in(failed))
                log.debug("effect %r: the traceback of classify=", self.name, exc_info=failed)
                return Verdict.UNKNOWN, ""
            if isinstance(verdict, Verdict):
                return verdict, str(verdict)
            if verdict is not None:
                log.error("effect %r: classify= answered %r; it answers a Verdict, or None", self.name, verdict)
                return Verdict.UNKNOWN, ""
        if isinstance(error, self._in_use_on):
            return Verdict.IN_USE, ""
        if isinstance(error, self._rejected_on):
            return Verdict.REJECTED, "rejected"
        if isinstance(error, self._not_sent_on) or type(error) in NOT_SENT_BY_NATURE:
            return Verdict.NOT_SENT, "not_sent"
        return Verdict.UNKNOWN, ""

    def encode_value(self, raw: Any) -> Any:
        """The result's JSON form."""
        if raw is None and self._binding.result is None:
            return None
        return encode_result(raw, self._binding.result)

    def decode_value(self, written: Any) -> Any:
        """The result, typed by the return annotation."""
        return decode_result(written, self._binding.result)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _split(self, kwargs: dict[str, Any], words: tuple[str, ...]) -> dict[str, Any]:
        """Take out of a call's keywords those that are the gate's: every one that the function does not have itself."""
        if kwargs.keys().isdisjoint(words):
            return {}
        return {word: kwargs.pop(word) for word in words if word in kwargs and word not in self._binding.names}

    def _plain_proposal(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        decision: str = "",
        seen: Mapping[str, Any] | None = None,
    ) -> Proposal:
        """A proposal that holds nothing but data.

        Raises:
            BadInput: the call brings arguments that are no payload.
        """
        proposal, live = self._propose(args, kwargs, decision=decision, seen=seen)
        if live:
            raise BadInput(
                f"effect {self.name!r}: a proposal is plain data and cannot carry {', '.join(live)}. "
                "Leave ignored arguments out of proposal(); they come from context=."
            )
        return proposal

    def _propose(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        decision: str,
        seen: Mapping[str, Any] | None,
        origin: Mapping[str, Any] | None = None,
    ) -> tuple[Proposal, dict[str, Any]]:
        given = self._binding.bind(args, kwargs)
        key = self._key_of(given)
        payload, fingerprint = self._binding.payload_of(given)
        if decision != "" and not is_text(decision):
            raise BadInput(f"effect {self.name!r}: decision= is {decision!r}; name the decision by a text.")
        facts = None if seen is None else self._facts(seen, "seen=")
        if facts is not None and self._premises is None:
            raise BadInput(f"effect {self.name!r}: seen= was given, but no premises= are declared to compare it with.")
        whence = None if origin is None else self._whence(origin)
        proposal = Proposal(
            self.name, key, derive_id(self.name, key), payload, fingerprint, facts, facts is None, decision, whence
        )
        return proposal, self._binding.live_of(given)

    def _whence(self, origin: Mapping[str, Any]) -> Any:
        """Where a call came from, in a form that can be written and read back."""
        what = f"origin= of {self.name!r}"
        whence = encode(dict(origin), what=what)
        canonical_bytes(whence, what=what)
        return whence

    def _key_of(self, given: Mapping[str, Any]) -> str:
        for name in self._key.required:
            if name not in given:
                raise BadInput(
                    f"effect {self.name!r}: key= names {name!r}, which this call leaves out. Nothing was sent. Give {name}=, or name "
                    "the request by the other arguments."
                )
        try:
            key = self._key(given)
        except Exception as error:
            raise KeyDerivationFailed(
                f"effect {self.name!r}: key= raised {raised_by(error)} Nothing was sent."
            ) from error
        if not isinstance(key, str) or not key.strip():
            raise InvalidKey(
                f"effect {self.name!r}: key= gave {key!r}. A key is a text that names the approved request, such as "
                "'refund:881'; it is never empty. Nothing was sent."
            )
        if key.isascii():
            return key
        try:
            key.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidKey(
                f"effect {self.name!r}: key= gave {key!r}, which is no valid Unicode. Nothing was sent."
            ) from None
        return key

    def _read_facts(self, arguments: dict[str, Any], idempotency_key: str) -> Any:
        assert self._premises is not None
        arguments[KEY_ARGUMENT] = idempotency_key
        try:
            facts = self._premises(arguments)
        except Exception as error:
            raise self._unreadable(error) from error
        if inspect.isawaitable(facts):
            return self._later(facts, lambda read: self._facts(read, "premises="), self._unreadable)
        return self._facts(facts, "premises=")

    def _is_allowed(self, arguments: dict[str, Any], idempotency_key: str) -> Any:
        assert self._allowed is not None
        arguments[KEY_ARGUMENT] = idempotency_key
        try:
            answer = self._allowed(arguments)
        except Exception as error:
            raise self._unclear(error) from error
        if inspect.isawaitable(answer):
            return self._later(answer, self._verdict, self._unclear)
        return self._verdict(answer)

    def _read_budgets(self, arguments: dict[str, Any], idempotency_key: str) -> Any:
        arguments[KEY_ARGUMENT] = idempotency_key
        try:
            given = self._callbacks["budget"](arguments)
        except Exception as error:
            raise self._no_budget(error) from error
        if inspect.isawaitable(given):
            return self._later(given, self._budgets, self._no_budget)
        return self._budgets(given)

    def _of_result(self, role: str, function: Callable[..., Any], offered: tuple[str, ...]) -> Callback:
        """A callback that may also take what the effect returned, as `value`."""
        callback = Callback(function, role=role, effect=self.name, available=(*offered, RESULT_ARGUMENT))
        if RESULT_ARGUMENT in offered:
            raise ConfigurationError(
                f"effect {self.name!r}: {role}= is given the result as {RESULT_ARGUMENT!r}, which is also an argument of the function. "
                "Give that argument another name."
            )
        if role == "references" and callback.is_async:
            raise ConfigurationError(
                f"effect {self.name!r}: references= must not be async: it may only look at the result."
            )
        return callback

    def _with_result(self, payload: Mapping[str, Any], idempotency_key: str, written: Any) -> dict[str, Any]:
        arguments = self._binding.arguments(payload, {}, has_landed=True)
        return {**arguments, KEY_ARGUMENT: idempotency_key, RESULT_ARGUMENT: self.decode_value(written)}

    def _settled(self, given: Any) -> Settlement | None:
        if given is None or isinstance(given, Settlement):
            return given
        raise SettlementUnreadable(
            f"effect {self.name!r}: settlement= answered {given!r:.200}. Answer a Settlement, or None if nothing is known yet. "
            "Nothing was written."
        )

    def _unsettled(self, error: Exception) -> Exception:
        return SettlementUnreadable(
            f"effect {self.name!r}: settlement= raised {raised_by(error)} Nothing was written; it is read again."
        )

    def _look_up(self, arguments: dict[str, Any], idempotency_key: str) -> Any:
        arguments[KEY_ARGUMENT] = idempotency_key
        return self._callbacks["lookup"](arguments)

    def _send(
        self,
        payload: Mapping[str, Any],
        live: Mapping[str, Any],
        idempotency_key: str,
        own: Mapping[str, Any] | None = None,
    ) -> Any:
        try:
            arguments = self._binding.arguments(payload, live, own=own)
        except Exception as error:
            message = f"the function was not called: its arguments could not be put together. {text_of(error)}"
            raise NotSent(message, reason="no_arguments") from error
        if self._binding.takes_key:
            arguments[KEY_ARGUMENT] = idempotency_key
        return self.function(**arguments)

    @staticmethod
    async def _later(
        awaitable: Awaitable[Any], check: Callable[[Any], Any], failed: Callable[[Exception], Exception]
    ) -> Any:
        try:
            answer = await awaitable
        except Exception as error:
            raise failed(error) from error
        return check(answer)

    def _facts(self, facts: Any, source: str) -> dict[str, Any]:
        if not isinstance(facts, Mapping):
            raise PremiseUnreadable(
                f"effect {self.name!r}: {source} gave {type(facts).__name__} {facts!r:.200}. Give a dict of named facts. Nothing was sent."
            )
        encoded: dict[str, Any] = {}
        if isinstance(facts, Facts):
            encoded = Facts({}, facts.own, self._facts(facts.before, source) if facts.before else None)
        for name, value in facts.items():
            if not is_text(name):
                raise PremiseUnreadable(
                    f"effect {self.name!r}: {source} names a fact {name!r}; names are text. Nothing was sent."
                )
            try:
                encoded[name] = encode(value, what=f"premise {name!r} of {self.name!r}")
                by_value(encoded[name])
                digest(by_value(encoded[name]), what=f"premise {name!r} of {self.name!r}")
            except NotSerializable as error:
                raise PremiseUnreadable(f"{error} Nothing was sent.") from error
            if value is False and name not in self._conditions and name not in self._warned_of:
                self._warned_of.add(name)
                log.warning(
                    "effect %r: the premise %r is False and expect= does not say what it must be, so it only has to stay False. "
                    "If it must be True, declare expect={%r: True}.",
                    self.name,
                    name,
                    name,
                )
        return encoded

    def _verdict(self, answer: Any) -> bool | Permission:
        if answer is True or answer is False:
            return bool(answer)
        if isinstance(answer, Permission):
            return answer
        raise AuthorityUnclear(
            f"effect {self.name!r}: allowed= answered {answer!r:.200}. Answer True or False. Nothing was sent."
        )

    def _budgets(self, given: Any) -> tuple[Budget, ...]:
        try:
            return several(given)
        except BadInput as error:
            raise self._no_budget(error) from error

    def _no_budget(self, error: Exception) -> Exception:
        return BudgetUnclear(f"effect {self.name!r}: budget= gave no budget: {raised_by(error)} Nothing was sent.")

    def _unreadable(self, error: Exception) -> Exception:
        if isinstance(error, PremiseUnreadable):
            return PremiseUnreadable(words_of(error))  # it says it already
        return PremiseUnreadable(
            f"effect {self.name!r}: premises= raised {raised_by(error)} Nothing was sent; {what_then(error, 'they')}"
        )

    def _unclear(self, error: Exception) -> Exception:
        if isinstance(error, AuthorityUnclear):
            return AuthorityUnclear(words_of(error))  # it says it already
        return AuthorityUnclear(
            f"effect {self.name!r}: allowed= raised {raised_by(error)} Nothing was sent; {what_then(error, 'it')}"
        )


def _reason(error: NotSent | Rejected) -> str:
    """The code that follows `FAILED:`; a subclass may lack it, and what that says stands all the same."""
    try:
        return storable(str(error.reason))
    except Exception:  # noqa: BLE001 - a broken reason must not hide what the exception says
        return ""


class BoundEffect:
    """An `EffectFunction` for one call that brought arguments which are no payload (a client, a session)."""

    def __init__(self, effect: EffectFunction[Any], live: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        self._effect = effect
        self._live = live
        self._own = own
        self.name = effect.name
        self.capabilities = effect.capabilities
        self.binds = effect.binds
        self.defaults = effect.defaults
        self.has_premises = effect.has_premises
        self.has_authority = effect.has_authority
        self.has_budget = effect.has_budget
        self.is_async = effect.is_async
        self.classify = effect.classify
        self.encode_value = effect.encode_value
        self.decode_value = effect.decode_value
        self.watch = effect.watch

    def read_facts(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        """The premises now, encoded."""
        return self._effect._read_facts(self._arguments(payload), idempotency_key)

    def is_allowed(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        """Whether it is allowed now."""
        return self._effect._is_allowed(self._arguments(payload), idempotency_key)

    def read_budgets(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        """The caps that this call shares."""
        return self._effect._read_budgets(self._arguments(payload), idempotency_key)

    def look_up(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        """Our own effect at the service."""
        return self._effect._look_up(self._arguments(payload), idempotency_key)

    def send(self, payload: Mapping[str, Any], idempotency_key: str) -> Any:
        """Call the function."""
        return self._effect._send(payload, self._live, idempotency_key, self._own)

    def conditions(self, payload: Mapping[str, Any]) -> Mapping[str, Condition]:
        """The declared conditions, for this call."""
        return self._effect._conditions_for(payload, self._own)

    def _arguments(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        return self._effect._binding.arguments(payload, self._live, own=self._own)
