"""One request of the JSON door: fields, connection, and how to answer it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from penstock.core.errors import BrokerError
from penstock.core.session import Session
from penstock.doors.json.errors import error_fields
from penstock.node.connections.connection import Connection
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.runtime.slices import Sliced
from penstock.wire.json.fields import Fields
from penstock.wire.json.frames import encode_json, encode_object, frame_pieces
from penstock.wire.json.rows import encode_listing
from penstock.wire.pieces import list_between


class JsonCall:
    """Answered once, with a result or an error; echoes the client's `id`."""

    __slots__ = ("_id", "_on_answered", "_slot", "connection", "fields")

    def __init__(
        self,
        connection: Connection,
        slot: ReplySlot,
        fields: Fields,
        own_id: dict[str, Any],
        on_answered: Callable[[], None] | None = None,
    ) -> None:
        self.connection = connection
        self._on_answered = on_answered
        self.fields = fields
        self._slot = slot
        self._id = own_id

    @property
    def session(self) -> Session:
        return self.connection.session

    def answer(self, content: dict[str, Any]) -> None:
        self._send([encode_object({"ok": True, **self._id, **content})])

    def answer_list(
        self, before: dict[str, Any], name: str, pieces: Sequence[bytes], after: dict[str, Any]
    ) -> None:
        """Answer with a long list of encoded elements."""
        content = list_between(encode_json, {"ok": True, **self._id, **before}, name, pieces, after)
        self._send(frame_pieces(content))

    def answer_rows(
        self, head: dict[str, Any], name: str, rows: Iterable[Any], tail: dict[str, Any] | None = None
    ) -> Sliced[None]:
        """Answer with a long list, in slices."""
        body = yield from encode_listing({"ok": True, **self._id, **head}, name, rows, encode_json, tail)
        self._send(frame_pieces([body]))

    def check(self, outcome: Exception | None) -> None:
        """Handle the outcome of a sliced work: a BrokerError is the answer, a defect closes the connection."""
        if isinstance(outcome, BrokerError):
            self.refuse(outcome)
        elif outcome is not None:
            self.connection.close(f"defect: {outcome!r}")

    def refuse(self, error: BrokerError, content: dict[str, Any] | None = None) -> None:
        answer = {"ok": False, **self._id, **error_fields(error), **(content or {})}
        self._send([encode_object(answer)])

    def _send(self, answer: list[bytes]) -> None:
        if self._on_answered is not None:
            self._on_answered()
        self._slot.answer(answer)


Handler = Callable[[JsonCall], Coroutine[Any, Any, None] | Sliced[None] | None]
"""Answers now or later, or returns a coroutine or sliced work that does. A raised BrokerError is sent as the
answer."""
