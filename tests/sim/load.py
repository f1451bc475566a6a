"""Clients that keep a simulated broker busy and note every promise it makes. Never judge; the ledger does."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from penstock.core.model import NewRecord
from penstock.wire.kafka import ErrorCode
from sim.kafka_client import KafkaClient, KafkaError, Place, make_batch
from sim.ledger import Kind, Ledger

IN_FLIGHT_MAX = 5
KEYS = tuple(b"key-%d" % number for number in range(6))
TOMBSTONE_CHANCE = 0.2
DELETED = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})

Dial = Callable[[], Coroutine[Any, Any, KafkaClient]]


@dataclass(slots=True)
class Written:
    """One batch of an idempotent producer, as often as it takes."""

    place: Place
    records: list[NewRecord]
    batch: bytes


class Writer:
    """Makes records whose values are never the same twice."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name = name
        self.chance = chance
        self._made = 0

    def records(self, kind: Kind) -> list[NewRecord]:
        return [self._record(kind) for _ in range(self.chance.randint(1, 4))]

    def _record(self, kind: Kind) -> NewRecord:
        self._made += 1
        value = b"%s-%d:" % (self.name.encode(), self._made)
        value += self.chance.randbytes(self.chance.choice((1, 20, 150, 400)))
        if kind is not Kind.COMPACT:
            return NewRecord(None, value)
        return NewRecord(self.chance.choice(KEYS), None if self.chance.random() < TOMBSTONE_CHANCE else value)


def places(ledger: Ledger, *kinds: Kind) -> list[Place]:
    """The partitions of the topics of these kinds that nobody wants to delete."""
    return [
        Place(topic_id, partition)
        for topic_id, topic in ledger.topics.items()
        if topic.kind in kinds and not topic.deletion_asked
        for partition in range(len(topic.partitions))
    ]


def is_due(error: KafkaError, ledger: Ledger, place: Place) -> bool:
    """Whether a client had to expect this: the broker is stopping, or the topic is being deleted."""
    return error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER or (
        error.code in DELETED and ledger.topics[place.topic_id].deletion_asked
    )


async def write_plain(dial: Dial, ledger: Ledger, writer: Writer, now_ms: Callable[[], int]) -> None:
    """A producer that never repeats anything: what was not answered is in doubt for ever."""
    client = await dial()
    while True:
        place = writer.chance.choice(places(ledger, *Kind))
        topic = ledger.topics[place.topic_id]
        promise = topic.partitions[place.partition]
        records = writer.records(topic.kind)
        doubts = Counter(one.key for one in records if one.value is None and one.key is not None)
        promise.keys_in_doubt += doubts
        batch = make_batch(records, now_ms(), codec=writer.chance.choice((0, 0, 0, 1, 3)))
        try:
            ledger.acked(place, await client.produce(place, batch), records)
        except KafkaError as error:
            if not is_due(error, ledger, place):
                raise
            continue
        promise.keys_in_doubt -= doubts


@dataclass(slots=True)
class Idempotent:
    """A producer that repeats what was not answered, over crashes, until it is: nothing may be there twice."""

    writer: Writer
    producer_id: int = -1
    sequences: dict[Place, int] = field(default_factory=dict)
    pending: list[Written] = field(default_factory=list)

    async def run(self, dial: Dial, ledger: Ledger, now_ms: Callable[[], int]) -> None:
        client = await dial()
        if self.producer_id < 0:
            self.producer_id = await client.init_producer()
        while True:
            while len(self.pending) < self.writer.chance.randint(1, IN_FLIGHT_MAX):
                self.pending.append(self._next(ledger, now_ms()))
            await self._send_pending(client, ledger)

    def _next(self, ledger: Ledger, now_ms: int) -> Written:
        place = self.writer.chance.choice(places(ledger, Kind.PLAIN))
        records = self.writer.records(Kind.PLAIN)
        sequence = self.sequences.get(place, 0)
        self.sequences[place] = sequence + len(records)
        batch = make_batch(records, now_ms, producer_id=self.producer_id, sequence=sequence)
        return Written(place, records, batch)

    async def _send_pending(self, client: KafkaClient, ledger: Ledger) -> None:
        """All at once on one connection; each answer by itself takes its batch off the list."""
        sent = [(one, client.send_batch(one.place, one.batch)) for one in self.pending]
        answers = await asyncio.gather(*(answer for _, answer in sent), return_exceptions=True)
        for (one, _), answer in zip(sent, answers, strict=True):
            if isinstance(answer, int):
                ledger.acked(one.place, answer, one.records)
                self.pending.remove(one)
        for (one, _), answer in zip(sent, answers, strict=True):
            if isinstance(answer, BaseException) and not (
                isinstance(answer, KafkaError) and is_due(answer, ledger, one.place)
            ):
                raise answer


async def read_along(dial: Dial, ledger: Ledger, chance: random.Random) -> None:
    """A reader at the end of the log: what it is shown must never be gone."""
    client = await dial()
    places_read = dict.fromkeys(places(ledger, Kind.PLAIN, Kind.CUT, Kind.SIZED), 0)
    while True:
        place = chance.choice(list(places_read))
        try:
            fetched = await client.fetch(place, places_read[place], wait_ms=chance.choice((0, 1, 20)))
        except KafkaError as error:
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                places_read[place] += 1
            elif not is_due(error, ledger, place):
                raise
            continue
        ledger.seen(place, fetched.records)
        places_read[place] = fetched.next_offset


async def change_topics(dial: Dial, ledger: Ledger, writer: Writer) -> None:
    """Topics come, get a few records, are cut at their start, and go; names are used again."""
    client, chance = await dial(), writer.chance
    while True:
        mine = {
            one.name: topic_id for topic_id, one in ledger.topics.items() if one.name.startswith("passing")
        }
        name = f"passing-{chance.randrange(3)}"
        if name not in mine:
            ledger.names_in_doubt[name] = (Kind.CUT, 2)
            topic_id = await client.create_topic(name, 2, dict(Kind.CUT.value))
            del ledger.names_in_doubt[name]
            ledger.created(topic_id, name, Kind.CUT, 2)
        elif chance.random() < 0.3:
            ledger.topics[mine[name]].deletion_asked = True
            await client.delete_topic(mine[name])
            ledger.topics[mine[name]].deletion_acked = True
            ledger.topics[mine[name]].name = f"deleted-{name}"
        else:
            await _write_and_cut(client, ledger, writer, Place(mine[name], chance.randrange(2)))


async def _write_and_cut(client: KafkaClient, ledger: Ledger, writer: Writer, place: Place) -> None:
    topic = ledger.topics[place.topic_id]
    promise = topic.partitions[place.partition]
    records = writer.records(Kind.CUT)
    base_offset = await client.produce(place, make_batch(records, 1_750_000_000_000))
    ledger.acked(place, base_offset, records)
    if writer.chance.random() < 0.3:
        before_offset = writer.chance.randint(promise.start_acked, base_offset)
        promise.start_asked = max(promise.start_asked, before_offset)
        start = await client.delete_records(topic.name, place.partition, before_offset)
        assert start >= before_offset
        promise.start_acked = max(promise.start_acked, start)
