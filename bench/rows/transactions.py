"""Sequential transactions of one producer with fsync, compared with the same records without transactions.

A transaction takes three round trips in protocol V1 (partition, records, end) and two in V2 (records, end). Only
complete transactions with markers on disk count.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from bench import transaction_frames as frames
from bench.figures import Figure, at_least, figure
from bench.rows.requests import nothing
from bench.session import TOPIC, Session
from penstock.apps.bench.harness.broker import BrokerProcess
from penstock.apps.bench.harness.frames import make_batch, produce_frame
from penstock.apps.bench.harness.link import UnexpectedResponse, gc_disabled
from penstock.apps.bench.harness.loader import Loader, body_of
from penstock.wire.kafka import messages

RATE_MIN = 300
RECORDS = 100
PLAIN_TOPIC = "plain"
MARKERS = 1


@dataclass(slots=True)
class TransactionSamples:
    """Samples of one protocol version."""

    rates: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    costs_us: list[float] = field(default_factory=list)


def measure(session: Session) -> list[Figure]:
    batch = make_batch(RECORDS)
    count = session.pick(400, 150)
    versions = {False: TransactionSamples(), True: TransactionSamples()}
    plain: list[float] = []
    with session.broker(durability="fsync") as server, Loader(server.address) as loader:
        loader.create_topics([TOPIC, PLAIN_TOPIC])
        produce = produce_frame(PLAIN_TOPIC, batch)
        response_bytes = loader.produce(produce)
        committed = 0
        for _ in range(session.pick(5, 3)):
            for is_v2, samples in versions.items():
                session.step(f"transactions of {RECORDS} records, protocol V{1 + is_v2}, fsync")
                producer = _producer(loader, f"bench-v{1 + is_v2}")
                _run(server, loader, _transactions(producer, batch, count, is_v2=is_v2), samples)
                committed += count
                plain.append(
                    count / (sum(loader.latencies_us(produce, response_bytes, count, nothing)) / 1e6)
                )
                samples.ratios.append(samples.rates[-1] / plain[-1])
        _check_end(loader, committed * (RECORDS + MARKERS))
    plain_rate = figure("plain", "/s", plain, "").value
    return [one for is_v2, samples in versions.items() for one in _figures(1 + is_v2, samples, plain_rate)]


def _figures(version: int, samples: TransactionSamples, plain: float) -> list[Figure]:
    name = f"transactions of {RECORDS} × 1 KB, V{version}, fsync"
    reference = f"the same batch without a transaction, interleaved: {plain:,.0f}/s"
    return [
        figure(name, "transactions/s", samples.rates, "one at a time, one client", at_least(RATE_MIN)),
        figure(f"{name}, against produce", "×", samples.ratios, reference),
        figure(f"broker CPU of one transaction, V{version}", "µs", samples.costs_us, "the same run"),
    ]


def _producer(loader: Loader, transactional_id: str) -> frames.Producer:
    response = loader.call(frames.init_frame(transactional_id))
    if response.error_code:
        raise UnexpectedResponse(
            f"the request for a producer id was rejected, error code {response.error_code}"
        )
    return frames.Producer(transactional_id, response.producer_id, response.producer_epoch)


def _transactions(by: frames.Producer, batch: bytes, count: int, *, is_v2: bool) -> list[tuple[bytes, ...]]:
    """The requests of each transaction in order. In V2 each has the next epoch, with sequence numbers from zero."""
    requests: list[tuple[bytes, ...]] = []
    for number in range(count):
        if is_v2:
            now = by._replace(epoch=by.epoch + number)
            requests.append(
                (frames.produce_frame(now, TOPIC, batch, 0, is_v2=True), frames.end_frame(now, is_v2=True))
            )
        else:
            produce = frames.produce_frame(by, TOPIC, batch, number * RECORDS, is_v2=False)
            requests.append((frames.add_frame(by, TOPIC), produce, frames.end_frame(by, is_v2=False)))
    return requests


def _run(
    server: BrokerProcess, loader: Loader, transactions: list[tuple[bytes, ...]], samples: TransactionSamples
) -> None:
    answers: list[bytes] = []
    with server.process.cpu_time() as spent, gc_disabled():
        start_ns = time.perf_counter_ns()
        for requests in transactions:
            for frame in requests:
                answers.append(loader.ask(frame))
        seconds = (time.perf_counter_ns() - start_ns) / 1e9
    samples.rates.append(len(transactions) / seconds)
    samples.costs_us.append(spent.cpu_s / len(transactions) * 1e6)
    sent = [frame for requests in transactions for frame in requests]
    for frame, response in zip(sent, answers, strict=True):
        codes = _codes(body_of(frame, response))
        if any(codes):
            raise UnexpectedResponse(f"a transaction was rejected, error codes {codes}")


def _codes(body: Any) -> list[int]:
    """All error codes of a response to any of the three requests."""
    if isinstance(body, messages.ProduceResponse):
        return [one.error_code for topic in body.responses for one in topic.partition_responses]
    if isinstance(body, messages.AddPartitionsToTxnResponse):
        topics = body.results_by_topic_v3_and_below
        return [one.partition_error_code for topic in topics for one in topic.results_by_partition]
    return [body.error_code]


def _check_end(loader: Loader, expected: int) -> None:
    """Check that every record and marker is in the log."""
    (end,) = loader.end_offsets(TOPIC)
    if end != expected:
        raise UnexpectedResponse(
            f"the log ends at {end}, but {expected} records and markers were acknowledged"
        )
