"""Deletes the oldest records of a topic: plans the new start of each partition, then asks the leaders. Never prints."""

from __future__ import annotations

import time
from dataclasses import dataclass

import click

from penstock.apps.cli.client import (
    REQUEST_SECONDS_MAX,
    check_code,
    chosen_partitions,
    connect_cluster,
    connect_consumer,
    topic_metadata,
    translated,
)
from penstock.apps.cli.positions import parse_start
from penstock.apps.cli.topic_offsets import TopicOffsets
from penstock.client.raw.cluster import Leader
from penstock.wire.kafka import ApiKey, messages


@dataclass(frozen=True, slots=True)
class PartitionCut:
    """The first offset of a partition before and after, and the offsets between."""

    topic: str
    partition: int
    before: int
    after: int
    records: int


class TopicTrim:
    """One topic of the brokers at an address."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic

    def plan(self, target: str, partition: int | None) -> list[PartitionCut]:
        """The cut of each partition. Raises click's usage error for an invalid position, and ObjectNotFound."""
        try:
            start = parse_start(target, int(time.time() * 1000))
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="'--before'") from error
        consumer = connect_consumer(self._bootstrap)
        try:
            numbers = chosen_partitions(topic_metadata(consumer, self._topic, self._bootstrap), partition)
            offsets = TopicOffsets(consumer, self._topic, self._bootstrap)
            spans = offsets.spans(numbers)
            found = offsets.offsets(spans, start)
        finally:
            consumer.close()
        return [
            PartitionCut(self._topic, number, spans[number][0], after, after - spans[number][0])
            for number, after in sorted(found.items())
        ]

    def run(self, cuts: list[PartitionCut]) -> None:
        """Delete. Raises RefusedByBroker for the first partition that fails; those before it are trimmed."""
        cluster = connect_cluster(self._bootstrap)
        for cut in cuts:
            if not cut.records:
                continue
            request = messages.DeleteRecordsRequest
            part = request.DeleteRecordsPartition(partition_index=cut.partition, offset=cut.after)
            body = request(
                topics=[request.DeleteRecordsTopic(name=cut.topic, partitions=[part])],
                timeout_ms=int(REQUEST_SECONDS_MAX * 1000),
            )
            with translated(self._bootstrap):
                answer = cluster.ask(ApiKey.DELETE_RECORDS, body, Leader(cut.topic, cut.partition))
            (result,) = answer.topics[0].partitions
            check_code(result.error_code, f"{cut.topic} partition {cut.partition}")
