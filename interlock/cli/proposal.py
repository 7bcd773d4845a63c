"""How a finding is written up: what it was recognised by, which tier it stands in, and a configuration or code that loads as it is printed.

Owns the words of a proposal. It must not know how source is read. What it cannot know is written as `NAME_A_FIELD`, or as an argument
`request_id` that is to be added: the gate refuses both, at the start or at the first call, and never takes them for a name or a fact.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

from interlock.cli import known
from interlock.cli.source import Function
from interlock.record import NamedTuple

FIELD = "NAME_A_FIELD"
ADDED = "request_id"
_MAPPINGS = {"dict", "Dict", "Mapping", "MutableMapping"}
_LISTS = {"list", "List", "tuple", "Tuple", "set", "frozenset", "Sequence", "Iterable", "Collection"}
_RECOVER = "gate.recover()  # once on start, after all are declared"
_HEAD = ("from interlock import Interlock", "", 'gate = Interlock(".interlock")', "")


@dataclasses.dataclass
class Finding:
    """One tool or function with an outside effect that is not gated.

    Attributes:
        name: what it is called; of a tool, the name the model knows it by.
        why: what it was recognised by.
        key: parameters that could name the approved request, the likeliest first; of an object the path to what the body reads of it.
        premises: tools that read something by an argument that names the request here, too.
        lookups: what could find the effect again, for a reason: it takes the same key, or is about the same thing.
        carries: the parameter that takes an idempotency key to the service; empty if none.
        tier: what can be kept without further declarations, and what would raise it; empty where a ready-made effect fills it in.
        ready_made: an effect of this library that does the same, and is then all that is proposed; empty if there is none.
        notes: which functions it stands for, or which tools it serves, and why there is one gate.
        to_do: what a person has to fill in or change.
        proposal: configuration or code to start from.
    """

    file: str
    line: int
    name: str
    is_tool: bool
    why: list[str]
    key: list[str]
    carries: str
    premises: list[str]
    lookups: list[str]
    tier: str
    ready_made: str
    to_do: list[str]
    notes: list[str]
    proposal: str


class _Key(NamedTuple):
    """What could name the approved request.

    Attributes:
        path: where it is, as in a configuration: `order_id`, `order.pi`.
        code: the expression that reads it.
    """

    path: str
    code: str

    @property
    def root(self) -> str:
        """The parameter."""
        return self.path.partition(".")[0]


def propose(
    function: Function,
    readers: list[Function],
    *,
    finders: list[Function],
    records: set[str],
    notes: list[str],
) -> Finding:
    """Write up a function.

    Args:
        function: acts outside and is not gated.
        readers: tools that only read, and could say a fact.
        finders: what finds something, and could find the effect again.
        records: classes that have fields: a parameter of one is an object, and no name.
        notes: what is to be said of the functions around it.
    """
    why = [*function.why, *(["its annotation says that it writes"] if function.says == "writes" else [])]
    carries = next((name for name in function.parameters if known.carries_key(name)), "")
    keys, whole = _keys(function, carries, records)
    finds = [finder for finder in finders if _finds_it(finder, function, carries)]
    # A fact is about the same thing: it is asked by an argument that names the request here, too.
    asked_by = {key.root for key in keys} or set(function.parameters)
    facts = [reader for reader in readers if reader not in finds and set(reader.parameters) & asked_by]
    made = known.ready_made(function.acts)
    named = keys[0] if keys else _Key(f"{whole}.{FIELD}", _field_of(function, whole)) if whole else _Key(ADDED, ADDED)
    to_do: list[str] = []
    if not keys:
        to_do.append(
            f"nothing that is read of {whole} looks like an identity: {FIELD} stands for the field that names the approved request"
            if whole
            else f"no parameter looks like an id: add one that names the approved request; {ADDED} stands for it below"
        )
    if not made and not function.is_tool:
        to_do += [
            f"annotate {name} with its class, a dataclass or a pydantic model: what is sent is kept, and rebuilt after a crash"
            for name in function.fields
            if name not in function.types and any("[" not in code for code in function.fields[name].values())
        ]
    if made:
        proposal = _use(function, made, named)
        to_do += ["... stands for what is not to be seen here; the effect refuses it"] if "..." in proposal else []
    elif function.is_tool:
        how = _how(function, named, carries, facts, finds)
        if FIELD in json.dumps({name: said for name, said in how.items() if name != "key"}):
            to_do.append(f"{FIELD}: a field of that tool's answer")
        if "lookup" in how:
            to_do.append(
                "add settle_after, in seconds: no less than the service's slowest answer, since what lands later is sent twice"
            )
        proposal = json.dumps({"tools": {function.tool: how}}, indent=2)
    else:
        proposal = _code(function, named)
        to_do += ["it is a method: declare a plain function that calls it"] if function.is_method else []
    return Finding(
        file=function.file,
        line=function.line,
        name=function.tool,
        is_tool=function.is_tool,
        why=why or ["a tool whose name says that it changes something"],
        key=[key.path for key in keys],
        carries=carries,
        premises=[] if made else list(dict.fromkeys(reader.tool for reader in facts)),
        lookups=[] if made else list(dict.fromkeys(finder.tool for finder in finds)),
        tier="" if made else _tier(carries),
        ready_made=f"interlock.targets.stripe.{made}" if made else "",
        to_do=to_do,
        notes=notes,
        proposal=proposal,
    )


def _keys(function: Function, carries: str, records: set[str]) -> tuple[list[_Key], str]:
    """What looks like an identity, and an object that holds one for sure but does not show it."""
    keys: list[_Key] = []
    whole: list[str] = []
    for name in function.parameters:
        words, fields = _words(function, name), function.fields.get(name, {})
        if fields or words & (records | _MAPPINGS):
            keys += [_Key(path, code) for path, code in fields.items() if _is_name(path.rpartition(".")[2])]
            whole += [name] if known.is_id(name) or words & (records | _MAPPINGS) else []
        elif name != carries and known.is_id(name) and not words & _LISTS:
            keys.append(_Key(name, name))
    keys.sort(key=lambda key: known.is_owner(key.path.rpartition(".")[2]))
    return keys, "" if keys else next(iter(whole), "")


def _words(function: Function, name: str) -> set[str]:
    """The words of a parameter's annotation."""
    return set(re.findall(r"\w+", function.types.get(name, "")))


