"""One end of a simulated TCP connection, as protocols expect it. Never decides how the network behaves."""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from sim.hosts import Host
from sim.pipe import Item, Pipe, Signal

if TYPE_CHECKING:
    from sim.net import SimNet

Address = tuple[str, int]

WRITE_HIGH_BYTES = 64 * 1024
"""asyncio's own default for the write buffer."""


WRITABLE = (bytes, bytearray, memoryview)


class SimTransport(asyncio.Transport):
    """Buffers what is written, hands what arrives to the protocol on its own host, one event per step."""

    def __init__(
        self, net: SimNet, host: Host, context: Context, sockname: Address, peername: Address
    ) -> None:
        super().__init__({"sockname": sockname, "peername": peername})
        self._net = net
        self.host = host
        self._context = context
        self._protocol: asyncio.BaseProtocol | None = None
        self._events: deque[Callable[[], None]] = deque()
        self._unread: deque[Item] = deque()
        self.unread_bytes = 0
        self._out = bytearray()
        self._high_bytes, self._low_bytes = WRITE_HIGH_BYTES, WRITE_HIGH_BYTES // 4
        self._scheduled = self._reading_paused = self._writing_paused = False
        self._eof_wanted = self._eof_sent = self._closing = self._lost = False
        self.peer: SimTransport
        self.pipe: Pipe[Item]

    def link(self, peer: SimTransport) -> None:
        self.peer = peer
        self.pipe = Pipe(self._net, self.host, peer.host, peer.receive)

    # ---- events for the protocol

    def accept(self, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        """The listening side: build the protocol later, on its own host."""
        self._post(lambda: self.start(factory()))

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    def receive(self, item: Item) -> None:
        """The network hands over what arrived. A dead or closed end answers bytes with a reset."""
        if self._lost or not self.host.alive:
            if isinstance(item, bytes):
                self.pipe.send(Signal.RESET)
        elif item is Signal.RESET:
            self._lose(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))
        elif not self._closing:
            self._unread.append(item)
            self.unread_bytes += len(item) if isinstance(item, bytes) else 0
            self._schedule()

    def farewell(self, signal: Signal | None) -> None:
        """The host died: what the network did not have yet is lost; the peer gets the signal, or nothing."""
        self._lost = True
        self._out.clear()
        if signal is not Signal.EOF:
            self.pipe.lose_some()
        if signal is Signal.RESET or (signal is Signal.EOF and not self._eof_sent):
            self.pipe.send(signal)

    def _post(self, event: Callable[[], None]) -> None:
        self._events.append(event)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and (self._events or (self._unread and not self._reading_paused)):
            self._scheduled = True
            self._net.loop.call_soon(self._handle_one, context=self._context)

    def _handle_one(self) -> None:
        self._scheduled = False
        if self._events:
            self._events.popleft()()
        elif self._unread and not self._reading_paused:
            self._hand_over(self._unread.popleft())
            if self.peer.is_pending:
                self.peer.pump()
        if self._events or self._unread:
            self._schedule()

    def _hand_over(self, item: Item) -> None:
        protocol = self._protocol
        if isinstance(item, Signal):
            assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
            if not protocol.eof_received():
                self.close()
            return
        data = self._coalesce(item) if self._unread else item
        if isinstance(protocol, asyncio.BufferedProtocol):
            self._fill_buffer(protocol, data)
        else:
            assert isinstance(protocol, asyncio.Protocol)
            self.unread_bytes -= len(data)
            protocol.data_received(data)

    def _coalesce(self, first: bytes) -> bytes:
        """One read may return several segments: sometimes take all that lies there."""
        if self._net.chance.random() < 0.5:
            return first
        parts = [first]
        while self._unread and isinstance(following := self._unread[0], bytes):
            parts.append(following)
            self._unread.popleft()
        return b"".join(parts)

    def _fill_buffer(self, protocol: asyncio.BufferedProtocol, data: bytes) -> None:
        buffer = memoryview(protocol.get_buffer(-1))
        if not len(buffer):
            raise RuntimeError("get_buffer() returned an empty buffer")
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        if count < len(data):
            self._unread.appendleft(data[count:])
        self.unread_bytes -= count
        protocol.buffer_updated(count)

    # ---- writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not isinstance(data, WRITABLE):
            raise TypeError(f"data must be bytes-like, not {type(data).__name__}")
        if self._eof_wanted and not self._closing:
            raise RuntimeError("cannot write after write_eof()")
        if self._closing or self._lost:
            return
        self._out += data
        self.pump()
        if not self._writing_paused and len(self._out) > self._high_bytes:
            self._writing_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    @property
    def is_pending(self) -> bool:
        """Whether `pump` may have something to do."""
        return bool(self._out) or self._eof_wanted or self._writing_paused

    def pump(self) -> None:
        """Move written bytes into the network as far as the peer's window allows."""
        if self._lost or not self.host.alive:
            return
        out, net, pipe = self._out, self._net, self.pipe
        while out:
            room = net.knobs.window_bytes - pipe.under_way_bytes - self.peer.unread_bytes
            count = min(room, len(out), net.segment_bytes())
            if count <= 0:
                break
            pipe.send(bytes(out) if count == len(out) else bytes(out[:count]))
            del out[:count]
        if self._writing_paused and len(self._out) <= self._low_bytes:
            self._writing_paused = False
            self._post(self._resume_writing)
        if not self._out and self._eof_wanted and not self._eof_sent:
            self._eof_sent = True
            self.pipe.send(Signal.EOF)
        if not self._out and self._closing:
            self._lose(None)

    def _resume_writing(self) -> None:
        if not self._lost and self._protocol is not None:
            self._protocol.resume_writing()

    def write_eof(self) -> None:
        if not self._closing:
            self._eof_wanted = True
            self.pump()

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return len(self._out)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = WRITE_HIGH_BYTES if low is None else 4 * low
        low = high // 4 if low is None else low
        if not high >= low >= 0:
            raise ValueError(f"high ({high}) must be >= low ({low}) must be >= 0")
        self._high_bytes, self._low_bytes = high, low

    # ---- ending

    def close(self) -> None:
        """Send what is buffered, then end; what arrives from now on is dropped."""
        if self._closing or self._lost:
            return
        self._closing = self._eof_wanted = True
        self._drop_unread()
        self.pump()

    def abort(self) -> None:
        """End at once; the peer sees a reset."""
        if not self._lost:
            self.pipe.send(Signal.RESET)
            self._lose(None)

    def reset(self) -> None:
        """The network breaks the connection under this end."""
        if self.host.alive:
            self._lose(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._out.clear()
        self._drop_unread()
        self._net.forget(self)
        self._post(lambda: self._tell_lost(error))

    def _tell_lost(self, error: Exception | None) -> None:
        assert self._protocol is not None
        self._protocol.connection_lost(error)

    def _drop_unread(self) -> None:
        self._unread.clear()
        self.unread_bytes = 0

    # ---- reading and asking

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self._schedule()

    def is_reading(self) -> bool:
        return not self._reading_paused and not self._closing

    def is_closing(self) -> bool:
        return self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """`sockname` and `peername`; there is no socket behind, so `socket` is the default, None."""
        return super().get_extra_info(name, default)
