"""One request of the Kafka door.

Connection, session, API version, and how to send the response.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from penstock.core.session import Session
from penstock.node.connections.connection import Connection
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.runtime.slices import Sliced, Slices
from penstock.wire.kafka import KafkaMessage, encode_response, encode_response_sliced


class Call:
    """One request without its body."""

    __slots__ = (
        "_slices",
        "_slot",
        "api_key",
        "connection",
        "correlation_id",
        "on_answered",
        "session",
        "version",
    )

    def __init__(
        self, connection: Connection, api_key: int, version: int, correlation_id: int, session: Session
    ) -> None:
        self.connection = connection
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.session = session
        self._slot: ReplySlot | None = None
        self._slices: Slices | None = None
        self.on_answered: Callable[[], None] | None = None

    def reserve_slot(self, slices: Slices) -> None:
        """Mark the request as large: it reserves its reply slot now, and its response is encoded in slices."""
        self._slices = slices
        if self._slot is None:
            self._slot = self.connection.reserve()

    @property
    def is_large(self) -> bool:
        return self._slices is not None

    def encode(self, body: KafkaMessage) -> list[Any]:
        """Encode the response frame."""
        return encode_response(self.api_key, self.version, self.correlation_id, body)

    def encode_sliced(self, body: KafkaMessage) -> Sliced[list[Any]]:
        """The same in slices."""
        return (yield from encode_response_sliced(self.api_key, self.version, self.correlation_id, body))

    def answer(self, body: KafkaMessage) -> None:
        """Answer now; the reply is sent after those of earlier requests."""
        if self._slot is None:
            self.connection.answer(self.encode(body))
        else:
            self._fill(self._slot, body)

    def answer_later(self) -> Callable[[KafkaMessage], None]:
        """Reserve a reply slot; the returned function answers with the body, once."""
        slot = self._slot = self._slot or self.connection.reserve()

        def answer(body: KafkaMessage) -> None:
            self._fill(slot, body)

        return answer

    def _fill(self, slot: ReplySlot, body: KafkaMessage) -> None:
        if self._slices is None:
            slot.answer(self.encode(body))
            return

        def encoded(pieces: Any) -> None:
            if isinstance(pieces, Exception):
                self.connection.close(f"defect: {pieces!r}")
            else:
                slot.answer(pieces)
            if self.on_answered is not None:
                self.on_answered()

        self._slices.queue(self.encode_sliced(body), encoded)


Answer = KafkaMessage | Coroutine[Any, Any, KafkaMessage | None] | Sliced[KafkaMessage | None] | None
Handler = Callable[[Call, Any], Answer]
"""Takes the decoded request. Returns the response body, a coroutine or sliced work that produces it, or None if it
answers by itself (or not at all)."""
