"""The slot of one request's reply in its connection's line. The connection decides when the request starts and the
reply leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Protocol

from penstock.node.connections.outbox import Piece
from penstock.node.runtime.meters import Histogram


class SlotOwner(Protocol):
    """The part of the connection that a slot uses."""

    timing: Histogram | None
    arrived_s: float

    def retain(self, pieces: Sequence[Piece]) -> bool: ...

    def advance(self) -> None: ...

    def send_unordered(self, pieces: Sequence[Piece]) -> None: ...


class ReplySlot:
    """The reply of one request, in request order."""

    __slots__ = ("_begin", "_connection", "_started_s", "_timing", "is_exclusive", "pieces")

    def __init__(
        self,
        connection: SlotOwner,
        begin: Callable[[ReplySlot], None] | None = None,
        *,
        is_exclusive: bool = False,
    ) -> None:
        self._connection = connection
        self._begin = begin
        self.is_exclusive = is_exclusive
        self._timing = connection.timing
        self._started_s = connection.arrived_s
        self.pieces: Sequence[Piece] | None = None

    def begin(self) -> None:
        """Start the request, once."""
        begin, self._begin = self._begin, None
        assert begin is not None, "started twice"
        begin(self)

    def answer(self, pieces: Sequence[Piece]) -> None:
        """Fill the slot, once."""
        assert self.pieces is None, "answered twice"
        if self._connection.retain(pieces):
            if self._timing is not None:
                self._timing.observe(perf_counter() - self._started_s)
            self.pieces = pieces
            self._connection.advance()


class UnorderedSlot(ReplySlot):
    """The reply of a request on a connection whose replies may come in any order: it waits for no other one."""

    __slots__ = ()

    def answer(self, pieces: Sequence[Piece]) -> None:
        assert self.pieces is None, "answered twice"
        self.pieces = pieces
        if self._connection.retain(pieces):
            if self._timing is not None:
                self._timing.observe(perf_counter() - self._started_s)
            self._connection.send_unordered(pieces)
