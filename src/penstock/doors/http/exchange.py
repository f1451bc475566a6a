"""One request and its reply slot. Handles CORS headers, HEAD and connection close."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from penstock.core.errors import BrokerError
from penstock.core.session import Session
from penstock.doors.http.errors import problem_of
from penstock.doors.http.origins import Origins
from penstock.node.connections.connection import Connection
from penstock.node.connections.reply_slot import ReplySlot
from penstock.wire.http.request import Request
from penstock.wire.http.response import Response, encode_http_response

logger = logging.getLogger("penstock.http")

MS_PER_S = 1000


class Exchange:
    """The context of a handler. `parts` are the path parameters."""

    __slots__ = ("_now_ms", "_origins", "_slot", "connection", "parts", "query", "request")

    def __init__(
        self,
        connection: Connection,
        slot: ReplySlot,
        request: Request,
        origins: Origins,
        now_ms: Callable[[], int],
    ) -> None:
        self.connection = connection
        self.request = request
        self.parts: dict[str, str] = {}
        self.query: dict[str, Any] = {}
        self._slot = slot
        self._origins = origins
        self._now_ms = now_ms

    @property
    def session(self) -> Session:
        return self.connection.session

    def reply(self, response: Response) -> None:
        """Send the response, once."""
        request, connection = self.request, self.connection
        if connection.is_closed:
            return
        headers = self._origins.headers(request)
        if headers:
            response = response._replace(headers=[*response.headers, *headers])
        content = encode_http_response(
            response,
            unix_s=self._now_ms() / MS_PER_S,
            keeps_alive=request.keeps_alive,
            is_head=(is_head := request.method == "HEAD"),
            is_old=request.is_old,
        )
        self._slot.answer((content,) if is_head else (content, *response.pieces))
        if logger.isEnabledFor(logging.DEBUG):
            self._log(response.status)
        if not request.keeps_alive:
            connection.finish()

    def refuse(self, error: BrokerError) -> None:
        self.reply(problem_of(error))

    def settle(self, outcome: Response | Exception | None) -> None:
        """Answer with the outcome of a sliced work; None if it answers by itself."""
        if isinstance(outcome, BrokerError):
            self.refuse(outcome)
        elif isinstance(outcome, Exception):
            self.connection.close(f"defect: {outcome!r}")
        elif outcome is not None:
            self.reply(outcome)

    def _log(self, status: int) -> None:
        fields = {**self.connection.context, "status": status}
        if "topic" in self.parts:
            fields["topic"] = self.parts["topic"]
        logger.debug("%s %s", self.request.method, self.request.path, extra=fields)
