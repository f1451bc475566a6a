"""Latency from when a message was due until a consumer in another process received it."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from penstock.apps.bench.load.consumer import connect, read_all
from penstock.apps.bench.load.latency import Latency
from penstock.apps.bench.load.plan import LoadFailed, LoadPlan, LoadResult, OnStep
from penstock.apps.bench.load.producer import DUE, NEVER_DUE, check_size, produce_load

if TYPE_CHECKING:
    from confluent_kafka import Message

READY_S_MAX = 60.0
READY = b"ready"


def end_to_end(plan: LoadPlan, on_step: OnStep) -> LoadResult:
    """Produce at the plan's rate while a second process reads from the end of the topic. Raises LoadFailed."""
    check_size(plan)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    reader = context.Process(target=_read, args=(plan, theirs), daemon=True)
    reader.start()
    theirs.close()
    try:
        _expect(ours, "the reader did not start")
        sent = produce_load(plan, on_step)
        encoded = _expect(ours, "the reader did not see every message")
    finally:
        reader.terminate()
        reader.join()
    latency = Latency()
    latency.add_encoded(encoded)
    return LoadResult(
        "end to end",
        latency.count,
        sent.payload_bytes,
        sent.seconds,
        sent.failed,
        plan.rate,
        latency.summary_us(),
    )


def _expect(pipe: Connection, otherwise: str) -> bytes:
    """The next message of the reader process. Raises LoadFailed if the reader failed or does not reply."""
    if not pipe.poll(READY_S_MAX):
        raise LoadFailed(f"{otherwise} within {READY_S_MAX:.0f} s.")
    try:
        message = pipe.recv()
    except EOFError:
        raise LoadFailed(f"{otherwise}: its process exited.") from None
    if isinstance(message, LoadFailed):
        raise message
    assert isinstance(message, bytes)
    return message


def _read(plan: LoadPlan, pipe: Connection) -> None:
    """The reader process: read from the end, record latencies, send the histogram."""
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
