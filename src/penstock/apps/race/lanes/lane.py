"""What every lane can do, so that one row runs over all of them. Never knows which broker is behind it."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from penstock.apps.measuring.loader import UnexpectedAnswer, no_collector
from penstock.apps.race.lanes.pace import Pace

Address = tuple[str, int]
RECEIVE_BYTES = 1 << 20
STALL_S_MAX = 45.0
"""A lap in which nothing comes for so long is over."""
BURST_MAX = 64
"""Messages that are due at the same moment go out together, up to so many."""


class Load(NamedTuple):
    """Bytes that are sent again and again, and how many messages lie in them."""

    content: bytes
    messages: int


class Counter(Protocol):
    """Counts what comes back: acknowledgements, or messages. May send what the protocol wants in between."""

    def take(self, received: memoryview) -> int:
        """How many more there are after these bytes."""
        ...


class Feed(Protocol):
    """A connection that writes."""

    @property
    def link(self) -> Link: ...

    def load(self, messages: int) -> Load:
        """So many messages as one piece of bytes; called off the clock."""
        ...

    @property
    def acks(self) -> Counter: ...


class Tail(Protocol):
    """A connection that reads what is there and what comes."""

    @property
    def link(self) -> Link: ...

    def start(self) -> None:
        """Ask for messages from where the reader stands; called once, before the clock."""
        ...

    @property
    def messages(self) -> Counter: ...


class WriteLane(Protocol):
    """One server's way to write messages of one size."""

    def make_stream(self) -> None:
        """Make the stream, topic or queue; nothing was there before."""
        ...

    def drop_stream(self) -> None:
        """Delete it and what it holds, so that the next lap finds an empty server."""
        ...

    def feed(self) -> Feed: ...


class Lane(WriteLane, Protocol):
    """The same, and a way to read them as a stream."""

    def tail(self, *, from_start: bool) -> Tail: ...


class WorkLane(WriteLane, Protocol):
    """The same, and workers that share the messages and acknowledge each."""

    def make_group(self) -> None:
        """What the workers belong to; called after the messages are there."""
        ...

    def worker(self, number: int, window: int) -> Tail:
        """One worker that takes up to `window` messages before it waits; it counts those it has acknowledged."""
        ...


