"""The proxy over streamable HTTP, on the official SDK: its transports and its session rules, with the server's own answers in them.

In the era with a handshake each session has a process of the server of its own, as over stdio. In the era without one all requests share
one process. Owns which process a request belongs to, and which open request a message of the server belongs to, which its pipe does
not say. It must not know what the gate decides.
"""

from __future__ import annotations

import asyncio
import json
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import jsonrpc_message_adapter
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from interlock import ConfigurationError
from interlock.integrations.mcp._behind import Behind
from interlock.integrations.mcp._face import show_tools
from interlock.integrations.mcp._frame import (
    ENVELOPE,
    Malformed,
    RpcError,
    UpstreamGone,
    envelope_of,
    meta_of,
    params_of,
    read,
    require_exact_names,
    write,
)
from interlock.integrations.mcp._gateway import log
from interlock.integrations.mcp._stdio import LAST_S, Connection
from interlock.integrations.mcp._upstream import Upstream

_IDLE_S = 30 * 60.0  # as long as the SDK's own servers keep a session that nobody uses
_FLUSH_S = 0.5  # for a client to read the answers of a session whose server has ended
_VERSION_HEADER = "mcp-protocol-version"
_SUBSCRIPTION = f"{ENVELOPE}subscriptionId"


class HttpFront:
    """The proxy as an ASGI application, at any path.

    Args:
        behind: the server's tools behind the gate.
        security: whom to answer.
    """

    def __init__(self, behind: Behind, security: TransportSecuritySettings) -> None:
        self._behind = behind
        self._security = security
        self._guard = TransportSecurityMiddleware(security)
        self._sessions: dict[str, StreamableHTTPServerTransport] = {}
        self._shared = SharedServer(behind)
        server: Server[Any] = Server("interlock-proxy", get_tool_input_schema=behind.schema_of)
        server.middleware[:] = [self._shared.forward]
        self._manager = StreamableHTTPSessionManager(server, security_settings=security)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve as long as this is entered; at its end, what has left ends first."""
        async with anyio.create_task_group() as self._tasks, self._manager.run():
            try:
                yield
            finally:
                for transport in list(self._sessions.values()):
                    await transport.terminate()
                await self._shared.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One HTTP request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        version = request.headers.get(_VERSION_HEADER)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._manager.handle_request(scope, receive, send)
            return
        named = request.headers.get(MCP_SESSION_ID_HEADER)
        if named is not None:
            transport = self._sessions.get(named)
            if transport is None:
                await _refused("Session not found", 404)(scope, receive, send)
            else:
                await transport.handle_request(scope, receive, send)
        elif request.method != "POST":
            await _refused("Bad Request: Missing session ID", 400)(scope, receive, send)
        else:
            refused = await self._guard.validate_request(request, is_post=True) or _not_opening(await request.body())
            if refused is not None:
                await refused(scope, receive, send)
            else:
                await self._open(scope, _once_more(await request.body(), receive), send)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A session's first request. Nothing else starts a server."""
        transport = StreamableHTTPServerTransport(
            uuid.uuid4().hex, security_settings=self._security, idle_timeout=_IDLE_S
        )
        status = 500

        async def watch(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        await self._tasks.start(self._serve, transport)
        try:
            await transport.handle_request(scope, receive, watch)
        finally:
            if status >= 400:
                with anyio.CancelScope(shield=True):
                    await transport.terminate()

    async def _serve(self, transport: StreamableHTTPServerTransport, *, task_status: Any) -> None:
        """A session from its first request to its end. What fails once it is open ends it alone: the others share this task's group."""
        session = str(transport.mcp_session_id)
        queue: asyncio.Queue[SessionMessage] = asyncio.Queue()
        open_requests = OpenRequests()
        connection = Connection(
            self._behind,
            lambda line: _each(line, lambda message: queue.put_nowait(open_requests.place(message))),
            {"session_id": session},
        )
        try:
            await connection.open()
        except BaseException:
            await transport.terminate()
            raise
        self._sessions[session] = transport
        try:
            async with transport.connect() as (reading, writing), anyio.create_task_group() as tasks:

                async def answer() -> None:
                    while True:
                        await writing.send(await queue.get())
                        queue.task_done()

                async def end_with_the_server() -> None:
                    await asyncio.wait({connection.upstream.ended})
                    self._sessions.pop(session, None)
                    if connection.has_calls:  # which are answered by a process of our own
                        await connection.settle()
                        with suppress(TimeoutError):  # a client that does not read is not waited for
                            await asyncio.wait_for(queue.join(), LAST_S)
                        await asyncio.sleep(_FLUSH_S)
                    await transport.terminate()

                tasks.start_soon(answer)
                tasks.start_soon(end_with_the_server)
                task_status.started()
                with transport.idle_scope or anyio.CancelScope():
                    async for item in reading:
                        if isinstance(item, SessionMessage):
                            dumped = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
                            open_requests.note(dumped, item.metadata)
                            connection.take(write(dumped))
                            await open_requests.end_cancelled(dumped)
                tasks.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - told below; another client's session must not end with this one
            # A session that its client ends closes its own streams, at whatever they were used for.
            if not transport.is_terminated:
                log.exception("session %s ended: %s", session, error)
        finally:
            self._sessions.pop(session, None)
            with anyio.CancelScope(shield=True):
                await transport.terminate()
                await connection.finish()


class OpenRequests:
    """The requests of one session that wait for an answer, by which a message of the server finds its stream."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Any, Any, Any]] = {}

    def note(self, message: Mapping[str, Any], metadata: Any) -> None:
        """A message of the client's."""
        if "method" in message and message.get("id") is not None:
            token = meta_of(params_of(dict(message))).get("progressToken")
            self._open[json.dumps(message["id"])] = message["id"], token, metadata

    async def end_cancelled(self, message: Mapping[str, Any]) -> None:
        """A request that was cancelled gets no answer; its stream ends."""
        if message.get("method") == "notifications/cancelled":
            entry = self._open.pop(json.dumps(params_of(dict(message)).get("requestId")), None)
            unanswered = getattr(entry[2], "on_request_unanswered", None) if entry else None
            if unanswered is not None:
                await unanswered()

    def place(self, message: Any) -> SessionMessage:
        """A message of the server's, with the stream that it goes to.

        Progress names its request; of anything else the pipe does not tell, and it goes to the request that was made last, if one is open.
        An answer that is none becomes an error, since its client waits for it.

        Raises:
            ValidationError: it is no message of the protocol, and nobody waits for it.
        """
        if not isinstance(message, dict) or "method" in message:
            parsed = jsonrpc_message_adapter.validate_python(message)
        else:
            waited_for = self._open.pop(json.dumps(message.get("id")), None)
            try:
                return SessionMessage(jsonrpc_message_adapter.validate_python(message))
            except ValidationError:
                if waited_for is None:
                    raise
                failure = {"code": -32603, "message": "the server's answer is no answer of the protocol"}
                error = {"jsonrpc": "2.0", "id": message["id"], "error": failure}
                return SessionMessage(jsonrpc_message_adapter.validate_python(error))
        token = params_of(message).get("progressToken")
        related = [own for own, of, _ in self._open.values() if token is None or of == token]
        return SessionMessage(parsed, ServerMessageMetadata(related_request_id=related[-1]) if related else None)


class _Notification(BaseModel):
    """Any notification, as it came."""

    method: str
    params: dict[str, Any] | None = None


class SharedServer:
    """The one process that serves all requests of the era without a handshake.

    Its pipe has one set of ids for all clients, so each request gets an id of our own, and its progress a token of our own.
    """

    def __init__(self, behind: Behind) -> None:
        self._behind = behind
        self._starting = asyncio.Lock()
        self._upstream: Upstream | None = None
        self._open: dict[str, asyncio.Queue[dict[str, Any]]] = {}

    async def close(self) -> None:
        """End it, once what has left has ended."""
        if self._upstream is not None:
            await self._upstream.quiet(LAST_S)
            await self._upstream.close()

    async def forward(self, ctx: Any, call_next: Any) -> dict[str, Any]:
        """A middleware of the SDK's server that answers every request itself, as the server behind answers it."""
        params = dict(ctx.params or {})
        try:
            require_exact_names({"params": params})
        except Malformed as error:
            raise MCPError(code=-32602, message=str(error)) from error
        async with self._starting:
            if self._upstream is None or self._upstream.is_gone:
                self._upstream = await Upstream.start(self._behind.command, self._take)
        upstream = self._upstream
        own = upstream.next_id()
        token = meta_of(params).get("progressToken")
        if token is not None:
            params["_meta"] = {**params["_meta"], "progressToken": own}
        said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._open[own] = said
        answering = asyncio.ensure_future(self._answer(ctx, params, upstream, own))
        try:
            while not answering.done() or not said.empty():
                waiting = asyncio.ensure_future(said.get())
                await asyncio.wait({answering, waiting}, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    waiting.cancel()
                    continue
                await self._tell(ctx, waiting.result(), token)
            return answering.result()
        except asyncio.CancelledError:
            answering.cancel()
            raise
        finally:
            self._open.pop(own, None)

    async def _answer(self, ctx: Any, params: dict[str, Any], upstream: Upstream, own: str) -> dict[str, Any]:
        if ctx.method == "tools/call" and self._behind.gateway.is_gated(params):
            live = self._behind.live_call(params, upstream)
            return await self._behind.gateway.call(live, {"request_id": ctx.request_id})
        try:
            result = await upstream.request(ctx.method, params, own=own)
        except RpcError as error:
            raise MCPError(code=error.code, message=str(error), data=error.data) from error
        except UpstreamGone as error:
            raise MCPError(code=-32603, message=str(error)) from error
        except asyncio.CancelledError:
            # The client closed the stream, which is how it cancels; on the server's pipe that is a message.
            cancelled = {"requestId": own, "_meta": envelope_of(params)}
            with suppress(UpstreamGone):
                upstream.send(write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}))
            raise
        return show_tools(result, self._behind.gateway.faces) if ctx.method == "tools/list" else result

    async def _tell(self, ctx: Any, message: dict[str, Any], token: Any) -> None:
        params = dict(params_of(message))
        if "progressToken" in params:
            params["progressToken"] = token
        if _SUBSCRIPTION in meta_of(params):
            params["_meta"] = {**params["_meta"], _SUBSCRIPTION: ctx.request_id}
        notification: Any = _Notification(method=message["method"], params=params)
        await ctx.session.send_notification(notification, related_request_id=ctx.request_id)

    def _take(self, line: bytes, message: Any) -> None:
        """A notification of the server's: progress and subscriptions name their request; others have one only if one is open."""
        if not isinstance(message, dict) or "method" not in message or "id" in message:
            return
        params = params_of(message)
        named = params.get("progressToken") or meta_of(params).get(_SUBSCRIPTION)
        only = next(iter(self._open)) if len(self._open) == 1 else None
        said = self._open.get(str(named if named is not None else only))
        if said is not None:
            said.put_nowait(message)


