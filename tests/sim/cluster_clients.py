"""Clients of a simulated cluster: producers, readers, committers, changers of topics. The ledger judges them.

Each works for a while under faults, and then finishes what it has begun: whatever a client has not been told, it asks
again until it is.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from penstock.core.errors import CorruptBatch
from penstock.core.model import Address, NewRecord
from penstock.wire.kafka import ApiKey, ErrorCode, messages
from sim.chance import START_MS
from sim.cluster_plan import Plan
from sim.cluster_router import ANSWER_S_MAX, PASSING, Router, Trouble, troubles
from sim.kafka_client import ACKS_ALL, ACKS_LEADER, KafkaClient, KafkaError, Place, make_batch
from sim.ledger import Broken, Kind, Ledger
from sim.load import Written, places
from sim.loop import SimLoop

IN_FLIGHT_MAX = 3
RETRY_S = 0.4
VALUE_BYTES = (1, 20, 150)
PASSING_TOPICS = tuple(f"passing-{number}" for number in range(4))
NOT_NOW = frozenset({ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_REPLICATION_FACTOR})
"""Refusals of a new topic: a broker has not heard yet that its name is free again; no broker is active."""
_COMMIT, _FETCH_OFFSETS = 8, 7


class Client:
    """One client process. Subclasses say what one piece of work is, and what is left to finish."""

    def __init__(self, loop: SimLoop, name: str, ledger: Ledger, bootstrap: Sequence[Address]) -> None:
        self.name = name
        self.troubles = 0
        self.may_see_damage = False
        """Whether batches with wrong checksums may come from a broker, which does not know of the damage yet."""
        self.done = 0
        self._loop = loop
        self._ledger = ledger
        self._chance: random.Random = loop.random_for(f"client/{name}")
        self._router = Router(bootstrap, self._chance)
        self._made = 0

    async def run(self, works: int, pause_s: float, is_over: asyncio.Event) -> None:
        """Work with pauses in between until the time is over, then finish."""
        for _ in range(works):
            await asyncio.sleep(self._chance.expovariate(1 / pause_s))
            if is_over.is_set():
                break
            await self._attempt(self.work)
        await is_over.wait()
        while not self.is_finished():
            if not await self._attempt(self.finish):
                await asyncio.sleep(RETRY_S)
        self._router.close()

    async def _attempt(self, work: Callable[[], Awaitable[None]]) -> bool:
        try:
            await work()
        except Trouble as trouble:
            self.troubles += 1
            self._loop.note(f"{self.name}: {trouble}")
            self._router.forget()
            return False
        except (CorruptBatch, KafkaError) as damage:
            is_known = isinstance(damage, KafkaError) and damage.code != ErrorCode.CORRUPT_MESSAGE
            if is_known or not self.may_see_damage:
                raise
            self.troubles += 1
            self._loop.note(f"{self.name}: {damage}")
            return False
        self.done += 1
        return True

    async def work(self) -> None:
        raise NotImplementedError

    async def finish(self) -> None:
        raise NotImplementedError

    def is_finished(self) -> bool:
        return True

    # -- for subclasses

    def _records(self) -> list[NewRecord]:
        """Records whose values are never the same twice, and ascend."""
        records = []
        for _ in range(self._chance.randint(1, 3)):
            self._made += 1
            value = b"%s-%08d:" % (self.name.encode(), self._made)
            records.append(NewRecord(None, value + self._chance.randbytes(self._chance.choice(VALUE_BYTES))))
        return records

    def _now_ms(self) -> int:
        return START_MS + int(self._loop.time() * 1000)

    async def _produce(self, place: Place, batch: bytes, acks: int) -> int:
        with troubles():
            return await (await self._router.leader(place)).produce(place, batch, acks)


class PlainProducer(Client):
    """Never repeats anything: what was not answered is in doubt for ever."""

    async def work(self) -> None:
        place = self._chance.choice(places(self._ledger, Kind.PLAIN, Kind.CUT))
        records = self._records()
        batch = make_batch(records, self._now_ms())
        acks = self._chance.choice((ACKS_ALL, ACKS_ALL, ACKS_LEADER))
        base_offset = await self._produce(place, batch, acks)
        if acks == ACKS_ALL:  # what only its leader has may be lost with it
            self._ledger.acked(place, base_offset, records)


class IdempotentProducer(Client):
    """Repeats what was not answered until it is: every record is there once, in order."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._producer_id = -1
        self._sequences: dict[Place, int] = {}
        self._pending: dict[Place, deque[Written]] = {}
        self._known: set[Place] = set()
        """Partitions that have acknowledged a batch."""

    async def work(self) -> None:
        if self._producer_id < 0:
            with troubles():
                self._producer_id = await (await self._router.anyone()).init_producer()
        place = self._chance.choice(places(self._ledger, Kind.PLAIN))
        pending = self._pending.setdefault(place, deque())
        # A broker takes any sequence for the first one of a producer that it does not know. As long as it may not know
        # this one, nothing is sent behind the first batch, which it could refuse.
        most = IN_FLIGHT_MAX if place in self._known else 1
        for _ in range(self._chance.randint(1, most)):
            if len(pending) < most:
                pending.append(self._next(place))
        await self._send(place)
        self._known.add(place)

    async def finish(self) -> None:
        for place in list(self._pending):
            await self._send(place)

    def is_finished(self) -> bool:
        return not any(self._pending.values())

    def _next(self, place: Place) -> Written:
        records = self._records()
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + len(records)
        batch = make_batch(records, self._now_ms(), producer_id=self._producer_id, sequence=sequence)
        return Written(place, records, batch)

    async def _send(self, place: Place) -> None:
        """All that is pending for a partition, at once and in order."""
        pending = self._pending[place]
        client = await self._router.leader(place)
        with troubles():
            asked = [client.send_batch(place, one.batch) for one in pending]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        failure: BaseException | None = None
        for one, answer in zip(list(pending), answers, strict=True):
            if isinstance(answer, int):
                self._ledger.acked(place, answer, one.records)
                pending.remove(one)
            elif failure is None or not _is_out_of_order(answer):
                failure = failure or answer
        if failure is not None:
            if _is_out_of_order(failure) and self._ledger.leader(place) != client.host:
                raise Trouble(f"{client.host} was replaced and does not know that yet")
            with troubles():
                raise failure


