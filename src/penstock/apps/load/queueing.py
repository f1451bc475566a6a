"""Work through a subscription: many workers, each message acknowledged by itself. Never fills a topic on the clock."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from penstock.apps.load.pace import NS_PER_S
from penstock.apps.load.plan import LoadFailed, OnStep, Outcome, Plan
from penstock.apps.load.producing import DUE, NEVER_DUE, produce
from penstock.client.queue import Message
from penstock.client.queue.broker_client import BrokerClient

SILENT_S_MAX = 60.0
FROM_END = -1

Connect = Callable[[str], AbstractContextManager[BrokerClient]]
"""A connected client by its name."""


class Work:
    """What all workers have done together."""

    def __init__(self, count: int, on_step: OnStep) -> None:
        self._count = count
        self._on_step = on_step
        self._lock = threading.Lock()
        self.done = threading.Event()
        self.handled = 0
        self.again = 0
        self.payload_bytes = 0
        self._seen: set[tuple[int, int]] = set()

    def handle(self, message: Message) -> None:
        """The handler of every worker: count what came, and what came more than once."""
        if DUE.unpack_from(message.body or b"")[0] == NEVER_DUE:
            return
        with self._lock:
            place = (message.partition, message.offset)
            if place in self._seen:
                self.again += 1
                return
            self._seen.add(place)
            self.handled += 1
            self.payload_bytes += len(message.body or b"")
            if not self.handled % 100:
                self._on_step(self.handled)
            if self.handled == self._count:
                self.done.set()


def work(plan: Plan, connect: Connect, workers: int, on_step: OnStep) -> Outcome:
    """Fill the topic, then let `workers` members of a new subscription take all of it. Raises LoadFailed."""
    name = f"penstock-bench-{uuid.uuid4().hex[:12]}"
    with ExitStack() as stack:
        keeper = stack.enter_context(connect("bench-keeper"))
        keeper.create_subscription(name, plan.topic, FROM_END)
        stack.callback(keeper.delete_subscription, name)
        produce(plan, lambda _done: None)
        shared = Work(plan.count, on_step)
        clients = [stack.enter_context(connect(f"bench-{number}")) for number in range(workers)]
        started_ns = time.monotonic_ns()
        for client in clients:
            client.subscribe_to_subscription(name, shared.handle)
        _await(shared, plan.count)
        seconds = (time.monotonic_ns() - started_ns) / NS_PER_S
        for client in clients:
            client.unsubscribe_from_subscription(name)
    return Outcome("queue", shared.handled, shared.payload_bytes, seconds, redelivered=shared.again)


def _await(shared: Work, count: int) -> None:
    """Return once everything was handled; silence is a failure."""
    before = -1
    while not shared.done.wait(SILENT_S_MAX):
        if shared.handled == before:
            raise LoadFailed(f"Nothing came for {SILENT_S_MAX:.0f} s after {before:,} of {count:,} messages.")
        before = shared.handled
