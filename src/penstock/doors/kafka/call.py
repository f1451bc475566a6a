"""One request as its handler sees it.

Who asks, in which version, and how the answer goes back. Never touches the broker.
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
    """Everything about one request but its body."""

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
        """This request is large: it stands in line from now on, and its answer is encoded in slices."""
        self._slices = slices
        if self._slot is None:
            self._slot = self.connection.reserve()

    @property
    def is_large(self) -> bool:
        return self._slices is not None

    def encode(self, body: KafkaMessage) -> list[Any]:
        """The whole frame of the answer."""
        return encode_response(self.api_key, self.version, self.correlation_id, body)

    def answer(self, body: KafkaMessage) -> None:
        """Answer now, in line behind the requests before this one."""
        if self._slot is None:
            self.connection.answer(self.encode(body))
        else:
            self._fill(self._slot, body)

    def answer_later(self) -> Callable[[KafkaMessage], None]:
        """Take a place in line and answer when the returned function is called with the body, once."""
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

        steps = encode_response_sliced(self.api_key, self.version, self.correlation_id, body)
        self._slices.queue(steps, encoded)


Answer = KafkaMessage | Coroutine[Any, Any, KafkaMessage | None] | Sliced[KafkaMessage | None] | None
Handler = Callable[[Call, Any], Answer]
"""Takes the request of its API, as `dispatch` decoded it. Returns the body of the answer, a coroutine or a sliced work
that will, or None when it answers by itself (or not at all)."""
