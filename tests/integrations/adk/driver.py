"""ADK agents under the contract: a scripted `BaseLlm`, a `Runner`, `SqliteSessionService`, a resumable app."""

from __future__ import annotations

import asyncio
import json
import logging
import warnings
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, ClassVar

warnings.filterwarnings("ignore", module=r"google\.adk.*")

from google.adk.agents import LlmAgent, RunConfig  # noqa: E402
from google.adk.agents.run_config import StreamingMode  # noqa: E402
from google.adk.apps import App, ResumabilityConfig  # noqa: E402
from google.adk.models import BaseLlm, LlmRequest, LlmResponse  # noqa: E402
from google.adk.plugins import BasePlugin, ReflectAndRetryToolPlugin  # noqa: E402
from google.adk.runners import Runner  # noqa: E402
from google.adk.sessions.sqlite_session_service import SqliteSessionService  # noqa: E402
from google.adk.tools import FunctionTool  # noqa: E402
from google.genai import types  # noqa: E402

from interlock.integrations.adk import Guard, InterlockPlugin, protect_tools  # noqa: E402
from interlock.testing.driver import IntegrationDriver, ModelCall, Place, Told  # noqa: E402

logging.getLogger("google_adk").setLevel(logging.ERROR)
APP, USER = "desk", "ann"
ASKED = "adk_request_confirmation"


class ScriptedModel(BaseLlm):
    """A model that makes the given calls in one answer, and finishes once it is told their results."""

    calls: list[dict[str, Any]]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        told = any(part.function_response for part in llm_request.contents[-1].parts or [])
        if told:
            parts = [types.Part(text="done")]
        else:
            parts = [
                types.Part(function_call=types.FunctionCall(id=call["id"], name=call["name"], args=call["args"]))
                for call in self.calls
            ]
        if stream and told:
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="do")]), partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def scripted(calls: Sequence[ModelCall]) -> ScriptedModel:
    return ScriptedModel(
        model="scripted", calls=[{"id": call.id, "name": call.tool, "args": dict(call.arguments)} for call in calls]
    )


def text(words: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=words)])


def told(events: Sequence[Any], calls: Sequence[ModelCall]) -> list[Told]:
    """What the model was told in answer to the calls, in their order; the last answer to each."""
    answers: dict[str, Told] = {}
    for event in events:
        for response in event.get_function_responses():
            if response.name != ASKED:
                given = response.response or {}
                answers[response.id] = Told(json.dumps(given), is_error="error" in given)
    return [answers[call.id] for call in calls if call.id in answers]


def edit(tool: Any, args: dict[str, Any], tool_context: Any) -> None:
    """A reviewer's edit: what the confirmation's payload says is what is called."""
    if tool_context.tool_confirmation is not None and tool_context.tool_confirmation.payload:
        args.update(tool_context.tool_confirmation.payload)


