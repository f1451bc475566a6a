"""The messages that open connections are not timed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.apps.bench.load import producer as producer_load
from penstock.apps.bench.load.plan import LoadFailed, LoadPlan
from penstock.apps.bench.load.producer import DUE, NEVER_DUE, ProducerRun

CONNECT_NS, ACK_NS = 900_000_000, 2_000_000
PLAN = LoadPlan("127.0.0.1:1", "clicks", 50, 100)


class SlowToConnect:
    """A producer on a clock of its own: the first message to a partition waits for a connection, others do not."""

    def __init__(self, partitions: int, error: object = None) -> None:
        self.now_ns = 0
        self.sent: list[int] = []
        self._partitions = partitions
        self._error = error
        self._connected: set[int] = set()
        self._waiting: deque[tuple[bytes, Callable[..., None]]] = deque()

    def list_topics(self, topic: str, _timeout: float) -> Any:
        found = SimpleNamespace(error=None, partitions=dict.fromkeys(range(self._partitions)))
        return SimpleNamespace(topics={topic: found})

    def produce(
        self, _topic: str, value: bytes, *, on_delivery: Callable[..., None], partition: int = 0
    ) -> None:
        self.sent.append(DUE.unpack_from(value)[0])
        if partition not in self._connected:
            self._connected.add(partition)
            self.now_ns += CONNECT_NS
        self._waiting.append((value, on_delivery))

    def poll(self, _timeout: float) -> None:
        while self._waiting:
            value, delivered = self._waiting.popleft()
            self.now_ns += ACK_NS
            delivered(self._error, SimpleNamespace(value=lambda value=value: value))

    def flush(self, _timeout: float) -> int:
        self.poll(0)
        return 0


def run(producer: SlowToConnect, monkeypatch: pytest.MonkeyPatch) -> ProducerRun:
    monkeypatch.setattr(producer_load.time, "monotonic_ns", lambda: producer.now_ns)
    sending = ProducerRun(PLAN, lambda _done: None)
    sending.connect(producer)  # type: ignore[arg-type]
    sending.run(producer)  # type: ignore[arg-type]
    return sending


def test_connecting_is_in_no_percentile(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = SlowToConnect(3)
    sending = run(producer, monkeypatch)
    assert producer.sent[:3] == [NEVER_DUE] * 3, "one to each partition opens the connections"
    assert NEVER_DUE not in producer.sent[3:]
    assert sending.acknowledged == sending.latency().count == PLAN.count
    assert sending.latency().summary_us()["max"] < CONNECT_NS // 1_000


def test_a_connection_that_cannot_be_made_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    error = SimpleNamespace(str=lambda: "not authorized", name=lambda: "TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(LoadFailed, match="not authorized"):
        run(SlowToConnect(1, error), monkeypatch)
