"""Tools of a hand-written loop behind the gate: `protect`, and the answer to a model's tool call in its service's own form.

Owns how plain Python functions become tools, and the forms in which Anthropic's and OpenAI's services hand over a call and take its result.
It must not import either SDK: a call is read by its fields, as an object or as a dict.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_type_hints

import pydantic

from interlock.callbacks import KEY_ARGUMENT
from interlock.decorator import Interlock
from interlock.errors import BadInput, ConfigurationError
from interlock.extend import Answer, Parameters, Recoverable, ToolCall, ToolGate, is_async, plain
from interlock.journal import Journal
from interlock.outcomes import Outcome, Reason, Status
from interlock.record import NamedTuple
from interlock.rules.values import text_of

if TYPE_CHECKING:
    from interlock.extend import ToolsConfig

__all__ = ["GatedFunction", "Tools", "protect"]


def protect(
    tools: Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]],
    config: ToolsConfig | Mapping[str, Any] | str | os.PathLike[str],
    *,
    journal: Journal | Interlock | str | os.PathLike[str] | None = None,
) -> Tools:
    """Put the functions with outside effects behind the gate, and leave the others as they are.

    Args:
        tools: the functions that the loop offers to its model, by name, or a list of them; also those that premises and look-ups ask.
        config: which of them are gated and how (docs/config.md): a dict, a `.json` or `.toml` file, or a `ToolsConfig`.
        journal: a directory, a `Journal` or an `Interlock` instead of the journal that the configuration names.

    Returns:
        The tools by name. A gated one answers with a dict, whose `message` goes back to the model; call `recover()` once on start.

    Raises:
        ConfigurationError: an option or a tool does not exist, or a function cannot take what the configuration hands it.
        JournalError: the journal cannot be opened.
    """
    return Tools(_by_name(tools), config, journal)


class Tools(Recoverable, Mapping[str, Callable[..., Any]]):
    """The tools of a loop by name, those with outside effects behind the gate."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], config: Any, journal: Any = None) -> None:
        self._functions = {name: _Function(name, function) for name, function in functions.items()}
        self._gate = ToolGate(
            config,
            tools={name: function.tool for name, function in self._functions.items()},
            journal=journal,
            parameters={name: function.parameters for name, function in self._functions.items()},
        )
        self._offered: dict[str, Callable[..., Any]] = {
            name: GatedFunction(function, self.gate) if self.gate.is_gated(name) else function.function
            for name, function in self._functions.items()
        }

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._offered[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._offered)

    def __len__(self) -> int:
        return len(self._offered)

    def __enter__(self) -> Tools:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, name: str, arguments: Mapping[str, Any], **more: Any) -> Answer:
        """Call a tool, gated or not, with arguments that a model gave. `more` is as for `ToolGate.call`, and for a gated tool alone.

        Returns:
            The answer; a tool that does not exist, arguments that do not fit and an exception of a tool without a gate are answered too.

        Raises:
            ConfigurationError: the tool is async and an event loop runs in this thread (use `acall`).
            JournalError: the journal could not do its part.
        """
        try:
            function = self._find(name)
            given = function.fit(arguments, self.gate.argument_of_gate(name))
        except BadInput as error:
            return _unfit(name, error)
        if self.gate.is_gated(name):
            return self.gate.call(name, given, **more)
        try:
            result = function.tool(given, None)
            if inspect.isawaitable(result):
                result = _run(result)
            return _told(name, result)
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - a tool without a gate failed: the model is told, as any loop does
            return _ungated_failure(name, error)

    async def acall(self, name: str, arguments: Mapping[str, Any], **more: Any) -> Answer:
        """As `call`, without blocking the event loop."""
        try:
            function = self._find(name)
            given = function.fit(arguments, self.gate.argument_of_gate(name))
        except BadInput as error:
            return _unfit(name, error)
        if self.gate.is_gated(name):
            return await self.gate.acall(name, given, **more)
        try:
            if is_async(function.tool):
                return _told(name, await function.tool(given, None))
            return _told(name, await asyncio.to_thread(function.tool, given, None))
        except Exception as error:  # noqa: BLE001 - as above
            return _ungated_failure(name, error)

    def see(self, response: Any) -> dict[str, Any]:
        """The facts of a response's gated calls as they are now, by id of the call: for a person who is asked to approve them.

        Plain JSON data: save it with the conversation, and hand it to `replies(seen=...)` once the calls were approved.
        """
        seen = {form.call_id: self.gate.read_facts(form.name, given) for form, given in self._seen(response)}
        return {call_id: facts for call_id, facts in seen.items() if facts is not None}

    async def asee(self, response: Any) -> dict[str, Any]:
        """As `see`, without blocking the event loop."""
        seen = {form.call_id: await self.gate.aread_facts(form.name, given) for form, given in self._seen(response)}
        return {call_id: facts for call_id, facts in seen.items() if facts is not None}

    def _seen(self, response: Any) -> Iterator[tuple[_Form, dict[str, Any]]]:
        """The gated calls of a response with their arguments as they will be called with; of others the model is told when they are."""
        for form in map(_form, _calls(response)):
            if self.gate.is_gated(form.name) and not isinstance(form.arguments, BadInput):
                with suppress(BadInput):
                    yield form, self._find(form.name).fit(form.arguments, self.gate.argument_of_gate(form.name))

    def reply(
        self,
        call: Any,
        *,
        decision: str = "",
        evidence: Mapping[str, Any] | None = None,
        seen: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Answer one tool call of a model, in the form in which its service takes the result.

        Args:
            call: a `tool_use` block (Anthropic), a `function_call` item (OpenAI Responses) or a tool call (OpenAI Chat Completions), as
                the SDK's object or as a dict. Its arguments may be JSON text; malformed JSON is answered to the model.
            decision: names the decision, such as an approval's id.
            evidence: further ids for the record. The call's own id is there in any case, and is never the key.
            seen: what `see` gave when a person was asked to approve the calls, by id of the call.

        Returns:
            A `tool_result` block, a `function_call_output` item, or a message of the role `tool`.

        Raises:
            BadInput: it is none of the three forms.
        """
        form = _form(call)
        if isinstance(form.arguments, BadInput):
            return form.result(_unfit(form.name, form.arguments))
        return form.result(self.call(form.name, form.arguments, **form.beside(decision, evidence, seen)))

    async def areply(
        self,
        call: Any,
        *,
        decision: str = "",
        evidence: Mapping[str, Any] | None = None,
        seen: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """As `reply`, without blocking the event loop."""
        form = _form(call)
        if isinstance(form.arguments, BadInput):
            return form.result(_unfit(form.name, form.arguments))
        return form.result(await self.acall(form.name, form.arguments, **form.beside(decision, evidence, seen)))

    def replies(
        self, response: Any, *, decision: str = "", seen: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Answer every tool call of a model's response, one after the other; an empty list if there is none.

        Args:
            response: Anthropic's message, OpenAI's response, or the message of an OpenAI choice; as object or dict.
            decision: as for `reply`.
            seen: what `see` gave when a person was asked to approve these calls; the facts must still hold.
        """
        return [self.reply(call, decision=decision, seen=seen) for call in _calls(response)]

    async def areplies(
        self, response: Any, *, decision: str = "", seen: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """As `replies`, without blocking the event loop, all calls at the same time."""
        replies = (self.areply(call, decision=decision, seen=seen) for call in _calls(response))
        return list(await asyncio.gather(*replies))

    def _find(self, name: str) -> _Function:
        function = self._functions.get(name)
        if function is None:
            raise BadInput(f"there is no tool {name!r}. There are: {', '.join(self._functions)}.")
        return function


class GatedFunction:
    """A gated function of a loop: called as before, it answers with a dict."""

    def __init__(self, function: _Function, gate: ToolGate) -> None:
        self._function = function
        self._gate = gate
        self.__name__ = function.name
        self.__doc__ = function.function.__doc__
        self.__wrapped__ = function.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do it once, through the gate.

        Returns:
            A dict with `status`, `ok`, `message` (for the model), `value`, `effect_id`, `key`, and `retry_after` while it is in flight; of
            an async function, an awaitable of that.

        Raises:
            JournalError: the journal could not do its part.
        """
        name, function = self._function.name, self._function
        own = self._gate.argument_of_gate(name)
        try:
            given = function.fit(function.named(args, kwargs), own)
        except BadInput as error:
            unfit = _unfit(name, error).as_dict()
            return _ready(unfit) if function.is_async else unfit
        if function.is_async:
            return self._acall(given)
        return self._gate.call(name, given).as_dict()

    async def _acall(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return (await self._gate.acall(self._function.name, given)).as_dict()


def _schema_of_answer(function: Callable[..., Any]) -> Mapping[str, Any] | None:
    """The JSON Schema of what a function returns, as `plain` shows it, if it is annotated with a class that lists its fields."""
    try:
        returned: Any = get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001 - an annotation that cannot be read tells nothing
        return None
    if not (
        dataclasses.is_dataclass(returned)
        or hasattr(returned, "__required_keys__")  # a TypedDict, of either module
        or (isinstance(returned, type) and issubclass(returned, pydantic.BaseModel))
    ):
        return None
    try:
        return pydantic.TypeAdapter(returned).json_schema(mode="serialization", by_alias=False)
    except Exception:  # noqa: BLE001 - as above
        return None


class _Function:
    """A plain function as a tool: `tool` is what the gate calls."""

    tool: ToolCall

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function
        self.is_async = is_async(function)
        if not callable(function):
            raise ConfigurationError(f"the tool {name!r} is {function!r}, which cannot be called.")
        if isinstance(function, GatedFunction):
            raise ConfigurationError(f"the tool {name!r} is behind a gate already.")
        try:
            self.signature = inspect.signature(function)
        except (TypeError, ValueError):
            raise ConfigurationError(
                f"the tool {name!r}: its signature cannot be read. Wrap it in a function."
            ) from None
        kinds = [parameter.kind for parameter in self.signature.parameters.values()]
        if inspect.Parameter.POSITIONAL_ONLY in kinds or inspect.Parameter.VAR_POSITIONAL in kinds:
            raise ConfigurationError(f"the tool {name!r} takes arguments by position; a model gives them by name.")
        self.takes_any = inspect.Parameter.VAR_KEYWORD in kinds
        self.names = tuple(
            parameter.name
            for parameter in self.signature.parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        )
        filled = tuple(name for name in self.names if name == KEY_ARGUMENT)
        self.parameters = Parameters(
            tuple(name for name in self.names if name != KEY_ARGUMENT),
            self.takes_any,
            filled=filled,
            required=tuple(
                name
                for name in self.names
                if name != KEY_ARGUMENT and self.signature.parameters[name].default is inspect.Parameter.empty
            ),
            answer=_schema_of_answer(function),
            meant=self._meant,
        )
        self.tool = self._tool()

    def _tool(self) -> ToolCall:
        function = self.function
        if KEY_ARGUMENT in self.names:

            def keyed(arguments: Mapping[str, Any], context: Any, idempotency_key: str = "") -> Any:
                return function(**{**arguments, KEY_ARGUMENT: idempotency_key})

            async def akeyed(arguments: Mapping[str, Any], context: Any, idempotency_key: str = "") -> Any:
                return await function(**{**arguments, KEY_ARGUMENT: idempotency_key})

            return akeyed if self.is_async else keyed

        def call(arguments: Mapping[str, Any], context: Any) -> Any:
            return function(**arguments)

        async def acall(arguments: Mapping[str, Any], context: Any) -> Any:
            return await function(**arguments)

        return acall if self.is_async else call

    def _meant(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the function would get of a call's arguments, which stand on the record, maybe since before it took another one."""
        parameters = self.signature.parameters
        defaults = {name: parameters[name].default for name in self.names if name not in given}
        return {**defaults, **given}

    def named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name."""
        if len(args) > len(self.names):
            raise BadInput(f"{self.name} takes {len(self.names)} arguments, and {len(args)} were given.")
        named = dict(zip(self.names, args, strict=False))
        twice = next((name for name in kwargs if name in named), None)
        if twice is not None:
            raise BadInput(f"{self.name} got the argument {twice!r} twice.")
        return {**named, **kwargs}

    def fit(self, arguments: Mapping[str, Any], of_gate: str | None) -> dict[str, Any]:
        """The arguments with defaults filled in, checked before anything is journalled: one that does not fit is the model's to correct.

        Raises:
            BadInput: an argument is unknown or missing.
        """
        given: Any = arguments
        if not isinstance(given, Mapping):
            raise BadInput(f"the arguments are {given!r:.200}; give them by name.")
        own = {KEY_ARGUMENT, of_gate}
        fitted = {name: value for name, value in given.items() if name not in own}
        problem = self.parameters.problem_of(self.name, fitted, hidden=of_gate)
        if problem:
            raise BadInput(problem)
        for name in self.names:
            if name in fitted or name in own:
                continue
            default = self.signature.parameters[name].default
            if default is inspect.Parameter.empty:
                raise BadInput(f"the argument {name!r} is missing.")
            fitted[name] = default
        return fitted


def _by_name(tools: Any) -> dict[str, Callable[..., Any]]:
    if isinstance(tools, Mapping):
        return dict(tools)
    named: dict[str, Callable[..., Any]] = {}
    for function in tools:
        name = getattr(function, "__name__", "")
        if not name or name == "<lambda>":
            raise ConfigurationError(
                f"the tool {function!r} has no name. Give the tools as a dict from name to function."
            )
        if name in named:
            raise ConfigurationError(f"two tools are named {name!r}; the gate could not tell which one to call.")
        named[name] = function
    return named


class _Form(NamedTuple):
    """A tool call of a model, and how its result is written."""

    name: str
    arguments: Any
    ids: dict[str, str]
    result: Callable[[Answer], dict[str, Any]]

    @property
    def call_id(self) -> str:
        """The service's id of the call."""
        return next(iter(self.ids.values()))

    def beside(
        self, decision: str, evidence: Mapping[str, Any] | None, seen: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """What goes to the gate beside the arguments."""
        facts = (seen or {}).get(self.call_id)
        return {"decision": decision, "evidence": {**self.ids, **(evidence or {})}, "seen": facts}


def _form(call: Any) -> _Form:
    kind = _field(call, "type")
    if kind == "tool_use":
        own = str(_field(call, "id"))

        def block(answer: Answer) -> dict[str, Any]:
            block: dict[str, Any] = {"type": "tool_result", "tool_use_id": own, "content": answer.message}
            return {**block, "is_error": True} if answer.is_error else block

        return _Form(str(_field(call, "name")), _parsed(_field(call, "input")), {"tool_use_id": own}, block)
    if kind == "function_call":
        own = str(_field(call, "call_id"))
        return _Form(
            str(_field(call, "name")),
            _parsed(_field(call, "arguments")),
            {"call_id": own},
            lambda answer: {"type": "function_call_output", "call_id": own, "output": answer.message},
        )
    function = _field(call, "function")
    if function is not None:
        own = str(_field(call, "id"))
        return _Form(
            str(_field(function, "name")),
            _parsed(_field(function, "arguments")),
            {"tool_call_id": own},
            lambda answer: {"role": "tool", "tool_call_id": own, "content": answer.message},
        )
    raise BadInput(
        f"{call!r:.200} is no tool call: give a tool_use block (Anthropic), a function_call item or a tool call (OpenAI)."
    )


def _calls(response: Any) -> list[Any]:
    for field, kind in (("content", "tool_use"), ("output", "function_call")):
        items = _field(response, field)
        if isinstance(items, list | tuple):
            return [item for item in items if _field(item, "type") == kind]
    return list(_field(response, "tool_calls") or [])


def _field(of: Any, name: str) -> Any:
    return of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)


def _parsed(arguments: Any) -> Any:
    """A call's arguments; a `BadInput` if they are no JSON object, which is for the model to correct."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except ValueError as error:
            return BadInput(f"the arguments are not valid JSON ({error}).")
    if isinstance(arguments, Mapping):
        return dict(arguments)
    return BadInput("the arguments are no JSON object; give them by name.") if arguments is not None else {}


def _unfit(name: str, error: BadInput) -> Answer:
    outcome = Outcome(Status.REFUSED, name, "", "", reason=Reason.BAD_INPUT, detail=str(error))
    return Answer(outcome, f"Not done: {error} Nothing was sent. Correct the call and make it again.")


def _told(name: str, result: Any) -> Answer:
    """What a tool without a gate returned."""
    value = plain(result)
    outcome = Outcome(Status.COMMITTED, name, "", "", reason="", value=value, raw=result)
    text = result if isinstance(result, str) else json.dumps(value, ensure_ascii=False, default=str)
    return Answer(outcome, text)


def _ungated_failure(name: str, error: Exception) -> Answer:
    outcome = Outcome(Status.FAILED, name, "", "", reason="tool_error", detail=text_of(error))
    return Answer(outcome, f"The tool failed: {text_of(error)}")


async def _ready(value: Any) -> Any:
    return value


def _run(awaitable: Any) -> Any:
    try:
        asyncio.get_running_loop()
    except RuntimeError:

        async def wait() -> Any:
            return await awaitable

        return asyncio.run(wait())
    awaitable.close()
    raise ConfigurationError(
        "the tool is async, and an event loop runs in this thread. Await acall() or areply() instead."
    )
