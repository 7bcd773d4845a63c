"""ADK's side of the story: a model that is played, and a runner whose sessions outlive the process."""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")  # ADK calls resuming experimental
from google.adk.agents import LlmAgent  # noqa: E402
from google.adk.apps import App, ResumabilityConfig  # noqa: E402
from google.adk.models import BaseLlm, LlmRequest, LlmResponse  # noqa: E402
from google.adk.runners import Runner  # noqa: E402
from google.adk.sessions.sqlite_session_service import SqliteSessionService  # noqa: E402
from google.genai import types  # noqa: E402


class Played(BaseLlm):
    """Calls `create_refund`, and says that it is done once it was told something."""

    amount: int

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        told = (llm_request.contents[-1].parts or [types.Part()])[-1].function_response
        call = types.FunctionCall(name="create_refund", args={"order_id": "881", "amount": self.amount})
        part = types.Part(text="done") if told else types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def ask(agent: LlmAgent, place: Path, resumes: bool) -> None:
    """Ask for the refund, or resume the run that died."""
    app = App(name="shop", root_agent=agent, resumability_config=ResumabilityConfig(is_resumable=True))
    runner = Runner(app=app, session_service=SqliteSessionService(str(place / "sessions.db")))
    where = {"app_name": "shop", "user_id": "ann", "session_id": "s1"}
    session = await runner.session_service.get_session(**where)
    if session is None:
        session = await runner.session_service.create_session(**where)
    message = types.Content(role="user", parts=[types.Part(text="refund it")])
    given: Any = {"invocation_id": session.events[-1].invocation_id} if resumes else {"new_message": message}
    async for event in runner.run_async(user_id="ann", session_id="s1", **given):
        for response in event.get_function_responses():
            print(f"  the model is told: {response.response}", flush=True)