class Link:
    """One socket that never waits longer than it should."""

    def __init__(self, address: Address) -> None:
        self.socket = socket.create_connection(address, timeout=STALL_S_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(RECEIVE_BYTES)
        self._view = memoryview(self._buffer)

    def send(self, content: bytes | bytearray | memoryview) -> None:
        self.socket.sendall(content)

    def receive(self) -> memoryview:
        """What has come, at least a byte; valid until the next call."""
        count = self.socket.recv_into(self._buffer)
        if not count:
            raise UnexpectedAnswer("the connection ended in the middle of a row")
        return self._view[:count]

    def read_line(self) -> bytes:
        """Up to a line end, byte by byte: for the first words of a connection only."""
        line = b""
        while not line.endswith(b"\r\n"):
            line += self.read(1)
        return line[:-2]

    def read(self, count: int) -> bytes:
        content = b""
        while len(content) < count:
            more = self.socket.recv(count - len(content))
            if not more:
                raise UnexpectedAnswer("the connection ended in the middle of an answer")
            content += more
        return content

    def close(self) -> None:
        self.socket.close()


def ingest_rate(feed: Feed, load: Load, count: int, in_flight: int) -> float:
    """Messages a second in the quickest piece of `count` acknowledged ones, at most `in_flight` of them open."""
    assert count % load.messages == 0 and in_flight >= load.messages
    link, acks = feed.link, feed.acks
    content = load.content
    sent = acked = 0
    with no_collector():
        pace = Pace(count)
        while acked < count:
            while sent < count and sent - acked + load.messages <= in_flight:
                link.send(content)
                sent += load.messages
            acked += acks.take(link.receive())
            pace.reached(acked)
        return pace.best_rate


def ack_times_us(feed: Feed, count: int) -> list[float]:
    """One message in flight: from send to its acknowledgement."""
    link, acks = feed.link, feed.acks
    content = feed.load(1).content
    times_us: list[float] = []
    with no_collector():
        for _ in range(count):
            start_ns = time.perf_counter_ns()
            link.send(content)
            acked = 0
            while not acked:
                acked = acks.take(link.receive())
            times_us.append((time.perf_counter_ns() - start_ns) / 1000)
    return times_us


def replay_rate(tail: Tail, count: int) -> float:
    """Messages a second in the quickest piece of `count` that come."""
    link, messages = tail.link, tail.messages
    seen = 0
    with no_collector():
        pace = Pace(count)
        tail.start()
        while seen < count:
            seen += messages.take(link.receive())
            pace.reached(seen)
        return pace.best_rate


def _ready(selector: selectors.BaseSelector) -> list[tuple[selectors.SelectorKey, int]]:
    """Who has something to be read; waits for it, but not for ever."""
    found = selector.select(STALL_S_MAX)
    if not found:
        raise UnexpectedAnswer(f"nothing came for {STALL_S_MAX:.0f} s")
    return found


def fan_out_rate(feed: Feed, tails: Sequence[Tail], load: Load, count: int, in_flight: int) -> float:
    """Messages a second that every tail has seen, in the quickest piece of `count` written meanwhile."""
    seen = [0] * len(tails)
    acked = sent = 0
    with selectors.DefaultSelector() as selector, no_collector():
        selector.register(feed.link.socket, selectors.EVENT_READ, None)
        for at, tail in enumerate(tails):
            tail.start()
            selector.register(tail.link.socket, selectors.EVENT_READ, at)
        pace = Pace(count)
        while min(seen) < count:
            while sent < count and sent - min(acked, min(seen)) + load.messages <= in_flight:
                feed.link.send(load.content)
                sent += load.messages
            for key, _ in _ready(selector):
                if key.data is None:
                    acked += feed.acks.take(feed.link.receive())
                else:
                    tail = tails[key.data]
                    seen[key.data] += tail.messages.take(tail.link.receive())
            pace.reached(min(seen))
        return pace.best_rate


def work_rate(workers: Sequence[Tail], count: int) -> float:
    """Messages a second that the workers acknowledge together, in the quickest piece of `count`."""
    done = 0
    with selectors.DefaultSelector() as selector, no_collector():
        for worker in workers:
            selector.register(worker.link.socket, selectors.EVENT_READ, worker)
        pace = Pace(count)
        for worker in workers:
            worker.start()
        while done < count:
            for key, _ in _ready(selector):
                done += key.data.messages.take(key.data.link.receive())
            pace.reached(done)
        return pace.best_rate


def end_to_end_us(feed: Feed, tail: Tail, count: int, rate: float) -> list[float]:
    """Each message's time from when it was due, at a fixed rate, until the tail had it. One stream keeps its order,
    so the n-th message that comes is the n-th that was due."""
    loads = {n: feed.load(n).content for n in range(1, BURST_MAX + 1)}
    times_us: list[float] = []
    sent = 0
    step_ns = 1e9 / rate
    with selectors.DefaultSelector() as selector, no_collector():
        selector.register(feed.link.socket, selectors.EVENT_READ, None)
        selector.register(tail.link.socket, selectors.EVENT_READ, tail)
        tail.start()
        start_ns = time.perf_counter_ns()
        while len(times_us) < count:
            now_ns = time.perf_counter_ns()
            due = min(count, int((now_ns - start_ns) / step_ns) + 1) - sent
            if due > 0:
                burst = min(due, BURST_MAX)
                feed.link.send(loads[burst])
                sent += burst
            wait_s = (
                0.0
                if due > BURST_MAX
                else max(0.0, (start_ns + sent * step_ns - time.perf_counter_ns()) / 1e9)
            )
            for key, _ in selector.select(wait_s) if sent < count else _ready(selector):
                if key.data is None:
                    feed.acks.take(feed.link.receive())
                    continue
                came = tail.messages.take(tail.link.receive())
                now_ns = time.perf_counter_ns()
                first = len(times_us)
                times_us += [(now_ns - start_ns - (first + n) * step_ns) / 1000 for n in range(came)]
    return times_us
