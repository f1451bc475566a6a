"""The interface of all drivers, and the measurements that run over it. Knows no broker and no protocol."""

from __future__ import annotations

import selectors
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from penstock.apps.bench.harness.link import STALL_S_MAX, Link, UnexpectedResponse, gc_disabled
from penstock.apps.bench.harness.windows import WindowRate

BURST_MAX = 64
"""At a fixed rate, up to this many messages that are due at the same time are sent together."""


class Load(NamedTuple):
    """Bytes that are sent repeatedly, and how many messages they contain."""

    content: bytes
    messages: int


class ReplyCounter(Protocol):
    """Counts received acknowledgements or messages, and sends what the protocol requires in reply."""

    def take(self, received: memoryview) -> int:
        """How many were completed by these bytes."""
        ...


class WriteConnection(Protocol):
    """A connection that writes messages and counts their acknowledgements."""

    @property
    def link(self) -> Link: ...

    def load(self, messages: int) -> Load:
        """Encode `messages` messages; called while the clock is stopped."""
        ...

    @property
    def acks(self) -> ReplyCounter: ...


class ReadConnection(Protocol):
    """A connection that reads existing and new messages."""

    @property
    def link(self) -> Link: ...

    def start(self) -> None:
        """Request the first messages; called once, before the clock starts."""
        ...

    @property
    def messages(self) -> ReplyCounter: ...


class WriteDriver(Protocol):
    """Writes messages of one size to one stream, topic or queue."""

    def create_stream(self) -> None:
        """Create the stream, topic or queue."""
        ...

    def delete_stream(self) -> None:
        """Delete it with its messages, so that the next run gets an empty server."""
        ...

    def writer(self) -> WriteConnection: ...


class StreamDriver(WriteDriver, Protocol):
    """Also reads the messages as a stream."""

    def reader(self, *, from_start: bool) -> ReadConnection: ...


class WorkDriver(WriteDriver, Protocol):
    """Also has workers that share the messages and acknowledge each of them."""

    def create_group(self) -> None:
        """Create what the workers are members of; called after the messages were written."""
        ...

    def worker(self, number: int, window: int) -> ReadConnection:
        """A worker with up to `window` unacknowledged messages; counts those it has acknowledged."""
        ...


def ingest_rate(writer: WriteConnection, load: Load, count: int, in_flight: int) -> float:
    """Acknowledged messages per second in the fastest window of `count`, with at most `in_flight` unacknowledged."""
    assert count % load.messages == 0 and in_flight >= load.messages
    link, acks = writer.link, writer.acks
    content = load.content
    sent = acked = 0
    with gc_disabled():
        window = WindowRate(count)
        while acked < count:
            while sent < count and sent - acked + load.messages <= in_flight:
                link.send(content)
                sent += load.messages
            acked += acks.take(link.receive())
            window.reached(acked)
        return window.best


def spread_ingest_rate(
    writers: Sequence[WriteConnection], loads: Sequence[Load], count: int, in_flight: int
) -> float:
    """Acknowledged messages per second in the fastest window of `count`, which all writers send together.

    Each of them has at most `in_flight` unacknowledged messages, and sends its own load.
    """
    flying = [0] * len(writers)
    sent = acked = 0
    with selectors.DefaultSelector() as selector, gc_disabled():
        for at, writer in enumerate(writers):
            selector.register(writer.link.socket, selectors.EVENT_READ, at)
        window = WindowRate(count)
        ready = list(range(len(writers)))
        while acked < count:
            for at in ready:
                load = loads[at]
                while sent < count and flying[at] + load.messages <= in_flight:
                    writers[at].link.send(load.content)
                    flying[at] += load.messages
                    sent += load.messages
            ready = [key.data for key, _ in _ready(selector)]
            for at in ready:
                done = writers[at].acks.take(writers[at].link.receive())
                flying[at] -= done
                acked += done
            window.reached(acked)
        return window.best


