"""What still has to go out on one connection, in order: bytes, and runs of log files sent without reading them.

On a plain socket it writes by itself (sendmsg, sendfile) and asks the loop only when the socket is full.
Where there is no socket (TLS, simulation) it goes through the transport. Never drops or reorders; counts what
waits, so that a slow reader shows.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

from penstock.core.log.segment import Slice

Plain = bytes | bytearray | memoryview
Piece = Plain | Slice
SENDFILE_TURN_BYTES = 4 << 20
"""How much one connection may send before others get their turn."""
TRANSPORT_CHUNK_BYTES = 1 << 18


class Outbox:
    """Made when the connection is, closed when it is lost."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, on_drained: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._on_drained = on_drained
        self._pieces: deque[Piece] = deque()
        self.waiting_bytes = 0
        self._is_blocked = False
        self._is_closed = False
        self._socket = _own_socket(transport)

    def write(self, pieces: Sequence[Piece]) -> None:
        """Send now what the socket takes; the rest follows by itself."""
        if self._is_closed:
            return
        if (
            not self._pieces
            and self._socket is not None
            and not any(type(piece) is Slice for piece in pieces)
        ):
            self._write_plain(pieces[0] if len(pieces) == 1 else b"".join(cast(Sequence[Plain], pieces)))
            return
        for piece in pieces:
            if isinstance(piece, Slice):
                piece.file.pin()
                self.waiting_bytes += piece.length
            else:
                self.waiting_bytes += len(piece)
            self._pieces.append(piece)
        if not self._is_blocked:
            self._flush()

    def _write_plain(self, piece: Piece) -> None:
        """The common case: short answers, and nothing before them."""
        assert self._socket is not None and not isinstance(piece, Slice)
        assert self._socket is not None
        try:
            sent = self._socket.send(piece)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._transport.abort()
            return
        if sent < len(piece):
            self._pieces.append(memoryview(piece)[sent:])
            self.waiting_bytes = len(piece) - sent
            self._wait()

    def _flush(self) -> None:
        if self._is_closed:
            return
        had_waiting = self._is_blocked
        try:
            finished = self._flush_socket() if self._socket is not None else self._flush_transport()
        except BlockingIOError:
            self._wait()
            return
        except (OSError, asyncio.CancelledError):
            self._transport.abort()
            return
        if not finished:
            self._loop.call_soon(self._flush)
            return
        if had_waiting:
            self._go_on()

    def _flush_socket(self) -> bool:
        """Send until the socket is full (BlockingIOError), all is sent (True) or the turn is over (False)."""
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
        """Gather the plain pieces at the head into one call; say so if a file follows."""
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
            self._pieces[0] = piece.read()
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
        """Hand over to the transport while it takes more; it calls back through `resume` when it has drained."""
        while self._pieces:
            if self._is_blocked:
                return True
            piece = self._pieces.popleft()
            if isinstance(piece, Slice):
                length = min(piece.length, TRANSPORT_CHUNK_BYTES)
                self._transport.write(piece.file.read(piece.position, length))
                self.waiting_bytes -= length
                if length < piece.length:
                    rest = piece._replace(position=piece.position + length, length=piece.length - length)
                    self._pieces.appendleft(rest)
                else:
                    piece.file.unpin()
            else:
                self._transport.write(piece)
                self.waiting_bytes -= len(piece)
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
        if self._socket is not None and self._is_blocked:
            self._is_blocked = False
            self._loop.remove_writer(self._socket.fileno())
            self._on_drained()

    def close(self) -> None:
        """The connection is gone: give everything back."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._socket is not None:
            if self._is_blocked:
                self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
        for piece in self._pieces:
            if isinstance(piece, Slice):
                piece.file.unpin()
        self._pieces.clear()
        self.waiting_bytes = 0


def _own_socket(transport: asyncio.Transport) -> socket.socket | None:
    """A second descriptor of the transport's socket, so that the loop lets us wait on it ourselves."""
    if transport.get_extra_info("sslcontext") is not None:
        return None
    theirs = transport.get_extra_info("socket")
    if theirs is None:
        return None
    own = socket.socket(theirs.family, theirs.type, theirs.proto, fileno=os.dup(theirs.fileno()))
    own.setblocking(False)
    return own
