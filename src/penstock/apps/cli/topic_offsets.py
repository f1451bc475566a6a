"""Looks up the offsets of a topic: its spans, and those of a start position such as `@-1h`. Never reads records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.cli.client import REQUEST_SECONDS_MAX, failure_of, topic_partition
from penstock.apps.cli.failures import RefusedByBroker
from penstock.apps.cli.positions import AtOffset, AtTime, BeforeEnd, Earliest, Start

if TYPE_CHECKING:
    from confluent_kafka import Consumer

Span = tuple[int, int]
"""The first offset, and the one after the last."""


class TopicOffsets:
    """The offsets of one topic, looked up with a consumer."""

    def __init__(self, consumer: Consumer, topic: str, bootstrap: str) -> None:
        self._consumer = consumer
        self._topic = topic
        self._bootstrap = bootstrap

    def spans(self, partitions: list[int]) -> dict[int, Span]:
        return {number: self._span(number) for number in partitions}

    def _span(self, partition: int) -> Span:
        from confluent_kafka import KafkaException

        try:
            span = self._consumer.get_watermark_offsets(
                topic_partition(self._topic, partition, 0), timeout=REQUEST_SECONDS_MAX
            )
        except KafkaException as error:
            raise failure_of(error.args[0], self._bootstrap, self._topic) from error
        assert span is not None
        return span

    def offsets(self, spans: dict[int, Span], start: Start) -> dict[int, int]:
        """Resolve a start position to an offset per partition."""
        if isinstance(start, AtTime):
            return self._offsets_at(spans, start.timestamp_ms)
        if isinstance(start, AtOffset):
            return _clamped(self._topic, spans, start.offset)
        if isinstance(start, BeforeEnd):
            return {number: max(low, high - start.offsets) for number, (low, high) in spans.items()}
        side = 0 if isinstance(start, Earliest) else 1
        return {number: span[side] for number, span in spans.items()}

    def _offsets_at(self, spans: dict[int, Span], timestamp_ms: int) -> dict[int, int]:
        """Partitions without a record that recent start at their end."""
        from confluent_kafka import KafkaException

        asked = [topic_partition(self._topic, number, timestamp_ms) for number in spans]
        try:
            found = self._consumer.offsets_for_times(asked, timeout=REQUEST_SECONDS_MAX)
        except KafkaException as error:
            raise failure_of(error.args[0], self._bootstrap, self._topic) from error
        return {
            answer.partition: answer.offset if answer.offset >= 0 else spans[answer.partition][1]
            for answer in found
        }


def _clamped(topic: str, spans: dict[int, Span], offset: int) -> dict[int, int]:
    """The offset, or the nearest existing one; rejected if no partition has it."""
    if not any(low <= offset <= high for low, high in spans.values()):
        existing = ", ".join(f"partition {number}: {low} to {high}" for number, (low, high) in spans.items())
        raise RefusedByBroker(f"Topic {topic} has no offset {offset} ({existing}).")
    return {number: min(max(offset, low), high) for number, (low, high) in spans.items()}
