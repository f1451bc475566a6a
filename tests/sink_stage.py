"""A batch of the Spark sink in one process: tasks write, the driver commits, and a fault may be injected at every call.

A fault is a crash before a call, a crash after it (the response is lost), or another driver that runs the same batch
while this one waits. Asserts nothing; reports the expected and the actual outcome.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from itertools import count
from typing import Any

import pyarrow as pa

from penstock.client.access import Access
from penstock.client.errors import ClientError
from penstock.client.raw.batches import read_raw
from penstock.client.raw.cluster import Cluster, Target, TopicPartition, codes_in
from penstock.client.raw.connection import BrokerConnection
from penstock.client.raw.transactions import open_ids, standing, take
from penstock.core.records.batch_builder import ProducerIdentity
from penstock.core.records.build import open_batch
from penstock.spark.decisions import Decisions, TaskWrites, last_batch, mark, task_name
from penstock.spark.task_writer import TaskWriter, WriteTerms
from penstock.wire.kafka import ApiKey, messages

TASKS = 2
PARTITIONS = 2
TIMEOUT_MS = 60_000
PAUSE_S = 0.01
Fate = Callable[[int], None]


class Died(BaseException):
    """The process is gone: nobody catches this but the test."""


class Mortal(Cluster):
    """A cluster whose user meets his fate before and after every call."""

    def __init__(self, access: Access, fate: Fate) -> None:
        super().__init__(access)
        self.fate = fate
        self.moments = count()
        self._mortals: dict[int, _MortalConnection] = {}

    def connection_to(self, target: Target = Cluster.connection_to.__defaults__[0]) -> Any:  # type: ignore[index]
        real = super().connection_to(target)
        return self._mortals.setdefault(id(real), _MortalConnection(real, self))


class _MortalConnection:
    def __init__(self, real: BrokerConnection, owner: Mortal) -> None:
        self._real = real
        self._owner = owner
        self.version_of = real.version_of

    def call(self, *args: Any, **more: Any) -> Any:
        self._owner.fate(next(self._owner.moments))
        answer = self._real.call(*args, **more)
        self._owner.fate(next(self._owner.moments))
        return answer


class Stage:
    """A topic, a writer's name, and what must be in the topic in the end."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.topic = f"t-{uuid.uuid4().hex[:8]}"
        self.name = f"writer-{self.topic}"
        with Cluster(access) as cluster:
            request = messages.CreateTopicsRequest
            wanted = request.CreatableTopic(
                name=self.topic, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]
            )
            answer = cluster.ask(ApiKey.CREATE_TOPICS, request(topics=[wanted], timeout_ms=10_000))
            assert set(codes_in(answer)) == {0}

    def task(self, cluster: Cluster, batch: int, task: int) -> TaskWrites | None:
        """What a task does; None if the batch counts already."""
        if last_batch(cluster, self.name, TIMEOUT_MS) >= batch:
            return None
        hold = take(cluster, task_name(self.name, task), TIMEOUT_MS)
        identity = ProducerIdentity(hold.producer_id, hold.producer_epoch, is_transactional=True)
        writer = TaskWriter(cluster, WriteTerms(topic=self.topic), identity, hold)
        try:
            rows = [f"{batch}/{task}/{row}".encode() for row in range(6)]
            for part in (rows[:3], rows[3:]):
                columns = [pa.array(part, pa.binary()), pa.array(part, pa.binary())]
                writer.write(pa.RecordBatch.from_arrays(columns, ["key", "value"]))
            written = TaskWrites(task, hold, writer.finish())
        finally:
            writer.close()
        mark(cluster, batch, written, hold)
        return written

    def play(self, fate: Fate, batch: int = 0) -> None:
        """One run of a batch; a driver that cannot settle gives up, as Spark has it."""
        with Mortal(self.access, fate) as cluster:
            found = [self.task(cluster, batch, task) for task in range(TASKS)]
            written = [one for one in found if one is not None]
            decisions = Decisions(cluster, self.name, TIMEOUT_MS)
            try:
                decisions.settle(batch, written)
            except ClientError:
                decisions.give_up(batch, written)
                raise

    def play_disturbed(
        self, moment: int, disturb: Callable[[Stage], None], batch: int = 0, then: int = 0
    ) -> None:
        """A run with something else in the middle of it; if it fails of that, batch `then` is played after it."""

        def meanwhile(now: int) -> None:
            if now == moment:
                disturb(self)

        try:
            self.play(meanwhile, batch)
        except ClientError:
            self.play(never, then)

    def moments(self, batch: int = 0) -> int:
        """How many moments one undisturbed run has."""
        last: list[Any] = []
        self.play(last.append, batch)
        return len(last)

    def readable(self) -> list[str]:
        """The values that a reader of committed records sees, once the markers of all that was decided stand."""
        found = []
        with Cluster(self.access) as cluster:
            for task in range(TASKS):
                while _is_being_completed(cluster, task_name(self.name, task)):
                    time.sleep(PAUSE_S)
        for partition in range(PARTITIONS):
            with Cluster(self.access) as cluster:
                found += [
                    value.decode()
                    for value in committed_values(cluster, TopicPartition(self.topic, partition))
                ]
        return sorted(found)

    def expected(self, batches: int = 1) -> list[str]:
        every = [(b, t, r) for b in range(batches) for t in range(TASKS) for r in range(6)]
        return sorted(f"{batch}/{task}/{row}" for batch, task, row in every)

    def assert_nothing_open(self) -> None:
        with Cluster(self.access) as cluster:
            assert open_ids(cluster, self.name) == []


def _is_being_completed(cluster: Cluster, transactional_id: str) -> bool:
    """Is it decided how the transaction ends, and are markers missing? Kafka answers before they all stand."""
    found = standing(cluster, transactional_id)
    return found is not None and found.state.startswith("Prepare")


def committed_values(cluster: Cluster, place: TopicPartition) -> list[bytes]:
    """By the markers in the log itself: the records of transactions that end with a commit."""
    open_ones: dict[tuple[int, int], list[bytes]] = {}
    values: list[bytes] = []
    for header, batch in read_raw(cluster, place, 0, 1 << 60):
        by = (header.producer_id, header.producer_epoch)
        records = open_batch(batch, header)
        if not header.is_control:
            open_ones.setdefault(by, []).extend(one.value or b"" for one in records)
        else:
            is_commit = (records[0].key or b"")[-1] == 1
            ended = {other: of for other, of in open_ones.items() if other[0] == by[0]}
            for other, of in ended.items():
                del open_ones[other]
                values += of if is_commit else []
    return values


def never(_: int) -> None:
    """No fate at all."""


def death_at(moment: int) -> Fate:
    def fate(now: int) -> None:
        if now == moment:
            raise Died

    return fate


def every_moment(access: Access) -> range:
    return range(Stage(access).moments())


def play_one(stage: Stage) -> None:
    """Another driver, with the same batch."""
    stage.play(never)


def play_two(stage: Stage) -> None:
    """Another driver, that goes on with the next batch."""
    stage.play(never, 0)
    stage.play(never, 1)


def fence_all(stage: Stage) -> None:
    """What a transaction that takes too long meets: it is aborted, and its producer fenced."""
    with Cluster(stage.access) as cluster:
        for task in range(TASKS):
            take(cluster, task_name(stage.name, task), TIMEOUT_MS)
