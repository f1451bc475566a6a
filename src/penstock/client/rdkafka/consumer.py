"""Consumer: reads topics, alone or as a member of a group. Committed messages are not returned again.

    with Consumer("orders", group="billing", value_serializer="json") as consumer:
        for message in consumer:
            bill(message.value)

With `commit="auto"` a message counts as handled when the next one is requested, or when the `with` block ends without
an error; handled messages are committed in the background. Others are delivered again to the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from penstock.client.messages import Message, Position
from penstock.client.options import ConsumerOptions
from penstock.client.rdkafka.rdkafka_consumer import IdleTimer, RdkafkaConsumer


class Consumer:
    """Reads messages. Not thread-safe."""

    def __init__(self, topics: str | Sequence[str], **options: Unpack[ConsumerOptions]) -> None:
        self.rdkafka_consumer = RdkafkaConsumer(topics, options)
        self.rdkafka_consumer.open()

    def poll(self, wait_s: float = 1.0) -> Message | None:
        """The next message, or None after `wait_s`. Raises SerializationFailed; the next call continues after it."""
        return next(iter(self.batch(1, wait_s)), None)

    def batch(self, records_max: int = 500, wait_s: float = 1.0) -> list[Message]:
        """Up to `records_max` messages, as soon as there are any; empty after `wait_s`."""
        if not self.rdkafka_consumer.has_ahead:
            self.rdkafka_consumer.fill(records_max, wait_s)
        return self.rdkafka_consumer.take(records_max)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        """The next message. Waits without a limit unless `until_end` or `idle_s_max` is set."""
        idle_timer = IdleTimer(self.rdkafka_consumer)
        while True:
            message = self.poll(idle_timer.wait_s)
            if message is not None:
                return message
            if idle_timer.is_over:
                raise StopIteration

    @property
    def has_ended(self) -> bool:
        """Whether all records of all assigned partitions have been returned."""
        return self.rdkafka_consumer.has_ended

    @property
    def is_finished(self) -> bool:
        """Whether `until_end` is set and the end has been reached."""
        return self.rdkafka_consumer.is_finished

    def commit(self, *messages: Message) -> None:
        """Commit up to these messages, or up to all returned messages; returns once durable."""
        self.rdkafka_consumer.commit(messages or None)

    def committed(self) -> list[Position]:
        """The group's committed offsets of the assigned partitions."""
        return self.rdkafka_consumer.committed()

    def assignment(self) -> list[tuple[str, int]]:
        """The assigned topics and partitions; a group member is assigned partitions while it polls."""
        return self.rdkafka_consumer.assignment()

    def positions(self) -> list[Position]:
        """The offset after the last message returned, per partition."""
        return self.rdkafka_consumer.positions()

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue at another offset of an assigned partition."""
        self.rdkafka_consumer.seek(topic, partition, offset)

    def close(self, *, handled: bool = False) -> None:
        """Leave the group. The messages returned last count as handled only with `handled`."""
        self.rdkafka_consumer.close(handled=handled)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(handled=error is None)
