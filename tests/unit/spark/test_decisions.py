"""A batch counts once, whatever dies at whichever call: the protocol of the sink against a real broker, call by call.

The whole batch is played by one process: tasks write, the driver settles. A fate stands at every call: death before
it, death after it (the answer is lost), or another driver that plays the same batch while this one waits.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from penstock.client.access import Access, read_access
from penstock.client.batches import read_raw
from penstock.client.cluster import Cluster, Place, Target, codes_in
from penstock.client.connection import Connection
from penstock.client.errors import ClientError, Refused
from penstock.client.positions import committed
from penstock.client.transactions import end, open_ids, take
from penstock.core.records.packing import Author
from penstock.core.records.whole import open_batch
from penstock.spark.decisions import Decisions, Written, last_batch, mark, task_name
from penstock.spark.writing import Shape, TaskWriter
from penstock.testing import running_broker
from penstock.wire.kafka import ApiKey, messages

TASKS = 2
PARTITIONS = 2
TIMEOUT_MS = 60_000
Fate = Callable[[int], None]


class Died(BaseException):
    """The process is gone: nobody catches this but the test."""


@pytest.fixture(scope="module")
def access() -> Iterator[Access]:
    with running_broker(storage="memory") as broker:
        yield read_access({"bootstrap.servers": broker.bootstrap, "retry.backoff.ms": "5"})


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
    def __init__(self, real: Connection, owner: Mortal) -> None:
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

    def task(self, cluster: Cluster, batch: int, task: int) -> Written | None:
        """What a task does; None if the batch counts already."""
        if last_batch(cluster, self.name) >= batch:
            return None
        hold = take(cluster, task_name(self.name, task), TIMEOUT_MS)
        author = Author(hold.producer_id, hold.producer_epoch, is_transactional=True)
        writer = TaskWriter(cluster, Shape(topic=self.topic), author, hold)
        try:
            rows = [f"{batch}/{task}/{row}".encode() for row in range(6)]
            for part in (rows[:3], rows[3:]):
                columns = [pa.array(part, pa.binary()), pa.array(part, pa.binary())]
                writer.write(pa.RecordBatch.from_arrays(columns, ["key", "value"]))
            written = Written(task, hold, writer.finish())
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

    def moments(self, batch: int = 0) -> int:
        """How many moments one undisturbed run has."""
        last = []
        self.play(last.append, batch)
        return len(last)

    def readable(self) -> list[str]:
        """The values that a reader of committed records sees; none may be open or aborted below them."""
        found = []
        for partition in range(PARTITIONS):
            with Cluster(self.access) as cluster:
                found += [value.decode() for value in committed_values(cluster, Place(self.topic, partition))]
        return sorted(found)

    def expected(self, batches: int = 1) -> list[str]:
        every = [(b, t, r) for b in range(batches) for t in range(TASKS) for r in range(6)]
        return sorted(f"{batch}/{task}/{row}" for batch, task, row in every)

    def assert_nothing_open(self) -> None:
        with Cluster(self.access) as cluster:
            assert open_ids(cluster, self.name) == []


def committed_values(cluster: Cluster, place: Place) -> list[bytes]:
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


def test_an_undisturbed_batch_is_there_once_and_its_replay_changes_nothing(access: Access) -> None:
    stage = Stage(access)
    for batch in range(3):
        stage.play(never, batch)
        stage.play(never, batch)
    assert stage.readable() == stage.expected(3)
    stage.assert_nothing_open()


def test_tools_see_which_batch_each_query_and_each_task_has_written(access: Access) -> None:
    stage = Stage(access)
    stage.play(never, 0)
    stage.play(never, 1)
    with Cluster(access) as cluster:
        for group in (stage.name, *(task_name(stage.name, task) for task in range(TASKS))):
            ((place, found),) = committed(cluster, group).items()
            assert (place, found.offset) == (Place(stage.topic, 0), 1)


def test_death_at_every_moment_leaves_each_record_once(access: Access) -> None:
    for moment in every_moment(access):
        stage = Stage(access)
        with pytest.raises(Died):
            stage.play(death_at(moment))
        stage.play(never)
        assert stage.readable() == stage.expected(), f"died at {moment}"
        stage.assert_nothing_open()


def test_a_second_death_while_the_first_is_made_good_leaves_each_record_once(access: Access) -> None:
    moments = every_moment(access)
    for first in moments[1::7]:
        for second in moments[::5]:
            stage = Stage(access)
            for moment in (first, second):
                try:
                    stage.play(death_at(moment))
                except Died:
                    continue
            stage.play(never)
            assert stage.readable() == stage.expected(), f"died at {first}, then at {second}"


def test_another_driver_at_every_moment_leaves_each_record_once(access: Access) -> None:
    for moment in every_moment(access):
        stage = Stage(access)

        def meanwhile(now: int, moment: int = moment, stage: Stage = stage) -> None:
            if now == moment:
                stage.play(never)

        try:
            stage.play(meanwhile)
        except ClientError:
            stage.play(never)
        assert stage.readable() == stage.expected(), f"the other came at {moment}"
        stage.assert_nothing_open()


def test_another_driver_that_goes_on_with_the_next_batch_is_not_disturbed(access: Access) -> None:
    for moment in every_moment(access):
        stage = Stage(access)

        def meanwhile(now: int, moment: int = moment, stage: Stage = stage) -> None:
            if now == moment:
                stage.play(never, 0)
                stage.play(never, 1)

        try:
            stage.play(meanwhile, 0)
        except ClientError:
            stage.play(never, 1)
        assert stage.readable() == stage.expected(2), f"the other came at {moment}"


def fence_all(stage: Stage) -> None:
    """What a transaction that takes too long meets: it is aborted, and its producer fenced."""
    with Cluster(stage.access) as cluster:
        for task in range(TASKS):
            take(cluster, task_name(stage.name, task), TIMEOUT_MS)


def test_transactions_lost_at_any_moment_are_written_again(access: Access) -> None:
    for moment in every_moment(access):
        stage = Stage(access)

        def meanwhile(now: int, moment: int = moment, stage: Stage = stage) -> None:
            if now == moment:
                fence_all(stage)

        try:
            stage.play(meanwhile)
        except ClientError:
            stage.play(never)
        assert stage.readable() == stage.expected(), f"lost at {moment}"


@pytest.fixture(scope="module")
def decided_at(access: Access) -> int:
    """The first moment at which death leaves a decision behind."""
    for moment in range(Stage(access).moments()):
        stage = Stage(access)
        with pytest.raises(Died):
            stage.play(death_at(moment))
        with Cluster(access) as cluster:
            if last_batch(cluster, stage.name) == 0:
                return moment
    raise AssertionError("no batch was ever decided")


def decided_and_lost(access: Access, decided_at: int) -> Stage:
    """A batch that counts, of which nothing is readable: the transactions of its tasks were aborted."""
    stage = Stage(access)
    with pytest.raises(Died):
        stage.play(death_at(decided_at))
    fence_all(stage)
    assert stage.readable() == []
    return stage


def test_death_at_every_moment_of_writing_again_leaves_each_record_once(
    access: Access, decided_at: int
) -> None:
    lost = decided_and_lost(access, decided_at)
    for moment in range(lost.moments()):
        stage = decided_and_lost(access, decided_at)
        with pytest.raises(Died):
            stage.play(death_at(moment))
        stage.play(never)
        assert stage.readable() == stage.expected(), f"died at {moment}"


def test_a_decided_batch_is_not_given_up(access: Access) -> None:
    stage = Stage(access)
    with Cluster(access) as cluster:
        written = [one for task in range(TASKS) if (one := stage.task(cluster, 0, task))]
        decisions = Decisions(cluster, stage.name, TIMEOUT_MS)
        decisions.settle(0, written)
        decisions.give_up(0, written)
    assert stage.readable() == stage.expected()


def test_what_earlier_runs_left_open_is_swept(access: Access) -> None:
    stage = Stage(access)
    with Cluster(access) as cluster:
        left = stage.task(cluster, 0, 7)
        written = [one for task in range(TASKS) if (one := stage.task(cluster, 0, task))]
        decisions = Decisions(cluster, stage.name, TIMEOUT_MS)
        decisions.settle(0, written)
        assert open_ids(cluster, stage.name) == [task_name(stage.name, 7)]
        decisions.sweep(written)
        assert left is not None
        with pytest.raises(ClientError):
            end(cluster, left.hold, commit=True)
    assert stage.readable() == stage.expected()
    stage.assert_nothing_open()


def test_a_decision_of_many_partitions_goes_on_in_further_groups(
    access: Access, decided_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.spark.decisions.METADATA_BYTES_MAX", 40)
    test_an_undisturbed_batch_is_there_once_and_its_replay_changes_nothing(access)
    stage = decided_and_lost(access, decided_at)
    stage.play(never)
    assert stage.readable() == stage.expected()


def test_records_that_the_log_no_longer_has_are_missed_loudly(access: Access, decided_at: int) -> None:
    stage = decided_and_lost(access, decided_at)
    with Cluster(access) as cluster:
        request = messages.DeleteRecordsRequest
        topic = request.DeleteRecordsTopic(
            name=stage.topic,
            partitions=[
                request.DeleteRecordsPartition(partition_index=partition, offset=-1)
                for partition in range(PARTITIONS)
            ],
        )
        cluster.ask(ApiKey.DELETE_RECORDS, request(topics=[topic], timeout_ms=10_000))
    with pytest.raises(Refused, match="longer"):
        stage.play(never)
