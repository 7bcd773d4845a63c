"""Premises: facts a decision relied on, and the condition each must meet at the send.

                decision                          send                        send after a crash
    fact:       seen                              now                         now
    rule:       must hold for `seen`              must hold for `now`         must hold for `now`
    refused as: premise_false                     stale_premise               stale_premise_at_recovery

`unchanged` and `tolerates` compare `now` with `seen`; the other conditions look at one value at a time, so a fact that was
already wrong when the agent decided is refused too. Values are compared strictly: True is not 1, and a fact that is
missing now is never "unchanged". Pure: the readings are handed in.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from interlock.errors import BadInput, ConfigurationError, PremiseUnfit
from interlock.record import NamedTuple
from interlock.rules.values import decode, encode, fingerprint, text_of

_MISSING = object()


class Condition(NamedTuple):
    """What a fact must meet. Build one with `unchanged`, `equals`, `one_of`, `at_least`, `at_most`, `matches` or `tolerates`.

    Attributes:
        rule: the condition in words; goes on the record.
        relative: whether it compares with what the decider saw; otherwise it judges one value.
        test: the judgement: of `(seen, now)` if relative, else of the value; then, by name, what `takes` lists.
        takes: names of arguments of the effect that `test` wants beside the fact.
    """

    rule: str
    relative: bool
    test: Callable[..., object]
    takes: tuple[str, ...] = ()

    def given(self, arguments: Mapping[str, Any]) -> Condition:
        """This condition for one call, with the arguments that it takes filled in."""
        if not self.takes:
            return self
        return Condition(self.rule, self.relative, partial(self.test, **{name: arguments[name] for name in self.takes}))


def same(left: Any, right: Any) -> bool:
    """Whether two encoded facts are the same value: type and content, numbers by value (1 and 1.0 are one number, True is not 1)."""
    return fingerprint(left) == fingerprint(right)


def unchanged() -> Condition:
    """The fact is what the decider saw. The default."""
    return Condition("unchanged", True, lambda seen, now: same(seen, now))


def equals(value: Any) -> Condition:
    """The fact is `value`, at the decision and at the send."""
    return Condition(f"equals {value!r}", False, lambda now: _plain_same(now, value))


def one_of(*values: Any) -> Condition:
    """The fact is one of `values`, at the decision and at the send."""
    if not values:
        raise ConfigurationError("one_of() names no value, so nothing could ever hold. Name the values that are fine.")
    return Condition(
        f"one of {', '.join(repr(value) for value in values)}",
        False,
        lambda now: any(_plain_same(now, value) for value in values),
    )


def at_least(bound: Any) -> Condition:
    """The fact is `bound` or more."""
    return Condition(f"at least {bound!r}", False, lambda now: _amount(now, bound) >= bound)


def at_most(bound: Any) -> Condition:
    """The fact is `bound` or less."""
    return Condition(f"at most {bound!r}", False, lambda now: _amount(now, bound) <= bound)


def matches(test: Callable[..., bool], *, why: str = "") -> Condition:
    """The fact passes a function of yours, which must answer True or False.

    Args:
        test: of the value; further parameters are arguments of the effect, by name: `lambda left, amount: left >= amount`.
        why: the rule in words, for the record; by default the function's name.
    """
    return Condition(
        f"matches {why or _name(test)}",
        False,
        lambda now, **more: test(decode(now), **more),
        _further(test, 1, "matches(lambda now, ...: ...)"),
    )


def tolerates(test: Callable[..., bool], *, why: str) -> Condition:
    """The fact is unchanged, or it changed in a way that you declare harmless.

    Args:
        test: of `(seen, now)`, asked only if they differ; True means that the change is tolerated. Further parameters are
            arguments of the effect, by name: `lambda seen, now, amount: ...`.
        why: the rule in words, e.g. "other refunds of a different amount"; it stands on the record with both values.
    """
    if not why:
        raise ConfigurationError("tolerates() needs why=: the rule in words stands on the record beside both values.")
    return Condition(
        f"unchanged, or {why}",
        True,
        lambda seen, now, **more: same(seen, now) or test(decode(seen), decode(now), **more),
        _further(test, 2, "tolerates(lambda seen, now, ...: ...)"),
    )


def condition(declared: Any) -> Condition:
    """The condition that an `expect=` value stands for: a `Condition` as it is, any other value as `equals(value)`."""
    return declared if isinstance(declared, Condition) else equals(declared)


class Judgement(NamedTuple):
    """What became of the premises.

    Attributes:
        verdicts: by name: rule, seen, now (encoded), holds.
        was_false: names that did not hold when decided.
        changed: names that held when decided and do not hold now.
    """

    verdicts: dict[str, dict[str, Any]]
    was_false: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether all of them hold."""
        return not self.was_false and not self.changed


