"""What tasks and drivers of the sink do, against a real broker and without Spark: who counts, who is aborted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from penstock import Admin
from penstock.client.access import read_access
from penstock.client.errors import Aborted, Fenced, NotFound
from penstock.client.raw.batches import read_raw
from penstock.client.raw.cluster import Cluster, TopicPartition
from penstock.client.raw.transactions import open_ids, take
from penstock.core.records.build import open_batch
from penstock.spark.decisions import NEVER, task_name
from penstock.spark.sink import Sink, TaskIdentity
from penstock.spark.sink_options import read_sink_options
from penstock.testing import Broker, running_broker
from sink_stage import committed_values


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(read_access({"bootstrap.servers": broker.bootstrap})) as connected:
        yield connected


@pytest.fixture
def name(broker: Broker) -> str:
    """Of a topic with one partition, and of the writer to it."""
    made = f"w-{uuid.uuid4().hex}"
    with Admin(bootstrap=broker.bootstrap) as admin:
        admin.create_topic(made, 1)
    return made


def sink(broker: Broker, topic: str, **options: str) -> Sink:
    return Sink(read_sink_options({"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, **options}))


def rows(*values: bytes) -> list[Any]:
    return [pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["value"])]


def readable(cluster: Cluster, topic: str) -> list[bytes]:
    return sorted(committed_values(cluster, TopicPartition(topic, 0)))


def test_a_batch_counts_with_the_drivers_commit_and_is_skipped_afterwards(
    broker: Broker, cluster: Cluster, name: str
) -> None:
    writer = sink(broker, name)
    reports = [writer.write_rows(TaskIdentity(name, 0, task), rows(b"%d" % task)) for task in range(2)]
    assert readable(cluster, name) == []
    writer.commit_all(reports)
    assert readable(cluster, name) == [b"0", b"1"]
    unread = [iter(rows(b"again") * 3) for _ in range(2)]
    again = [writer.write_rows(TaskIdentity(name, 0, task), batches) for task, batches in enumerate(unread)]
    assert all(report.is_skipped for report in again)
    assert [list(batches) for batches in unread] == [[], []], "Spark ends a worker that leaves input behind"
    writer.commit_all(again)
    assert readable(cluster, name) == [b"0", b"1"]
    assert open_ids(cluster, name) == []


def test_tasks_without_rows_ask_for_nothing(broker: Broker, cluster: Cluster, name: str) -> None:
    writer = sink(broker, name)
    reports = [
        writer.write_rows(TaskIdentity(name, 0, 0), []),
        writer.write_rows(TaskIdentity(name, 0, 1), rows()),
    ]
    assert [(one.identity.task, one.written, one.is_skipped) for one in reports] == [
        (0, None, False),
        (1, None, False),
    ]
    writer.commit_all(reports)
    assert readable(cluster, name) == []


def test_what_is_aborted_is_not_there_and_those_without_a_report_are_fenced(
    broker: Broker, cluster: Cluster, name: str
) -> None:
    for batch in (NEVER, 0):
        writer = sink(broker, name)
        done = writer.write_rows(TaskIdentity(name, batch, 0), rows(b"done"))
        lost = writer.write_rows(TaskIdentity(name, batch, 1), rows(b"lost"))
        assert len(open_ids(cluster, name)) == 2
        writer.abort_all([done, None], name)
        assert open_ids(cluster, name) == []
        assert lost.written is not None
    assert readable(cluster, name) == []


@pytest.mark.parametrize("batch", [NEVER, 0])
@pytest.mark.parametrize("abort_at", [0, 1])
def test_a_task_that_runs_on_after_the_abort_opens_no_transaction(
    broker: Broker, cluster: Cluster, name: str, batch: int, abort_at: int
) -> None:
    """Spark aborts a job first and kills its other tasks later: before one has taken its name, or after that."""
    writer = sink(broker, name)
    done = writer.write_rows(TaskIdentity(name, batch, 0), rows(b"done"))

    def aborted_meanwhile() -> Iterator[Any]:
        for at in range(2):
            if at == abort_at:
                writer.abort_all([done, None], name)
            yield from rows(b"late")

    with pytest.raises((Aborted, Fenced)):
        writer.write_rows(TaskIdentity(name, batch, 1), aborted_meanwhile())
    assert open_ids(cluster, name) == [] and readable(cluster, name) == []
    again = sink(broker, name)
    again.commit_all([again.write_rows(TaskIdentity(name, batch, task), rows(b"again")) for task in range(2)])
    assert readable(cluster, name) == [b"again"] * 2


def test_a_nameless_job_writes_all_or_nothing(broker: Broker, cluster: Cluster, name: str) -> None:
    writer = sink(broker, name)
    reports = [writer.write_rows(TaskIdentity(name, NEVER, task), rows(b"%d" % task)) for task in range(2)]
    take(cluster, task_name(name, 1), 60_000)
    with pytest.raises(Aborted, match="nothing was written"):
        writer.commit_all(reports)
    assert readable(cluster, name) == []
    reports = [writer.write_rows(TaskIdentity(name, NEVER, task), rows(b"%d" % task)) for task in range(2)]
    writer.commit_all(reports)
    assert readable(cluster, name) == [b"0", b"1"]


def test_at_least_once_is_there_at_once(broker: Broker, cluster: Cluster, name: str) -> None:
    writer = sink(broker, name, delivery="at_least_once")
    report = writer.write_rows(TaskIdentity(name, NEVER, 0), rows(b"a", b"b"))
    assert report.written is None and not report.is_skipped
    writer.abort_all([report], name)
    found = [
        open_batch(raw, header) for header, raw in read_raw(cluster, TopicPartition(name, 0), 0, 1 << 60)
    ]
    assert [one.value for records in found for one in records] == [b"a", b"b"]
    assert open_ids(cluster, name) == []


def test_a_task_that_fails_leaves_nothing_open(broker: Broker, cluster: Cluster, name: str) -> None:
    def broken() -> Iterator[Any]:
        yield from rows(b"a")
        raise RuntimeError("broken row")

    with pytest.raises(RuntimeError, match="broken row"):
        sink(broker, name).write_rows(TaskIdentity(name, 0, 0), broken())
    with pytest.raises(NotFound):
        sink(broker, name + "x").write_rows(TaskIdentity(name, 0, 1), rows(b"a"))
    assert open_ids(cluster, name) == []
    assert readable(cluster, name) == []
