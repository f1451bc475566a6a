"""Consumer: reads topics, alone or as a member of a group. Never hands out a message again that is committed.

    with Consumer("orders", group="billing", value_serializer="json") as consumer:
        for message in consumer:
            bill(message.value)

With `commit="auto"` a message counts as handled when the next one is asked for, or when the `with` block ends without
an error; what counts as handled is committed in the background. One whose handling fails is handed out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from penstock.client.messages import Message, Position
from penstock.client.options import ConsumerOptions
from penstock.client.rdkafka.rdkafka_consumer import IdleTimer, RdkafkaConsumer


class Consumer:
    """Reads messages. For one thread at a time."""

    def __init__(self, topics: str | Sequence[str], **options: Unpack[ConsumerOptions]) -> None:
        self.rdkafka_consumer = RdkafkaConsumer(topics, options)
        self.rdkafka_consumer.open()

    def poll(self, wait_s: float = 1.0) -> Message | None:
        """The next message, or None when none has come in time. Raises SerializationFailed; the next call goes on."""
        return next(iter(self.batch(1, wait_s)), None)

    def batch(self, records_max: int = 500, wait_s: float = 1.0) -> list[Message]:
        """Up to so many messages, as soon as there are any; empty when none has come in time."""
        if not self.rdkafka_consumer.has_ahead:
            self.rdkafka_consumer.fill(records_max, wait_s)
        return self.rdkafka_consumer.take(records_max)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        """Waits as long as it takes, unless `until_end` or `idle_s_max` say when to stop."""
        idle_timer = IdleTimer(self.rdkafka_consumer)
        while True:
            message = self.poll(idle_timer.wait_s)
            if message is not None:
                return message
            if idle_timer.is_over:
                raise StopIteration

    @property
    def has_ended(self) -> bool:
        """Whether everything that is there has been handed out, in every partition of this consumer."""
        return self.rdkafka_consumer.has_ended

    @property
    def is_finished(self) -> bool:
        """Whether this consumer was to read to the end (`until_end`), and has."""
        return self.rdkafka_consumer.is_finished

    def commit(self, *messages: Message) -> None:
        """Commit up to these messages, or up to everything handed out; returns once it is durable."""
        self.rdkafka_consumer.commit(messages or None)

    def committed(self) -> list[Position]:
        """What the group has committed for the partitions of this consumer."""
        return self.rdkafka_consumer.committed()

    def assignment(self) -> list[tuple[str, int]]:
        """The topics and partitions that this consumer has now; a member of a group gets them while it polls."""
        return self.rdkafka_consumer.assignment()

    def positions(self) -> list[Position]:
        """The offset after the last message handed out, of each partition that one came from."""
        return self.rdkafka_consumer.positions()

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on at another offset of a partition that this consumer has."""
        self.rdkafka_consumer.seek(topic, partition, offset)

    def close(self, *, handled: bool = False) -> None:
        """Leave the group. Only with `handled` do the messages handed out last count as handled."""
        self.rdkafka_consumer.close(handled=handled)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(handled=error is None)
