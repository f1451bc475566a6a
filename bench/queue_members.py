"""The members of one subscription in one thread, over the queue driver of the comparison."""

from __future__ import annotations

import selectors
import time

from penstock.apps.bench.compare.drivers.queue import QueueLink, QueueWorker
from penstock.apps.bench.harness.link import STALL_S_MAX, Address, UnexpectedResponse
from penstock.wire.queue.frames import MessageType
from penstock.wire.queue.request_properties import START_OFFSET, SUBSCRIPTION, TOPIC

FROM_END = "-1"


def create_subscription(address: Address, name: str, topic: str) -> None:
    """A subscription that starts at the current end of the topic."""
    link = QueueLink(address)
    link.ask(MessageType.CREATE_SUBSCRIPTION, (SUBSCRIPTION, name), (TOPIC, topic), (START_OFFSET, FROM_END))
    link.close()


class QueueMembers:
    """Members that acknowledge each message."""

    def __init__(self, address: Address, subscription: str, count: int, window: int) -> None:
        self._workers = [QueueWorker(address, subscription, window) for _ in range(count)]
        for worker in self._workers:
            worker.start()

    def take(self, count: int) -> float:
        """Receive and acknowledge `count` messages; returns the seconds from the first to the last."""
        first_s, taken = 0.0, 0
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                selector.register(worker.link.socket, selectors.EVENT_READ, worker)
            while taken < count:
                ready = selector.select(STALL_S_MAX)
                if not ready:
                    raise UnexpectedResponse(f"no message for {STALL_S_MAX:.0f} s after {taken} of {count}")
                for key, _ in ready:
                    now_s = time.perf_counter()
                    came = key.data.take(key.data.link.receive())
                    first_s = first_s if taken else now_s
                    taken += came
        return time.perf_counter() - first_s

    def close(self) -> None:
        for worker in self._workers:
            worker.link.close()
