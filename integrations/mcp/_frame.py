"""Frames: the JSON-RPC messages of MCP as plain data, in both of its eras.

Owns how a line is read, how a request of one's own is written, and what an answer says. It does no I/O and must not know the gate's order.

The eras: up to 2025-11-25 a connection begins with `initialize`; from 2026-07-28 on there is no handshake, each request carries an envelope
in `_meta`, and each result says by `resultType` whether it is complete (modelcontextprotocol.io, specification, "Lifecycle" of either).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from interlock import NotSent, Rejected
from interlock.extend import ToolFailed, Unanswered, plain

Message = dict[str, Any]

ENVELOPE = "io.modelcontextprotocol/"
VERSION_KEY = f"{ENVELOPE}protocolVersion"
CLIENT = {"name": "interlock", "version": "0"}
HANDSHAKE_VERSION = "2025-11-25"
MODERN_VERSION = "2026-07-28"
OWN_ENVELOPE: Mapping[str, Any] = {
    VERSION_KEY: MODERN_VERSION,
    f"{ENVELOPE}clientInfo": CLIENT,
    f"{ENVELOPE}clientCapabilities": {},
}

# Codes by which a server says that it did not so much as start: JSON-RPC 2.0 section 5.1, and MCP's unsupported version.
_NOT_STARTED = frozenset({-32700, -32600, -32601, -32602, -32022})


class Malformed(ValueError):
    """A line that is no JSON-RPC message, or can be read in more than one way."""


def read(line: bytes) -> Any:
    """The message, or the batch of messages, that a line holds.

    Raises:
        Malformed: it cannot be read, or a name stands twice in one object, which another reader may take another way.
    """
    try:
        return json.loads(line.decode("utf-8-sig"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) != len(pairs):
        raise Malformed("a name stands twice in one object")
    return named


def read_from_client(line: bytes) -> tuple[Any, bytes]:
    """The message, or the batch of messages, of a client's line, and the line as any reader takes it: as one.

    Raises:
        Malformed: as `read`; or a name of the protocol is spelt in another case, which some readers take for the name (Go's do).
    """
    message = read(line)
    for one in message if isinstance(message, list) else [message]:
        require_exact_names(one)
    end = line.rstrip(b"\r\n")
    # Between values a carriage return is a space, but a server that reads its input as text begins a new line there.
    return message, end.replace(b"\r", b" ") + b"\n" if b"\r" in end else line


_NAMES = frozenset({"jsonrpc", "id", "method", "params", "result", "error", "name", "arguments", "_meta", "task"})


def require_exact_names(message: Any) -> None:
    """No name of the protocol stands in a message, or in its parameters, in another case.

    Raises:
        Malformed: one does.
    """
    if isinstance(message, dict):
        for name in (*message, *params_of(message)):
            if name not in _NAMES and name.casefold() in _NAMES:
                raise Malformed(f"{name!r} is a name of the protocol but for its case")


def write(message: Any) -> bytes:
    """A message as a line."""
    try:
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:  # half of a character, which UTF-8 has no bytes for
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def id_of(message: Message) -> str:
    """The id of a message in a form that can be compared: 1 and "1" are two ids."""
    return json.dumps(message.get("id"))


def is_request(message: Any) -> bool:
    """Whether it asks for an answer."""
    return isinstance(message, dict) and "method" in message and message.get("id") is not None


def is_answer(message: Any) -> bool:
    """Whether it is the answer to a request."""
    if not isinstance(message, dict) or "method" in message or "id" not in message:
        return False
    return "result" in message or "error" in message


def params_of(message: Message) -> dict[str, Any]:
    """The parameters, empty if there are none."""
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def meta_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """The `_meta` of parameters or of a result."""
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def is_modern(params: Mapping[str, Any]) -> bool:
    """Whether a request belongs to the era without a handshake."""
    return VERSION_KEY in meta_of(params)


def envelope_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """What of a request's `_meta` must stand in every request of its connection; nothing that belongs to it alone, such as its progress."""
    return {name: value for name, value in meta_of(params).items() if name.startswith(ENVELOPE)}


def answer(request: Message, result: Mapping[str, Any]) -> Message:
    """The answer to a request."""
    return {"jsonrpc": "2.0", "id": request.get("id"), "result": result}


def told(text: str, *, is_error: bool, modern: bool, value: Any = None) -> dict[str, Any]:
    """A tool's result in words, and as data if there is an object of it."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": is_error}
    if isinstance(value, dict) and not is_error:
        result["structuredContent"] = value
    if modern:
        result["resultType"] = "complete"
    return result


class RpcError(Exception):
    """The server answered with an error of the protocol.

    Attributes:
        code: of JSON-RPC or MCP.
        data: what else the server said.
    """

    def __init__(self, error: Any) -> None:
        said = error if isinstance(error, dict) else {"message": repr(error)}
        super().__init__(str(said.get("message", "")) or "no message")
        code = said.get("code")
        self.code = code if isinstance(code, int) else 0
        self.data = said.get("data")


class UpstreamGone(Exception):
    """The server's process ended.

    Attributes:
        was_written: whether the request may have reached it.
    """

    def __init__(self, message: str, *, was_written: bool) -> None:
        super().__init__(message)
        self.was_written = was_written


def fate_of(error: RpcError | UpstreamGone) -> Exception:
    """What a failed request says about whether the tool ran, in the gate's words."""
    if isinstance(error, UpstreamGone):
        return Unanswered(str(error)) if error.was_written else NotSent(str(error), reason="upstream_gone")
    if error.code in _NOT_STARTED:
        return Rejected(str(error), reason="invalid_request")
    return Unanswered(f"error {error.code}: {error}")


def asks_for_input(result: Mapping[str, Any]) -> bool:
    """Whether a tool answered that it needs something from the client first. That is not a success."""
    return result.get("resultType") == "input_required"


def value_of(result: Mapping[str, Any]) -> Any:
    """What a tool's result says, as data: its structured content, or what its text holds.

    Raises:
        ToolFailed, Unanswered: as `kept_of`.
    """
    return data_of(kept_of(result))


def data_of(kept: Any) -> Any:
    """What a result that was kept says, as data: a text that holds JSON is what it says."""
    if isinstance(kept, list) and all(isinstance(text, str) for text in kept):
        return [plain(text) for text in kept]
    return plain(kept)


def kept_of(result: Mapping[str, Any]) -> Any:
    """What is kept of a tool's result, so that `as_given` can give it again: its structured content, or its text as it is, or its blocks.

    Raises:
        ToolFailed: it says of itself that it failed.
        Unanswered: it is no complete result of a tool.
    """
    if asks_for_input(result):
        raise Unanswered("the tool asks for input instead of answering")
    content = result.get("content")
    if result.get("isError"):
        raise ToolFailed(text_of(content))
    if not isinstance(content, list) and "structuredContent" not in result:
        raise Unanswered(f"the answer is no result of a tool: {write(dict(result))[:200]!r}")
    if result.get("structuredContent") is not None:
        return result["structuredContent"]
    blocks = content if isinstance(content, list) else []
    if not all(isinstance(block, dict) and block.get("type") == "text" for block in blocks):
        return blocks
    texts = [str(block.get("text", "")) for block in blocks]
    return None if not texts else texts[0] if len(texts) == 1 else texts


_BLOCKS = frozenset({"text", "image", "audio", "resource", "resource_link"})


def as_given(kept: Any, text: str, *, modern: bool) -> dict[str, Any]:
    """A result once more, in the form in which the tool gave it.

    Args:
        kept: what `kept_of` gave.
        text: for the model, where no words of the tool's were kept.
        modern: the client's era.
    """
    if isinstance(kept, dict) and set(kept) == {"result"} and kept["result"] is not None:
        # What is no object is wrapped by either SDK into one with this field, and its words are those of what is in it.
        inner = kept["result"]
        text = inner if isinstance(inner, str) else json.dumps(inner, ensure_ascii=False)
    result = told(text, is_error=False, modern=modern, value=kept)
    if isinstance(kept, list) and kept:
        if all(isinstance(one, str) for one in kept):
            result["content"] = [{"type": "text", "text": one} for one in kept]
        elif all(isinstance(one, dict) and one.get("type") in _BLOCKS for one in kept):
            result["content"] = kept
    return result


def text_of(content: Any) -> str:
    """The words of a result."""
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block["text"]) for block in blocks if isinstance(block, dict) and "text" in block)