def _is_out_of_order(answer: BaseException) -> bool:
    """Batches behind one that was refused have no place to go."""
    return isinstance(answer, KafkaError) and answer.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class IdCollector(Client):
    """Asks for producer ids, wherever it can."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._ids: list[int] = []

    async def work(self) -> None:
        with troubles():
            self._ids.append(await (await self._router.anyone()).init_producer())


class Reader(Client):
    """Reads along: what it was shown stays where it was, and a position that was right is never out of range."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._positions: dict[Place, int] = {}

    async def work(self) -> None:
        place = self._chance.choice(places(self._ledger, Kind.PLAIN, Kind.CUT))
        if self._chance.random() < 0.2:
            await self._ask_end(place)
        else:
            await self._read(place)

    async def _read(self, place: Place) -> None:
        position = self._positions.get(place, 0)
        if self._chance.random() < 0.1:
            position = self._chance.randint(0, position)
        client = await self._router.leader(place)
        epoch = self._chance.choice((-1, self._router.epoch_of(place)))
        wait_ms = self._chance.choice((0, 0, 100))
        try:
            with troubles():
                fetched = await client.fetch(place, position, wait_ms=wait_ms, leader_epoch=epoch)
        except KafkaError as error:
            start = self._ledger.topics[place.topic_id].partitions[place.partition].start_asked
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE or position >= start:
                raise
            self._positions[place] = max(start, self._positions.get(place, 0))
            return
        self._ledger.seen(place, fetched.records)
        self._positions[place] = fetched.next_offset

    async def _ask_end(self, place: Place) -> None:
        """A leader that does not know yet what is committed may not answer."""
        known = self._ledger.end(place)
        with troubles():
            client = await self._router.leader(place)
            end = await client.latest_offset(self._ledger.topics[place.topic_id].name, place.partition)
        if end < known and self._ledger.leader(place) != client.host:
            # Its followers left less than FOLLOWED_S_MAX ago; tests of their own show that it does not go on.
            raise Trouble(f"{client.host} was replaced and does not know that yet")
        if not known <= end <= self._ledger.committed(place):
            raise Broken(f"{place} ends at {end}, {known} was acknowledged or shown")


