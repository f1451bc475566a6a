"""Transactions of one producer, one after the other, with fsync; and the same records without one. Never overlaps them.

A client waits for the broker three times in protocol V1 (partition, records, end) and twice in V2 (records, end). What
is counted is whole transactions, their markers on disk.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from bench import transaction_frames as frames
from bench.rows.requests import nothing
from bench.server import Server
from bench.session import TOPIC, Session
from penstock.apps.measuring.figures import Figure, at_least, figure
from penstock.apps.measuring.frames import make_batch, produce_frame
from penstock.apps.measuring.loader import Loader, UnexpectedAnswer, body_of, no_collector
from penstock.wire.kafka import messages

RATE_MIN = 300
RECORDS = 100
PLAIN_TOPIC = "plain"
MARKERS = 1


@dataclass(slots=True)
class Pace:
    """Samples of one protocol."""

    rates: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    costs_us: list[float] = field(default_factory=list)


def measure(session: Session) -> list[Figure]:
    batch = make_batch(RECORDS)
    count = session.pick(400, 150)
    paces = {False: Pace(), True: Pace()}
    plain: list[float] = []
    with session.broker(durability="fsync") as server, Loader(server.address) as loader:
        loader.create_topics([TOPIC, PLAIN_TOPIC])
        produce = produce_frame(PLAIN_TOPIC, batch)
        answer_bytes = loader.produce(produce)
        committed = 0
        for _ in range(session.pick(5, 3)):
            for is_v2, pace in paces.items():
                session.step(f"transactions of {RECORDS} records, protocol V{1 + is_v2}, fsync")
                producer = _producer(loader, f"bench-v{1 + is_v2}")
                _run(server, loader, _transactions(producer, batch, count, is_v2=is_v2), pace)
                committed += count
                plain.append(count / (sum(loader.latencies_us(produce, answer_bytes, count, nothing)) / 1e6))
                pace.ratios.append(pace.rates[-1] / plain[-1])
        _check_end(loader, committed * (RECORDS + MARKERS))
    usual = figure("plain", "/s", plain, "").value
    return [one for is_v2, pace in paces.items() for one in _figures(1 + is_v2, pace, usual)]


def _figures(version: int, pace: Pace, plain: float) -> list[Figure]:
    words = f"transactions of {RECORDS} × 1 KB, V{version}, fsync"
    beside = f"the same batch without one, in turns: {plain:,.0f}/s"
    return [
        figure(words, "transactions/s", pace.rates, "one at a time, one client", at_least(RATE_MIN)),
        figure(f"{words}, against produce", "×", pace.ratios, beside),
        figure(f"broker CPU of one transaction, V{version}", "µs", pace.costs_us, "the same run"),
    ]


def _producer(loader: Loader, transactional_id: str) -> frames.Producer:
    answer = loader.call(frames.init_frame(transactional_id))
    if answer.error_code:
        raise UnexpectedAnswer(f"a producer id was refused, error code {answer.error_code}")
    return frames.Producer(transactional_id, answer.producer_id, answer.producer_epoch)


def _transactions(by: frames.Producer, batch: bytes, count: int, *, is_v2: bool) -> list[tuple[bytes, ...]]:
    """The requests of each transaction in order. In V2 each has the next epoch, and with it a sequence from zero."""
    made: list[tuple[bytes, ...]] = []
    for number in range(count):
        if is_v2:
            now = by._replace(epoch=by.epoch + number)
            made.append(
                (frames.produce_frame(now, TOPIC, batch, 0, is_v2=True), frames.end_frame(now, is_v2=True))
            )
        else:
            produce = frames.produce_frame(by, TOPIC, batch, number * RECORDS, is_v2=False)
            made.append((frames.add_frame(by, TOPIC), produce, frames.end_frame(by, is_v2=False)))
    return made


def _run(server: Server, loader: Loader, transactions: list[tuple[bytes, ...]], pace: Pace) -> None:
    answers: list[bytes] = []
    before_s = server.cpu_s()
    with no_collector():
        start_ns = time.perf_counter_ns()
        for requests in transactions:
            for frame in requests:
                answers.append(loader.ask(frame))
        seconds = (time.perf_counter_ns() - start_ns) / 1e9
    pace.rates.append(len(transactions) / seconds)
    pace.costs_us.append((server.cpu_s() - before_s) / len(transactions) * 1e6)
    sent = [frame for requests in transactions for frame in requests]
    for frame, answer in zip(sent, answers, strict=True):
        codes = _codes(body_of(frame, answer))
        if any(codes):
            raise UnexpectedAnswer(f"a transaction was refused, error codes {codes}")


def _codes(body: Any) -> list[int]:
    """Every error code in an answer, of whichever of the three requests it is."""
    if isinstance(body, messages.ProduceResponse):
        return [one.error_code for topic in body.responses for one in topic.partition_responses]
    if isinstance(body, messages.AddPartitionsToTxnResponse):
        topics = body.results_by_topic_v3_and_below
        return [one.partition_error_code for topic in topics for one in topic.results_by_partition]
    return [body.error_code]


def _check_end(loader: Loader, expected: int) -> None:
    """Every record and every marker is in the log."""
    (end,) = loader.end_offsets(TOPIC)
    if end != expected:
        raise UnexpectedAnswer(f"the log ends at {end}, with markers {expected} were acknowledged")