def _is_name(field: str) -> bool:
    return known.is_id(field) or known.carries_key(field)


def _field_of(function: Function, name: str) -> str:
    """The placeholder, in the way in which the object is read."""
    reads = next(iter(function.fields.get(name, {}).values()), "")
    is_items = reads.startswith(f"{name}[") or bool(_words(function, name) & _MAPPINGS)
    return f"{name}[{FIELD!r}]" if is_items else f"{name}.{FIELD}"


def _finds_it(finder: Function, function: Function, carries: str) -> bool:
    """Whether there is a reason to believe that it finds this very effect, and not something that the effect is about."""
    if carries and carries in finder.parameters:
        return True
    if known.things(finder.name) & known.makes(function.name):
        return True
    about = {known.subject(call) for call in function.acts} - {""}
    return bool(about & {known.subject(call) for call in finder.calls})


def _tier(carries: str) -> str:
    if carries:
        return f"2 with a look-up by {carries!r}, 1 if the service drops a second request with that key (dedupes); 3 as it stands"
    return (
        "3: after a crash nobody can know. An argument that carries the idempotency key to the service would raise it"
    )


def _how(function: Function, key: _Key, carries: str, facts: list[Function], finds: list[Function]) -> dict[str, Any]:
    how: dict[str, Any] = {"key": [key.path]}
    if facts and (shared := [name for name in facts[0].parameters if name in function.parameters]):
        how["premises"] = {
            "tool": facts[0].tool,
            "arguments": {name: name for name in shared},
            "fields": [name for name in facts[0].gives if name not in shared] or [FIELD],
        }
    if carries:
        how["idempotency_argument"] = carries
        if finds and finds[0].parameters:
            gives = finds[0].gives
            how["lookup"] = {
                "tool": finds[0].tool,
                "arguments": {finds[0].parameters[0]: "$effect_id"},
                "found": "found" if "found" in gives else (gives or [FIELD])[0],
            }
    return how


def _code(function: Function, key: _Key) -> str:
    parameters = [
        *([key.root] if key.root not in function.parameters else []),
        *function.parameters,
        *([] if "idempotency_key" in function.parameters else ["idempotency_key"]),
    ]
    return "\n".join(
        [
            *_HEAD,
            *_comment(key),
            f'@gate.effect(key=lambda {key.root}: f"{function.name}:{{{key.code}}}")',
            f"{_def(function)} {function.name}({_annotated(function, parameters)}):",
            "    ...  # the body as it is, with idempotency_key handed to the service where it takes one",
            "",
            _RECOVER,
        ]
    )


def _use(function: Function, made: str, key: _Key) -> str:
    """The use of a ready-made effect: it stands in place of the call to the service. What is not to be seen is `...`, which it refuses."""
    effect = made.removeprefix("stripe_")
    action = next(call.removesuffix("_async").rpartition(".")[2] for call in sorted(function.acts))
    is_payment = made == "stripe_payment_intent"
    options = [f"action={action!r}"] if is_payment else []
    options += ["asynchronous=True"] if function.is_async else []
    parameters = [*([] if key.root in function.parameters else [key.root]), *function.parameters]
    values = {name: name for name in parameters}
    for fields in function.fields.values():
        values |= {_field(path): code for path, code in fields.items()}
    named = _field(key.path)
    case = {named: key.code}
    about = "" if is_payment and action == "create" else known.CASES[made]
    if about and about not in case:
        case[about] = values.get(about, "...")
    given = [f"{{{', '.join(f'{name!r}: {said}' for name, said in case.items())}}}"]
    if not is_payment or action == "create":
        given.append(f"amount={next((code for name, code in values.items() if 'amount' in name), '...')}")
    if made != "stripe_refund" and len(given) > 1:
        given.append(f"currency={values.get('currency', '...')}")
    call = f"{'await ' if function.is_async else ''}{effect}({', '.join(given)})"
    rule = f'lambda case: f"{effect}:{{case[{named!r}]}}"'
    return "\n".join(
        [
            _HEAD[0],
            f"from interlock.targets.stripe import {made}",
            *_HEAD[1:],
            *_comment(key),
            f"{effect} = {made}({', '.join(['gate', 'client', f'key={rule}', *options])})  # client: a stripe.StripeClient",
            "",
            f"{_def(function)} {function.name}({_annotated(function, parameters)}):",
            f"    outcome = {call}  # in place of the call to Stripe",
            "    return outcome.for_model" if function.is_tool else "    return outcome.raise_for_status()",
            "",
            _RECOVER,
        ]
    )


def _field(path: str) -> str:
    """The last word of a path, as Stripe says it."""
    last = path.rpartition(".")[2]
    return "payment_intent" if last == "pi" else last


def _def(function: Function) -> str:
    return "async def" if function.is_async else "def"


def _annotated(function: Function, parameters: list[str]) -> str:
    return ", ".join(
        f"{name}: {function.types[name]}" if name in function.types else name for name in dict.fromkeys(parameters)
    )


def _comment(key: _Key) -> list[str]:
    return [f"# {FIELD}: the field of {key.root} that names the approved request"] if FIELD in key.path else []
