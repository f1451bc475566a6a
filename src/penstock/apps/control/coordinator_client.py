"""A client of the coordinator's HTTP API, for commands and consoles in other processes. Blocking, and thread-safe.

The token is read from its file for every call, because a coordinator that was restarted has a new one, and is sent
only with commands that need it.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from penstock.apps.control.commands import GUARDED, ConsoleError, FailureKind, parse_command
from penstock.apps.control.console_token import read_token
from penstock.core.model import Address

ANSWER_S_MAX = 5.0
"""For what the coordinator knows. Also the time for a connection."""
COMMAND_S_MAX = 900.0
"""For commands: they return once they have taken effect, and restarting all services takes minutes."""
ANSWER_BYTES_MAX = 64 << 20

Content = dict[str, Any]
_FAILURES = {one.code: one for one in FailureKind}


class NoCoordinator(Exception):
    """No coordinator answers; the message says where it was looked for, and what to do."""


class LineAnswer(NamedTuple):
    """What a line gave."""

    content: Content
    text: str
    leaves: bool

    def json_text(self) -> str:
        return json.dumps(self.content)


class CoordinatorClient:
    """Calls of one coordinator."""

    def __init__(self, api: Address, token_file: Path) -> None:
        self.api = api
        self._token_file = token_file
        self._calls: set[HTTPConnection] = set()

    def status(self, seconds: float = ANSWER_S_MAX) -> Content:
        """All services. Raises NoCoordinator."""
        content = self._call("GET", "/api/v1/status", None, {}, seconds)
        if not isinstance(content.get("services"), list):
            raise self._no_coordinator("its answer lists no services")
        return content

    def run(self, line: str) -> LineAnswer:
        """Run a line of the console. Raises ConsoleError, NoCoordinator and TokenError."""
        headers = {"Content-Type": "application/json"}
        if parse_command(line).verb in GUARDED:
            with suppress(FileNotFoundError):  # a coordinator without a token needs none
                headers["Authorization"] = f"Bearer {read_token(self._token_file)}"
        content = self._call("POST", "/api/v1/console", {"command": line}, headers, COMMAND_S_MAX)
        try:
            return LineAnswer(content["content"], content["text"], content["leaves"])
        except KeyError as error:
            raise self._no_coordinator(f"its answer has no {error}") from error

    def abort(self) -> None:
        """End the calls that other threads wait for."""
        for connection in self._calls.copy():
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def _call(
        self, method: str, path: str, body: Content | None, headers: dict[str, str], seconds: float
    ) -> Content:
        connection = HTTPConnection(self.api.host, self.api.port, timeout=min(seconds, ANSWER_S_MAX))
        self._calls.add(connection)
        try:
            connection.connect()
            assert connection.sock is not None
            connection.sock.settimeout(seconds)
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            content = json.loads(response.read(ANSWER_BYTES_MAX))
        except (OSError, HTTPException, ValueError) as error:
            raise self._no_coordinator(_reason(error)) from error
        finally:
            self._calls.discard(connection)
            connection.close()
        if not isinstance(content, dict):
            raise self._no_coordinator("its answer is not a JSON object")
        if response.status != HTTPStatus.OK:
            raise self._refusal(content, response.status)
        return content

    def _refusal(self, content: Content, status: int) -> Exception:
        kind = _FAILURES.get(str(content.get("code")))
        if kind is None:
            return self._no_coordinator(f"it answers {status}: {content.get('detail', 'no detail')}")
        remedy = str(content.get("what_to_do", ""))
        if kind is FailureKind.NO_TOKEN:
            remedy = (
                f"{self._token_file} has no valid token of it: set the cluster's directory with --data-dir DIR, or"
                " the file with --token-file FILE."
            )
        return ConsoleError(kind, str(content.get("detail", "")), remedy)

    def _no_coordinator(self, reason: str) -> NoCoordinator:
        return NoCoordinator(
            f"No coordinator answers at {self.api}: {reason}. Start one with `penstock cluster up`, or set the address"
            " of its HTTP API with --api HOST:PORT."
        )


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return "it does not speak the coordinator's protocol"
