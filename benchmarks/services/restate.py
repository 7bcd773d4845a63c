"""Restate's own server as a child process: where it is found, how it starts on free ports, dies by SIGKILL and starts again on its data.

Owns that process, and what is asked of its two doors: invocations at the ingress, the rest at the admin API. Must not know what the
services behind it do. `make restate` installs it; `python -m benchmarks.services.restate --dir DIR` runs one until its input closes.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from benchmarks.harness.server import Server
from benchmarks.harness.suite import CannotRun

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".restate" / "node_modules" / "@restatedev"
MISSING = "Restate's server is not installed; `make restate` installs it (it needs npm)"
START_TIMEOUT_S = 30.0

# As docs.restate.dev/services/configuration names them. A first retry after half a second would be measured as ours; the invocation that
# lost its worker is retried as soon as somebody listens again.
RETRIES = {
    "RESTATE_DEFAULT_RETRY_POLICY__INITIAL_INTERVAL": "50ms",
    "RESTATE_DEFAULT_RETRY_POLICY__EXPONENTIATION_FACTOR": "1.0",
    "RESTATE_DEFAULT_RETRY_POLICY__MAX_INTERVAL": "50ms",
    "RESTATE_DEFAULT_RETRY_POLICY__MAX_ATTEMPTS": "unlimited",
}


class RestateError(RuntimeError):
    """The server did not start, or refused a request; the message says what it said."""


def find_server() -> Path | None:
    """The server's program: what `make restate` installed, else one on the PATH; None if there is none."""
    installed = sorted(PLACE.glob("restate-server-*/bin/restate-server"))
    if installed:
        return installed[0]
    found = shutil.which("restate-server")
    return Path(found) if found else None