class Cutter(Client):
    """Deletes the oldest records. A leader tells its client before others have heard of it, so a new leader may show
    them again."""

    async def work(self) -> None:
        place = self._chance.choice(places(self._ledger, Kind.CUT))
        topic = self._ledger.topics[place.topic_id]
        promise = topic.partitions[place.partition]
        before_offset = self._chance.randint(0, self._ledger.end(place))
        client = await self._router.leader(place)
        promise.start_asked = max(promise.start_asked, before_offset)
        try:
            with troubles():
                await client.delete_records(topic.name, place.partition, before_offset)
        except KafkaError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise  # a new leader may not know yet how far records are committed
            raise Trouble(error) from error


class Committer(Client):
    """A consumer of one partition that commits how far it is. An answer that never came leaves a doubt."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._group = f"group-{self.name}"
        self._acked = -1
        self._doubts: set[int] = set()
        self._tried = 0

    async def work(self) -> None:
        if self._chance.random() < 0.3:
            await self._check()
        else:
            await self._commit()

    async def finish(self) -> None:
        await self._check()
        self._tried = -1

    def is_finished(self) -> bool:
        return self._tried < 0

    @property
    def _topic(self) -> str:
        return next(one.name for one in self._ledger.topics.values() if one.kind is Kind.PLAIN)

    async def _commit(self) -> None:
        self._tried += 1
        offset, request = self._tried, messages.OffsetCommitRequest
        one = request.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = request.OffsetCommitRequestTopic(name=self._topic, partitions=[one])
        client = await self._coordinator()
        self._doubts.add(offset)
        answer = await self._call(
            client, ApiKey.OFFSET_COMMIT, _COMMIT, request(group_id=self._group, topics=[topic])
        )
        _raise(answer.topics[0].partitions[0].error_code)
        self._doubts.discard(offset)
        self._acked = offset

    async def _check(self) -> None:
        request = messages.OffsetFetchRequest
        topic = request.OffsetFetchRequestTopic(name=self._topic, partition_indexes=[0])
        client = await self._coordinator()
        answer = await self._call(
            client, ApiKey.OFFSET_FETCH, _FETCH_OFFSETS, request(group_id=self._group, topics=[topic])
        )
        _raise(answer.error_code)
        found = answer.topics[0].partitions[0]
        _raise(found.error_code)
        if found.committed_offset not in {self._acked, *self._doubts}:
            raise Broken(
                f"{self._group}: {self._acked} was committed, {found.committed_offset} is there;"
                f" in doubt are {sorted(self._doubts)}"
            )

    async def _coordinator(self) -> KafkaClient:
        return await self._router.coordinator(self._group)

    async def _call(self, client: KafkaClient, api_key: ApiKey, version: int, body: Any) -> Any:
        with troubles():
            return await client.call(api_key, version, body, answer_s_max=ANSWER_S_MAX)


def _raise(code: int) -> None:
    if code:
        with troubles():
            raise KafkaError(code)


class TopicChanger(Client):
    """Topics come and go, and names are used again."""

    plan: Plan

    async def work(self) -> None:
        mine = {one.name: topic_id for topic_id, one in self._ledger.topics.items()}
        name = self._chance.choice(PASSING_TOPICS)
        if name in mine:
            await self._delete(mine[name])
        elif name not in self._ledger.names_in_doubt:
            await self._create(name, self._chance.randint(1, 3), self.plan.factor(self._chance))

    async def _create(self, name: str, partitions: int, factor: int) -> None:
        ledger, kind = self._ledger, Kind.CUT
        settings = dict(kind.value) | self.plan.settings(self._chance, factor)
        client = await self._router.anyone()
        ledger.names_in_doubt[name] = (kind, partitions)
        try:
            topic_id = await client.create_topic(name, partitions, settings, factor)
        except KafkaError as error:
            if error.code != ErrorCode.REQUEST_TIMED_OUT:  # every other code says that nothing was created
                del ledger.names_in_doubt[name]
            if error.code not in NOT_NOW | PASSING:
                raise
            raise Trouble(error) from error
        except OSError as error:
            raise Trouble(error) from error
        del ledger.names_in_doubt[name]
        ledger.created(topic_id, name, kind, partitions)

    async def _delete(self, topic_id: bytes) -> None:
        topic = self._ledger.topics[topic_id]
        topic.deletion_asked = True
        with troubles():
            await (await self._router.anyone()).delete_topic(topic_id)
        topic.deletion_acked = True
        topic.name = f"deleted-{topic.name}"