class _Server(uvicorn.Server):
    """uvicorn's server, which a signal stops and no more: uvicorn's own ends the process by it, before what has left has ended."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        stopping = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self.handle_exit) for number in stopping}
        try:
            yield
        finally:
            for number, handler in before.items():  # so that a second one ends the process at once
                signal.signal(number, handler)


async def serve_http(behind: Behind, place: str) -> int:
    """Serve until a signal ends it.

    Args:
        behind: the server's tools behind the gate.
        place: host and port.

    Returns:
        The exit code.
    """
    host, port = address(place)
    front = HttpFront(behind, security_of(host))
    config = uvicorn.Config(
        front, host=host, port=port, lifespan="off", log_level="warning", timeout_graceful_shutdown=5
    )
    server = _Server(config)
    async with front.running():
        await server.serve()
    return 0 if server.started else 1


def security_of(host: str) -> TransportSecuritySettings:
    """Whom to answer that listens at a host: those who ask for it by one of its own names."""
    loopback = {"localhost", "127.0.0.1", "[::1]"}
    own = f"[{host}]" if ":" in host else host
    names = loopback if own in loopback else {own}
    hosts = [allowed for name in names for allowed in (name, f"{name}:*")]  # a client leaves out port 80
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"http://{allowed}" for allowed in hosts],
    )


def address(place: str) -> tuple[str, int]:
    """Host and port.

    Raises:
        ConfigurationError: it names none.
    """
    host, _, port = place.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError(f"--http {place}: give a host and a port, such as 127.0.0.1:8000.")
    return host.strip("[]"), int(port)


def _each(line: bytes, deliver: Callable[[Any], None]) -> None:
    """Each message of a line. What is no message, such as a server's own `print`, has no place in a stream: it is told, and left out."""
    try:
        message = json.loads(line)
        for one in message if isinstance(message, list) else [message]:
            deliver(one)
    except (ValueError, RecursionError):
        log.warning(
            "the server wrote what is no message of the protocol: %s", line[:200].decode(errors="replace").strip()
        )


def _refused(message: str, status: int, *, code: int = -32600) -> Response:
    error = {"code": code, "message": message}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status_code=status)


def _not_opening(body: bytes) -> Response | None:
    """What is answered to a request without a session that opens none."""
    try:
        message = read(body)
    except Malformed as error:
        return _refused(f"Parse error: {error}", 400, code=-32700)
    if not isinstance(message, dict) or message.get("method") != "initialize":
        return _refused("Bad Request: Missing session ID", 400)
    return None


def _once_more(body: bytes, receive: Receive) -> Receive:
    """What gives a body that was read already, and then what comes after it."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Any:
        return messages.pop() if messages else await receive()

    return give
