"""From the moment a message was due until a consumer in another process holds it. Never shares a process with it."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from penstock.apps.load.consuming import connect, read_all
from penstock.apps.load.latency import Latency
from penstock.apps.load.plan import LoadFailed, OnStep, Outcome, Plan
from penstock.apps.load.producing import DUE, NEVER_DUE, check_size, produce

if TYPE_CHECKING:
    from confluent_kafka import Message

READY_S_MAX = 60.0
READY = b"ready"


def end_to_end(plan: Plan, on_step: OnStep) -> Outcome:
    """Produce at the plan's pace while a second process reads from the end of the topic. Raises LoadFailed."""
    check_size(plan)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    reader = context.Process(target=_read, args=(plan, theirs), daemon=True)
    reader.start()
    theirs.close()
    try:
        _expect(ours, "the reader did not start")
        sent = produce(plan, on_step)
        encoded = _expect(ours, "the reader did not see every message")
    finally:
        reader.terminate()
        reader.join()
    latency = Latency()
    latency.add_encoded(encoded)
    return Outcome(
        "end to end",
        latency.count,
        sent.payload_bytes,
        sent.seconds,
        sent.failed,
        plan.rate,
        latency.summary_us(),
    )


def _expect(pipe: Connection, otherwise: str) -> bytes:
    """The reader's next word. Raises LoadFailed with its own words when it failed."""
    if not pipe.poll(READY_S_MAX):
        raise LoadFailed(f"{otherwise} within {READY_S_MAX:.0f} s.")
    try:
        word = pipe.recv()
    except EOFError:
        raise LoadFailed(f"{otherwise}: its process ended.") from None
    if isinstance(word, LoadFailed):
        raise word
    assert isinstance(word, bytes)
    return word


def _read(plan: Plan, pipe: Connection) -> None:
    """The reader's process: read from the end, record each time, hand the histogram over."""
    latency = Latency()

    def take(messages: list[Message]) -> int:
        now_ns = time.monotonic_ns()
        times_due = [DUE.unpack_from(message.value() or b"")[0] for message in messages]
        counted = [due_ns for due_ns in times_due if due_ns != NEVER_DUE]
        for due_ns in counted:
            latency.record(now_ns - due_ns)
        return len(counted)

    try:
        consumer = connect(plan, at_end=True)
        pipe.send(READY)
        read_all(consumer, plan.count, take)
        consumer.close()
        pipe.send(latency.encode())
    except LoadFailed as error:
        pipe.send(error)
