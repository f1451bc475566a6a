"""The send queue of one connection: bytes, and slices of log files that are sent with sendfile.

On a plain socket it writes directly (sendmsg, sendfile) and uses the loop only when the socket is full. Without a
socket (TLS, simulation) it writes to the transport. Keeps order, drops nothing, and counts the waiting bytes, so that
slow clients are detected.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from penstock.core.errors import BrokerError, TornSegment
from penstock.core.log.segment import Slice

logger = logging.getLogger("penstock.connections")

Plain = bytes | bytearray | memoryview
Piece = Plain | Slice
SENDFILE_TURN_BYTES = 4 << 20
"""Bytes that one connection may send before yielding to others."""
SENDFILE_BYTES_MIN = 1 << 14
"""Smaller slices are read and sent in one call with the pieces around them: cheaper, and the client wakes once."""
TRANSPORT_CHUNK_BYTES = 1 << 18


class Outbox:
    """Created with the connection, closed when it is lost."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        on_drained: Callable[[], None],
        context: Callable[[], dict[str, object]] = dict,
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._on_drained = on_drained
        self._context = context
        self._pieces: deque[Piece] = deque()
        self.waiting_bytes = 0
        self._is_blocked = False
        self._has_turn_due = False
        self._has_left_over = False
        self._is_closed = False
        self._socket = _own_socket(transport)

    def write(self, pieces: Sequence[Piece]) -> None:
        """Send what the socket accepts now; the rest follows. Takes over the pins of the slices."""
        if self._is_closed:
            release(pieces)
            return
        if not self._pieces and self._socket is not None:
            if len(pieces) == 1 and type(pieces[0]) is bytes:
                self._write_plain(pieces[0])
                return
            try:
                pieces = _without_small_slices(pieces)
            except (OSError, BrokerError) as error:
                self._give_up(error)
                return
            if not any(type(piece) is Slice for piece in pieces):
                self._write_plain(pieces[0] if len(pieces) == 1 else b"".join(cast(Sequence[Plain], pieces)))
                return
        for piece in pieces:
            self.waiting_bytes += size_of(piece)
            self._pieces.append(piece)
        if not self._is_blocked and not self._has_turn_due:
            self._flush()
        self._has_left_over = bool(self._pieces)

    def _write_plain(self, piece: Piece) -> None:
        """The common case: a short reply and an empty queue."""
        assert self._socket is not None and not isinstance(piece, Slice)
        try:
            sent = self._socket.send(piece)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._give_up(error)
            return
        if sent < len(piece):
            self._pieces.append(memoryview(piece)[sent:])
            self.waiting_bytes = len(piece) - sent
            self._has_left_over = True
            self._wait()

    def _flush(self) -> None:
        self._has_turn_due = False
        if self._is_closed:
            return
        try:
            finished = self._flush_socket() if self._socket is not None else self._flush_transport()
        except BlockingIOError:
            self._wait()
        except (OSError, BrokerError) as error:
            self._give_up(error)
        else:
            if finished:
                self._go_on()
            elif not self._is_blocked:
                self._has_turn_due = True
                self._loop.call_soon(self._flush)

    def _give_up(self, error: Exception) -> None:
        """Close the connection: nothing can follow a partial reply."""
        if not isinstance(error, ConnectionError):
            logger.error("cannot send reply; closing connection: %s", error, extra=self._context())
        self.close()
        self._transport.abort()

    def _flush_socket(self) -> bool:
        """Send until the socket is full (BlockingIOError), all is sent (True) or the quantum is used up (False)."""
        turn_bytes = SENDFILE_TURN_BYTES
        while self._pieces:
            piece = self._pieces[0]
            sent = self._send_slice(piece) if isinstance(piece, Slice) else self._send_bytes()
            self.waiting_bytes -= sent
            turn_bytes -= sent
            if turn_bytes <= 0 and self._pieces:
                return False
        return True

    def _send_bytes(self) -> int:
        """Send the plain pieces at the head in one call, with MSG_MORE if a file follows."""
        assert self._socket is not None
        head: list[Plain] = []
        for piece in self._pieces:
            if isinstance(piece, Slice) or len(head) == 64:
                break
            head.append(piece)
        flags = socket.MSG_MORE if len(head) < len(self._pieces) else 0
        sent = self._socket.sendmsg(head, (), flags)
        left = sent
        for piece in head:
            if left < len(piece):
                self._pieces[0] = memoryview(piece)[left:]
                break
            left -= len(piece)
            self._pieces.popleft()
        return sent

    def _send_slice(self, piece: Slice) -> int:
        assert self._socket is not None
        handle = piece.file.handle()
        if handle is None:
            self._pieces[0] = _read(piece, piece.length)
            piece.file.unpin()
            return 0
        sent = os.sendfile(self._socket.fileno(), handle, piece.position, piece.length)
        if sent == 0:
            raise OSError(f"{piece.file.path} ended before byte {piece.position + piece.length}")
        if sent == piece.length:
            self._pieces.popleft()
            piece.file.unpin()
        else:
            self._pieces[0] = piece._replace(position=piece.position + sent, length=piece.length - sent)
        return sent

    def _flush_transport(self) -> bool:
        """Write to the transport while it accepts more; it calls `resume` when it has drained."""
        while self._pieces and not self._is_blocked:
            piece = self._pieces[0]
            if isinstance(piece, Slice):
                sent = min(piece.length, TRANSPORT_CHUNK_BYTES)
                self._transport.write(_read(piece, sent))
            else:
                sent = len(piece)
                self._transport.write(piece)
            self.waiting_bytes -= sent
            if isinstance(piece, Slice) and sent < piece.length:
                self._pieces[0] = piece._replace(position=piece.position + sent, length=piece.length - sent)
            else:
                release((self._pieces.popleft(),))
        return True

    def pause(self) -> None:
        """The transport is full."""
        self._is_blocked = True

    def resume(self) -> None:
        """The transport has room again."""
        self._is_blocked = False
        self._flush()
        if not self._is_blocked:
            self._on_drained()

    def _wait(self) -> None:
        if not self._is_blocked and self._socket is not None:
            self._is_blocked = True
            self._loop.add_writer(self._socket.fileno(), self._flush)

    def _go_on(self) -> None:
        if self._socket is None:
            return
        if self._is_blocked:
            self._is_blocked = False
            self._loop.remove_writer(self._socket.fileno())
        if self._has_left_over:
            self._has_left_over = False
            self._on_drained()

    def close(self) -> None:
        """Release all pieces and the socket."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._socket is not None:
            if self._is_blocked:
                self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
        release(self._pieces)
        self._pieces.clear()
        self.waiting_bytes = 0


def size_of(piece: Piece) -> int:
    return piece.length if isinstance(piece, Slice) else len(piece)


def release(pieces: Iterable[Piece]) -> None:
    """Unpin the files of replies that are not sent."""
    for piece in pieces:
        if isinstance(piece, Slice):
            piece.file.unpin()


def _without_small_slices(pieces: Sequence[Piece]) -> Sequence[Piece]:
    """The pieces with small slices read into memory and unpinned: one call instead of three."""
    slices = [piece for piece in pieces if type(piece) is Slice]
    if not slices or sum(piece.length for piece in slices) >= SENDFILE_BYTES_MIN:
        return pieces
    try:
        return [_read(piece, piece.length) if type(piece) is Slice else piece for piece in pieces]
    finally:
        release(slices)


def _read(piece: Slice, length: int) -> bytes:
    content = piece.file.read(piece.position, length)
    if len(content) < length:
        raise TornSegment(f"{piece.file.path} ended before byte {piece.position + length}")
    return content


def _own_socket(transport: asyncio.Transport) -> socket.socket | None:
    """A duplicate descriptor of the transport's socket: the loop allows no add_writer on the original."""
    if transport.get_extra_info("sslcontext") is not None:
        return None
    theirs = transport.get_extra_info("socket")
    if theirs is None:
        return None
    own = socket.socket(theirs.family, theirs.type, theirs.proto, fileno=os.dup(theirs.fileno()))
    own.setblocking(False)
    return own
