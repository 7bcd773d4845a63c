"""What a wrapper or a user writes in Python: `Effect`, a tool's gating with callbacks, and `ToolFailed`, a tool's own word."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from interlock.declaration import ExceptionTypes
from interlock.ports import Verdict


class ToolFailed(Exception):
    """Raise this in a tool's callable: the tool answered, and its answer says of itself that it failed.

    By default nobody knows from that whether the effect happened, so it is looked up or called AMBIGUOUS; `rejected_on_error` of the
    tool's configuration says that it means it did not happen.

    Args:
        result: what the tool answered; its text stands on the record.
    """

    def __init__(self, result: Any = "") -> None:
        super().__init__(result if isinstance(result, str) else repr(result)[:500])
        self.result = result


@dataclasses.dataclass(frozen=True, kw_only=True)
class Effect:
    """How one tool is gated, in Python: the options of `@gate.effect`, with callbacks that take the tool's arguments by name.

    Callbacks may be sync or async; all but `key` also take `idempotency_key`, and `context`: the framework's live object, None in recovery.

    Attributes:
        key: names the approved request.
        idempotency_argument: the tool's argument that carries the idempotency key.
        rejected_on_error: an error result of the tool means that it certainly did not happen.
        binds: the arguments that must not change under one key, as paths; by default all.
        name: under which its effects stand on the journal; by default the tool's. Part of their identity: a tool that was renamed keeps
            its effects under the old one.

    The others are those of `Interlock.effect`.
    """

    key: Callable[..., str]
    premises: Callable[..., Any] | None = None
    expect: Mapping[str, Any] | None = None
    allowed: Callable[..., Any] | None = None
    budget: Callable[..., Any] | None = None
    lookup: Callable[..., Any] | None = None
    settlement: Callable[..., Any] | None = None
    references: Callable[..., Any] | None = None
    watch_for: float | timedelta | None = None
    dedupes: bool = False
    window: float | timedelta | None = None
    lookup_lag: float | timedelta = 0.0
    settle_after: float | timedelta | None = None
    timeout: float | timedelta = 30.0
    wait: float | timedelta = 0.0
    rejected_on: ExceptionTypes = ()
    not_sent_on: ExceptionTypes = ()
    in_use_on: ExceptionTypes = ()
    classify: Callable[[BaseException], Verdict | None] | None = None
    binds: Iterable[str] | None = None
    idempotency_argument: str | None = None
    rejected_on_error: bool = False
    name: str | None = None