UNCHANGED = unchanged()
NOTHING_TO_JUDGE = Judgement({}, (), ())


def judge(conditions: Mapping[str, Condition], seen: Mapping[str, Any], now: Mapping[str, Any]) -> Judgement:
    """Judge every fact, seen and now.

    Args:
        conditions: the declared ones; a fact without one must be unchanged.
        seen: encoded facts as the decider saw them.
        now: encoded facts as they are.

    Raises:
        BadInput: the decider did not hand over a fact that is compared with what it saw.
        PremiseUnfit: a condition names a fact that no reader gives, or its function failed.
    """
    if not seen and not now and not conditions:
        return NOTHING_TO_JUDGE
    for name in conditions:
        if name not in now and name not in seen:
            raise PremiseUnfit(
                f"expect= names the premise {name!r}, which premises= does not give (it gives: {', '.join(now) or 'none'}). "
                "Nothing was sent. Correct the name."
            )
    verdicts: dict[str, dict[str, Any]] = {}
    was_false: list[str] = []
    changed: list[str] = []
    for name in dict.fromkeys((*seen, *now)):
        rule = conditions.get(name, UNCHANGED)
        before, after = seen.get(name, _MISSING), now.get(name, _MISSING)
        verdict: dict[str, Any] = {"rule": rule.rule}
        if before is _MISSING and rule.relative:
            raise BadInput(
                f"the premise {name!r} is compared with what the decider saw, but seen= does not hold it. "
                "Hand over all facts, or declare a condition that looks at the present alone, such as equals()."
            )
        held_before = before is _MISSING or rule.relative or _ask(name, rule, before)
        if after is _MISSING:
            holds = False
            verdict["missing_now"] = True
        else:
            holds = _ask(name, rule, before, after) if rule.relative else _ask(name, rule, after)
            verdict["now"] = after
        if before is not _MISSING:
            verdict["seen"] = before
        verdict["holds"] = held_before and holds
        verdicts[name] = verdict
        if not held_before:
            was_false.append(name)
        elif not holds:
            changed.append(name)
    return Judgement(verdicts, tuple(was_false), tuple(changed))


def _ask(name: str, rule: Condition, *values: Any) -> bool:
    try:
        answer = rule.test(*values)
    except Exception as error:
        raise PremiseUnfit(
            f"the condition of premise {name!r} ({rule.rule}) could not judge {values!r}: {text_of(error)}. "
            "Nothing was sent. Check the type that the reader gives."
        ) from error
    if answer is not True and answer is not False:
        raise PremiseUnfit(
            f"the condition of premise {name!r} ({rule.rule}) answered {answer!r}. Nothing was sent. Answer True or False."
        )
    return answer


def _amount(encoded: Any, bound: Any) -> Any:
    value = decode(encoded)
    if isinstance(value, bool) is not isinstance(bound, bool):
        raise TypeError(f"{value!r} and {bound!r} cannot be compared: True and False are no amounts")
    return value


def _plain_same(encoded: Any, value: Any) -> bool:
    return same(encoded, encode(value, what="the value of a condition"))


def _name(test: Callable[..., object]) -> str:
    return getattr(test, "__name__", None) or type(test).__name__


def _further(test: Callable[..., object], values: int, form: str) -> tuple[str, ...]:
    """The names of the parameters behind the values that a condition's function judges."""
    try:
        parameters = tuple(inspect.signature(test).parameters.values())
    except (TypeError, ValueError):
        return ()
    if sum(parameter.kind is not parameter.KEYWORD_ONLY for parameter in parameters) < values:
        raise ConfigurationError(f"a condition's function takes the fact first: {form}.")
    return tuple(
        parameter.name
        for parameter in parameters[values:]
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.default is parameter.empty
    )