class RestateDoors:
    """What is asked of a running server.

    Args:
        ingress: where its invocations come in.
        admin: where it is administered.
    """

    def __init__(self, ingress: str, admin: str) -> None:
        self.ingress = ingress
        self.admin = admin

    def version(self) -> str:
        """Its version, as it says."""
        return str(self._ask(self.admin, "GET", "/version")["version"])

    def register(self, url: str) -> None:
        """Make the services known that are served at `url`; again, too.

        Raises:
            RestateError: nobody serves there, or the server does not take it.
        """
        self._ask(self.admin, "POST", "/deployments", {"uri": url, "force": True})

    def call(
        self,
        path: str,
        body: Any = None,
        *,
        idempotency_key: str = "",
        timeout_s: float = 60.0,
    ) -> tuple[int, Any]:
        """Invoke `service/handler`, or `object/key/handler`, and wait for its result.

        Returns:
            The HTTP status, and the result; of a failure what the ingress says of it.
        """
        headers = {"idempotency-key": idempotency_key} if idempotency_key else {}
        return _request(self.ingress, "POST", f"/{path}", body, headers, timeout_s)

    def send(self, path: str, body: Any = None, *, idempotency_key: str = "") -> str:
        """Invoke it without waiting; returns the invocation's id.

        Raises:
            RestateError: it was not taken.
        """
        headers = {"idempotency-key": idempotency_key} if idempotency_key else {}
        status, told = _request(self.ingress, "POST", f"/{path}/send", body, headers, 30.0)
        if status >= http.client.BAD_REQUEST:
            raise RestateError(f"{path}: {status} {told}")
        return str(told["invocationId"])

    def attach(self, invocation: str, *, timeout_s: float = 60.0) -> tuple[int, Any]:
        """Wait for the result of an invocation: the HTTP status, and the result."""
        return _request(self.ingress, "GET", f"/restate/invocation/{invocation}/attach", None, {}, timeout_s)

    def attach_workflow(self, name: str, key: str, *, timeout_s: float = 60.0) -> tuple[int, Any]:
        """Wait for the result of a workflow: the HTTP status, and the result."""
        return _request(self.ingress, "GET", f"/restate/workflow/{name}/{key}/attach", None, {}, timeout_s)

    def status(self, invocation: str) -> str:
        """What an invocation does: `running`, `suspended`, `backing-off`, `completed` and others; empty if it is not known."""
        rows = self.query(f"select status from sys_invocation where id = '{invocation}'")
        return str(rows[0]["status"]) if rows else ""

    def resolve(self, awakeable: str, value: Any) -> None:
        """Give an awakeable its value; one that has a value keeps it."""
        self._ask(self.ingress, "POST", f"/restate/awakeables/{awakeable}/resolve", value)

    def cancel(self, invocation: str) -> None:
        """Ask an invocation to stop: its next wait ends with a terminal error."""
        self._ask(self.admin, "PATCH", f"/invocations/{invocation}/cancel")

    def steer(self, invocation: str, what: Literal["kill", "pause", "resume"]) -> None:
        """End an invocation at once, without its handler; or let it rest, and go on."""
        self._ask(self.admin, "PATCH", f"/invocations/{invocation}/{what}")

    def restart(self, invocation: str) -> str:
        """Run a completed invocation anew from its input; returns the new one's id."""
        told = self._ask(self.admin, "PATCH", f"/invocations/{invocation}/restart-as-new")
        return str(told["new_invocation_id"])

    def query(self, statement: str) -> list[dict[str, Any]]:
        """Rows of its introspection tables (`sys_invocation`, `sys_journal`, ...)."""
        headers = {"accept": "application/json"}
        status, told = _request(self.admin, "POST", "/query", {"query": statement}, headers, 10.0)
        if status >= http.client.BAD_REQUEST:
            raise RestateError(f"{statement}: {status} {told}")
        return list(told["rows"])

    def _ask(self, door: str, method: str, path: str, body: Any = None) -> Any:
        status, told = _request(door, method, path, body, {}, 30.0)
        if status >= http.client.BAD_REQUEST:
            raise RestateError(f"{method} {path}: {status} {told}")
        return told

    def _is_up(self, door: str, path: str) -> bool:
        try:
            return _request(door, "GET", path, None, {}, 2.0)[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False


class RestateServer(RestateDoors):
    """A server with its data in `directory`, on ports of its own. Used with `with`.

    Args:
        directory: made if it is not there; a server started on it again goes on where it stopped.
        settings: more of its configuration, as environment variables.

    **If the process dies** that made it: the server is ended.
    """

    def __init__(self, directory: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self._settings = dict(settings or {})
        self._ports = free_ports(3)
        self._server: Server | None = None
        super().__init__(f"http://127.0.0.1:{self._ports[0]}", f"http://127.0.0.1:{self._ports[1]}")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, and wait until both its doors are open.

        Raises:
            RestateError: it is not installed, or did not come up in time.
        """
        program = find_server()
        if program is None:
            raise RestateError(MISSING)
        self.directory.mkdir(parents=True, exist_ok=True)
        ingress, admin, fabric = self._ports
        env = {
            **os.environ,
            **RETRIES,
            "DO_NOT_TRACK": "1",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_INGRESS__BIND_PORT": str(ingress),
            "RESTATE_ADMIN__BIND_PORT": str(admin),
            "TMPDIR": str(self.directory),
            **self._settings,
        }
        options = f"--no-logo --listen-mode tcp --bind-ip 127.0.0.1 --bind-port {fabric} --node-name local --default-num-partitions 2"
        command = [str(program), *options.split(), "--base-dir", str(self.directory / "data")]
        log = self.directory / "server.log"
        self._server = Server(command, cwd=self.directory, env=env, log=log)
        try:
            self._server.wait_ready(self._is_ready, within_s=START_TIMEOUT_S)
        except CannotRun as error:
            raise RestateError(f"{error}; it says:\n{log.read_text('utf-8')[-2000:]}") from error

    def kill(self) -> None:
        """SIGKILL it, and wait until it is gone; `start` goes on with its data."""
        if self._server is not None:
            self._server.close()

    def _is_ready(self) -> bool:
        return self._is_up(self.admin, "/health") and self._is_up(self.ingress, "/restate/health")


def _request(
    door: str, method: str, path: str, body: Any, headers: Mapping[str, str], timeout_s: float
) -> tuple[int, Any]:
    address = urlsplit(door)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=timeout_s)
    try:
        sent = None if body is None else json.dumps(body)
        more = {} if body is None else {"content-type": "application/json"}
        connection.request(method, path, body=sent, headers={**more, **headers})
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    try:
        return answer.status, json.loads(text) if text else None
    except ValueError:
        return answer.status, text


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now; they differ."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()


def main() -> int:
    """Run a server until standard input closes; prints its doors as one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.services.restate", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="where its data is kept; start again on it to go on")
    asked = parser.parse_args()
    try:
        with RestateServer(asked.dir) as server:
            print(json.dumps({"ingress": server.ingress, "admin": server.admin}), flush=True)
            sys.stdin.read()
    except RestateError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