def ack_times_us(writer: WriteConnection, count: int) -> list[float]:
    """Time from send to acknowledgement of each message, with one message in flight."""
    link, acks = writer.link, writer.acks
    content = writer.load(1).content
    times_us: list[float] = []
    with gc_disabled():
        for _ in range(count):
            start_ns = time.perf_counter_ns()
            link.send(content)
            acked = 0
            while not acked:
                acked = acks.take(link.receive())
            times_us.append((time.perf_counter_ns() - start_ns) / 1000)
    return times_us


def replay_rate(reader: ReadConnection, count: int) -> float:
    """Messages received per second in the fastest window of `count`."""
    link, messages = reader.link, reader.messages
    seen = 0
    with gc_disabled():
        window = WindowRate(count)
        reader.start()
        while seen < count:
            seen += messages.take(link.receive())
            window.reached(seen)
        return window.best


def _ready(selector: selectors.BaseSelector) -> list[tuple[selectors.SelectorKey, int]]:
    """Wait for readable sockets. Raises UnexpectedResponse after STALL_S_MAX."""
    found = selector.select(STALL_S_MAX)
    if not found:
        raise UnexpectedResponse(f"nothing received for {STALL_S_MAX:.0f} s")
    return found


def fan_out_rate(
    writer: WriteConnection, readers: Sequence[ReadConnection], load: Load, count: int, in_flight: int
) -> float:
    """Messages per second received by every reader, in the fastest window of `count` that are written meanwhile."""
    seen = [0] * len(readers)
    acked = sent = 0
    with selectors.DefaultSelector() as selector, gc_disabled():
        selector.register(writer.link.socket, selectors.EVENT_READ, None)
        for at, reader in enumerate(readers):
            reader.start()
            selector.register(reader.link.socket, selectors.EVENT_READ, at)
        window = WindowRate(count)
        while min(seen) < count:
            while sent < count and sent - min(acked, min(seen)) + load.messages <= in_flight:
                writer.link.send(load.content)
                sent += load.messages
            for key, _ in _ready(selector):
                if key.data is None:
                    acked += writer.acks.take(writer.link.receive())
                else:
                    reader = readers[key.data]
                    seen[key.data] += reader.messages.take(reader.link.receive())
            window.reached(min(seen))
        return window.best


def work_rate(workers: Sequence[ReadConnection], count: int) -> float:
    """Messages per second that all workers acknowledge together, in the fastest window of `count`."""
    done = 0
    with selectors.DefaultSelector() as selector, gc_disabled():
        for worker in workers:
            selector.register(worker.link.socket, selectors.EVENT_READ, worker)
        window = WindowRate(count)
        for worker in workers:
            worker.start()
        while done < count:
            for key, _ in _ready(selector):
                done += key.data.messages.take(key.data.link.receive())
            window.reached(done)
        return window.best


def end_to_end_us(writer: WriteConnection, reader: ReadConnection, count: int, rate: float) -> list[float]:
    """Time of each message from when it was due, at a fixed rate, until the reader received it.

    A stream keeps its order, so the n-th message received is the n-th that was due.
    """
    loads = {n: writer.load(n).content for n in range(1, BURST_MAX + 1)}
    times_us: list[float] = []
    sent = 0
    step_ns = 1e9 / rate
    with selectors.DefaultSelector() as selector, gc_disabled():
        selector.register(writer.link.socket, selectors.EVENT_READ, None)
        selector.register(reader.link.socket, selectors.EVENT_READ, reader)
        reader.start()
        start_ns = time.perf_counter_ns()
        while len(times_us) < count:
            now_ns = time.perf_counter_ns()
            due = min(count, int((now_ns - start_ns) / step_ns) + 1) - sent
            if due > 0:
                burst = min(due, BURST_MAX)
                writer.link.send(loads[burst])
                sent += burst
            wait_s = (
                0.0
                if due > BURST_MAX
                else max(0.0, (start_ns + sent * step_ns - time.perf_counter_ns()) / 1e9)
            )
            for key, _ in selector.select(wait_s) if sent < count else _ready(selector):
                if key.data is None:
                    writer.acks.take(writer.link.receive())
                    continue
                arrived = reader.messages.take(reader.link.receive())
                now_ns = time.perf_counter_ns()
                first = len(times_us)
                times_us += [(now_ns - start_ns - (first + n) * step_ns) / 1000 for n in range(arrived)]
    return times_us
