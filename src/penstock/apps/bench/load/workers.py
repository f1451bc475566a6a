"""Workers that share a subscription and acknowledge each message. The topic is filled before the clock starts."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from penstock.apps.bench.load.plan import LoadFailed, LoadPlan, LoadResult, OnStep
from penstock.apps.bench.load.producer import DUE, NEVER_DUE, produce_load
from penstock.apps.bench.load.send_schedule import NS_PER_S
from penstock.client.queue.broker_client import BrokerClient
from penstock.client.queue.session import Message

SILENT_S_MAX = 60.0
FROM_END = -1

Connect = Callable[[str], AbstractContextManager[BrokerClient]]
"""Connects a client with the given name."""


class WorkProgress:
    """What all workers have done together."""

    def __init__(self, count: int, on_step: OnStep) -> None:
        self._count = count
        self._on_step = on_step
        self._lock = threading.Lock()
        self.done = threading.Event()
        self.handled = 0
        self.redelivered = 0
        self.payload_bytes = 0
        self._seen: set[tuple[int, int]] = set()

    def handle(self, message: Message) -> None:
        """The handler of every worker: count messages and redeliveries."""
        if DUE.unpack_from(message.body or b"")[0] == NEVER_DUE:
            return
        with self._lock:
            position = (message.partition, message.offset)
            if position in self._seen:
                self.redelivered += 1
                return
            self._seen.add(position)
            self.handled += 1
            self.payload_bytes += len(message.body or b"")
            if not self.handled % 100:
                self._on_step(self.handled)
            if self.handled == self._count:
                self.done.set()


def work(plan: LoadPlan, connect: Connect, workers: int, on_step: OnStep) -> LoadResult:
    """Fill the topic, then let `workers` members of a new subscription handle all messages. Raises LoadFailed."""
    name = f"penstock-bench-{uuid.uuid4().hex[:12]}"
    with ExitStack() as stack:
        owner = stack.enter_context(connect("bench-owner"))
        owner.create_subscription(name, plan.topic, FROM_END)
        stack.callback(owner.delete_subscription, name)
        produce_load(plan, lambda _done: None)
        shared = WorkProgress(plan.count, on_step)
        clients = [stack.enter_context(connect(f"bench-{number}")) for number in range(workers)]
        started_ns = time.monotonic_ns()
        for client in clients:
            client.subscribe_to_subscription(name, shared.handle)
        _await(shared, plan.count)
        seconds = (time.monotonic_ns() - started_ns) / NS_PER_S
        for client in clients:
            client.unsubscribe_from_subscription(name)
    return LoadResult("queue", shared.handled, shared.payload_bytes, seconds, redelivered=shared.redelivered)


def _await(shared: WorkProgress, count: int) -> None:
    """Return once every message was handled. Raises LoadFailed if no more arrive."""
    before = -1
    while not shared.done.wait(SILENT_S_MAX):
        if shared.handled == before:
            raise LoadFailed(f"No message arrived for {SILENT_S_MAX:.0f} s after {before:,} of {count:,}.")
        before = shared.handled
