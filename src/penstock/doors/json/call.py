"""One request of the JSON door as its handler sees it: fields, client, answer. Never does its work."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from penstock.core.errors import BrokerError
from penstock.doors.json.errors import error_fields
from penstock.node.connections.connection import Connection
from penstock.node.connections.place import Place
from penstock.node.slices import Sliced
from penstock.wire.json.fields import Fields
from penstock.wire.json.frames import encode_object, encode_value, frame_of
from penstock.wire.json.rows import encode_rows


class Call:
    """Answered once, with what was found or with an error; the client's own `id` goes back with it."""

    __slots__ = ("_id", "_on_answered", "_place", "connection", "fields")

    def __init__(
        self,
        connection: Connection,
        place: Place,
        fields: Fields,
        own_id: dict[str, Any],
        on_answered: Callable[[], None] | None = None,
    ) -> None:
        self.connection = connection
        self._on_answered = on_answered
        self.fields = fields
        self._place = place
        self._id = own_id

    def answer(self, content: dict[str, Any]) -> None:
        self._send({"ok": True, **self._id, **content})

    def answer_rows(
        self, head: dict[str, Any], name: str, rows: Iterable[Any], tail: dict[str, Any] | None = None
    ) -> Sliced[None]:
        """Answer with a long list, in slices."""
        body = yield from encode_rows({"ok": True, **self._id, **head}, name, rows, encode_value, tail)
        self._fill(frame_of(body))

    def check(self, outcome: Exception | None) -> None:
        """What a sliced work has come to: its error is the answer, a defect the end."""
        if isinstance(outcome, BrokerError):
            self.refuse(outcome)
        elif outcome is not None:
            self.connection.close(f"defect: {outcome!r}")

    def refuse(self, error: BrokerError, content: dict[str, Any] | None = None) -> None:
        self._send({"ok": False, **self._id, **error_fields(error), **(content or {})})

    def _send(self, answer: dict[str, Any]) -> None:
        self._fill(encode_object(answer))

    def _fill(self, frame: bytes) -> None:
        if self._on_answered is not None:
            self._on_answered()
        self._place.answer((frame,))


Handler = Callable[[Call], Coroutine[Any, Any, None] | Sliced[None] | None]
"""Answers now or later, or is a coroutine or a sliced work that will. BrokerError is answered for it."""
