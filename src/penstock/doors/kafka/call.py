"""One request as its handler sees it.

Who asks, in which version, and how the answer goes back. Never touches the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from penstock.node.connections.connection import Connection
from penstock.wire.kafka import encode_response


class Call:
    """Everything about one request but its body."""

    __slots__ = ("api_key", "client_id", "connection", "correlation_id", "version")

    def __init__(
        self, connection: Connection, api_key: int, version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.connection = connection
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id

    def encode(self, body: Any) -> list[Any]:
        """The whole frame of the answer."""
        return encode_response(self.api_key, self.version, self.correlation_id, body)

    def answer(self, body: Any) -> None:
        """Answer now, in line behind the requests before this one."""
        self.connection.answer(self.encode(body))

    def answer_later(self) -> Callable[[Any], None]:
        """Take a place in line and answer when the returned function is called with the body, once."""
        place = self.connection.reserve()

        def answer(body: Any) -> None:
            place.answer(self.encode(body))

        return answer


Handler = Callable[[Call, Any], Any | Coroutine[Any, Any, Any] | None]
"""Returns the body of the answer, a coroutine that will, or None when it answers by itself (or not at all)."""
