"""The protocol of the Spark sink on Apache Kafka itself: death and rivals at every third call, each record once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat.reference.__main__ import running_kafka
from compat.vocabulary import MissingRuntime
from penstock.client.access import Access, read_access
from sink_stage import Died, Stage, death_at, every_moment, fence_all, never, play_one

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
EVERY = 3


@pytest.fixture(scope="module")
def access() -> Iterator[Access]:
    try:
        with running_kafka() as bootstrap:
            yield read_access({"bootstrap.servers": bootstrap, "retry.backoff.ms": "5"})
    except MissingRuntime as missing:
        pytest.skip(str(missing))


def test_batches_are_there_once_and_replays_change_nothing(access: Access) -> None:
    stage = Stage(access)
    for batch in (0, 0, 1, 1):
        stage.play(never, batch)
    assert stage.readable() == stage.expected(2)
    stage.assert_nothing_open()


def test_death_leaves_each_record_once(access: Access) -> None:
    for moment in every_moment(access)[::EVERY]:
        stage = Stage(access)
        with pytest.raises(Died):
            stage.play(death_at(moment))
        stage.play(never)
        assert stage.readable() == stage.expected(), f"died at {moment}"


def test_another_driver_leaves_each_record_once(access: Access) -> None:
    for moment in every_moment(access)[1::EVERY]:
        stage = Stage(access)
        stage.play_disturbed(moment, play_one)
        assert stage.readable() == stage.expected(), f"the other came at {moment}"


def test_transactions_that_were_lost_are_written_again(access: Access) -> None:
    for moment in every_moment(access)[2::EVERY]:
        stage = Stage(access)
        stage.play_disturbed(moment, fence_all)
        assert stage.readable() == stage.expected(), f"lost at {moment}"