class GuardDriver(IntegrationDriver):
    """`before_tool_callback=guard.before_tool_callback`."""

    not_applicable: ClassVar[Mapping[str, str]] = {
        "types": "ADK calls a function with what the model wrote, whatever its annotations say"
    }
    evidence: ClassVar[tuple[str, ...]] = ("function_call_id", "invocation_id", "session_id", "user_id", "app_name")

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.plugins: list[BasePlugin] = []
        self.callbacks: list[Any] = [edit]
        self.tools = self.functions()
        self.behind = self.wrap()

    asks = False

    def functions(self) -> list[Any]:
        """The contract's functions as ADK's tools; the refund wants a person's confirmation in the runs that ask for it."""
        return [
            FunctionTool(function, require_confirmation=self.is_asked if name == "create_refund" else False)
            for name, function in self.place.functions.items()
        ]

    def is_asked(self, **arguments: Any) -> bool:
        return self.asks

    def wrap(self) -> Any:
        """Put the wrapper under test in its place, and give what recovers."""
        guard = Guard(self.place.config, tools=self.tools, journal=self.place.journal)
        self.callbacks.append(guard.before_tool_callback)
        return guard

    def recover(self) -> Sequence[Any]:
        return self.behind.recover()

    def close(self) -> None:
        self.behind.close()

    # --- running it --------------------------------------------------------------------------------------------------------

    def runner(self, calls: Sequence[ModelCall], *plugins: BasePlugin) -> Runner:
        agent = LlmAgent(
            name="support", model=scripted(calls), tools=self.tools, before_tool_callback=list(self.callbacks)
        )
        app = App(
            name=APP,
            root_agent=agent,
            plugins=[*plugins, *self.plugins],
            resumability_config=ResumabilityConfig(is_resumable=True),
        )
        return Runner(app=app, session_service=SqliteSessionService(str(self.place.state / "sessions.db")))

    async def session(self, runner: Runner, thread: str) -> Any:
        found = await runner.session_service.get_session(app_name=APP, user_id=USER, session_id=thread)
        if found is None:
            found = await runner.session_service.create_session(app_name=APP, user_id=USER, session_id=thread)
        return found

    async def go(self, runner: Runner, thread: str, **given: Any) -> list[Any]:
        return [event async for event in runner.run_async(user_id=USER, session_id=thread, **given)]

    def run(
        self, calls: Sequence[ModelCall], *, thread: str = "thread-1", plugins: Sequence[BasePlugin] = ()
    ) -> list[Told]:
        runner = self.runner(calls, *plugins)
        asyncio.run(self.session(runner, thread))
        return told(list(runner.run(user_id=USER, session_id=thread, new_message=text("refund it"))), calls)

    async def arun(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        runner = self.runner(calls)
        await self.session(runner, thread)
        return told(await self.go(runner, thread, new_message=text("refund it")), calls)

    def stream(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        async def stream() -> list[Any]:
            runner = self.runner(calls)
            await self.session(runner, thread)
            config = RunConfig(streaming_mode=StreamingMode.SSE)
            return await self.go(runner, thread, new_message=text("refund it"), run_config=config)

        return told(asyncio.run(stream()), calls)

    def resume(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        async def resume() -> list[Any]:
            runner = self.runner(calls)
            session = await self.session(runner, thread)
            return await self.go(runner, thread, invocation_id=session.events[-1].invocation_id)

        return told(asyncio.run(resume()), calls)

    def run_with_retry(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self.run(calls, thread=thread, plugins=[ReflectAndRetryToolPlugin(max_retries=3)])

    # --- a person's confirmation ---------------------------------------------------------------------------------------------

    def pause(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> None:
        async def pause() -> str:
            self.asks = True
            runner = self.runner(calls)
            await self.session(runner, thread)
            events = await self.go(runner, thread, new_message=text("refund it"))
            (asked,) = [call for event in events for call in event.get_function_calls() if call.name == ASKED]
            return json.dumps({"id": asked.id, "invocation_id": events[-1].invocation_id})

        (self.place.state / f"{thread}.json").write_text(asyncio.run(pause()))

    def approve(
        self, calls: Sequence[ModelCall], *, thread: str = "thread-1", edited: Mapping[str, Any] | None = None
    ) -> list[Told]:
        return self.answer({"confirmed": True, "payload": None if edited is None else dict(edited)}, calls, thread)

    def decline(self, calls: Sequence[ModelCall], *, thread: str = "thread-1") -> list[Told]:
        return self.answer({"confirmed": False}, calls, thread)

    resumable_answer: ClassVar[bool] = True

    def answer(self, confirmation: Mapping[str, Any], calls: Sequence[ModelCall], thread: str) -> list[Told]:
        saved = json.loads((self.place.state / f"{thread}.json").read_text())

        async def answer() -> list[Any]:
            self.asks = True
            runner = self.runner(calls)
            response = types.FunctionResponse(id=saved["id"], name=ASKED, response=dict(confirmation))
            message = types.Content(role="user", parts=[types.Part(function_response=response)])
            further = {"invocation_id": saved["invocation_id"]} if self.resumable_answer else {}
            return await self.go(runner, thread, new_message=message, **further)

        try:
            return told(asyncio.run(answer()), calls)
        except Exception as error:
            if "stale session" not in str(error):
                raise
            return []  # ADK itself refuses to write where another run of the session has written meanwhile


class PluginDriver(GuardDriver):
    """`plugins=[InterlockPlugin(...)]`."""

    def wrap(self) -> Any:
        plugin = InterlockPlugin(self.place.config, tools=self.tools, journal=self.place.journal)
        self.plugins.append(plugin)
        return plugin

    def close(self) -> None:
        self.behind.guard.close()


class ToolDriver(GuardDriver):
    """`tools=protect_tools([...])`."""

    def wrap(self) -> Any:
        self.tools = protect_tools(self.tools, self.place.config, journal=self.place.journal)
        return self.tools
