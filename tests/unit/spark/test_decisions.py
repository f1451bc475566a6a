"""A batch counts once, whatever dies at whichever call: the protocol of the sink on a real broker, call by call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.access import Access, read_access
from penstock.client.errors import ClientError, Refused
from penstock.client.raw.cluster import Cluster, TopicPartition
from penstock.client.raw.committed_offsets import committed
from penstock.client.raw.transactions import end, open_ids
from penstock.spark.decisions import Decisions, last_batch, task_name
from penstock.testing import running_broker
from penstock.wire.kafka import ApiKey, messages
from sink_stage import (
    PARTITIONS,
    TASKS,
    TIMEOUT_MS,
    Died,
    Stage,
    death_at,
    every_moment,
    fence_all,
    never,
    play_one,
    play_two,
)


@pytest.fixture(scope="module")
def access() -> Iterator[Access]:
    with running_broker(storage="memory") as broker:
        yield read_access({"bootstrap.servers": broker.bootstrap, "retry.backoff.ms": "5"})


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
            assert (place, found.offset) == (TopicPartition(stage.topic, 0), 1)


def test_death_at_every_moment_leaves_each_record_once(access: Access) -> None:
    for moment in every_moment(access):
        stage = Stage(access)
        with pytest.raises(Died):
            stage.play(death_at(moment))
        stage.play(never)
        assert stage.readable() == stage.expected(), f"died at {moment}"
        stage.assert_nothing_open()


def test_death_at_every_moment_of_the_second_batch_leaves_each_record_once(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is an older decision then, and a newer one under way hides it until somebody ends it."""
    monkeypatch.setattr("penstock.spark.decisions.DECIDING_S_MAX", 0.1)
    for moment in every_moment(access):
        stage = Stage(access)
        stage.play(never, 0)
        with pytest.raises(Died):
            stage.play(death_at(moment), 1)
        stage.play(never, 1)
        assert stage.readable() == stage.expected(2), f"died at {moment}"
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
        stage.play_disturbed(moment, play_one)
        assert stage.readable() == stage.expected(), f"the other came at {moment}"
        stage.assert_nothing_open()


def test_another_driver_that_goes_on_with_the_next_batch_is_not_disturbed(access: Access) -> None:
    for moment in every_moment(access):
        stage = Stage(access)
        stage.play_disturbed(moment, play_two, then=1)
        assert stage.readable() == stage.expected(2), f"the other came at {moment}"


def test_transactions_lost_at_any_moment_are_written_again(access: Access) -> None:
    for moment in every_moment(access):
        stage = Stage(access)
        stage.play_disturbed(moment, fence_all)
        assert stage.readable() == stage.expected(), f"lost at {moment}"


@pytest.fixture(scope="module")
def decided_at(access: Access) -> int:
    """The first moment at which death leaves a decision behind."""
    for moment in range(Stage(access).moments()):
        stage = Stage(access)
        with pytest.raises(Died):
            stage.play(death_at(moment))
        with Cluster(access) as cluster:
            if last_batch(cluster, stage.name, TIMEOUT_MS) == 0:
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
