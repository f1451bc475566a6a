"""Instruments count what they are told, and what flows through a real partition."""

from __future__ import annotations

from manual_ports import Hand, PromptWorkers, append, run, turns
from penstock.core.errors import UnknownTopic
from penstock.node.runtime.meters import ERRORS_SENT, FSYNC_BOUNDS_S, Histogram, Meters, count_error


def test_an_observation_falls_into_the_first_bucket_that_holds_it() -> None:
    histogram = Histogram((0.1, 1.0))
    for seconds in (0.0, 0.1, 0.2, 1.0, 7.0):
        histogram.observe(seconds)
    assert histogram.counts == [2, 2, 1]
    assert round(histogram.sum_s, 6) == 8.3


def test_the_histogram_of_a_call_is_made_once() -> None:
    meter = Meters().door("kafka")
    assert meter.call("Fetch") is meter.call("Fetch")
    assert meter.call("Fetch") is not meter.call("Produce")


def test_errors_are_counted_by_door_and_name() -> None:
    before = ERRORS_SENT["test", "UnknownTopic"]
    count_error("test", UnknownTopic("no"))
    assert ERRORS_SENT["test", "UnknownTopic"] == before + 1
    del ERRORS_SENT["test", "UnknownTopic"]


def test_a_partition_counts_what_comes_in_since_it_was_opened() -> None:
    async def test() -> None:
        hand = Hand(None, PromptWorkers())
        partition = hand.partition()
        waiter = append(hand, partition, count=3)
        await turns()
        assert waiter.is_acknowledged
        assert partition.traffic.in_records == 3
        assert partition.traffic.in_bytes == partition.log.size() > 0
        assert sum(hand.runtime.meters.fsyncs.counts) == 1
        assert len(hand.runtime.meters.fsyncs.counts) == len(FSYNC_BOUNDS_S) + 1
        await partition.settle()
        again = hand.partition(recovery_offset=3)
        assert (again.traffic.in_records, again.traffic.in_bytes) == (0, 0)

    run(test)
