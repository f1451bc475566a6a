"""What a producer's transaction needs from a consumer: its offsets and group metadata."""

from __future__ import annotations

from typing import Any, Protocol

from confluent_kafka import TopicPartition


class ConsumerProgress(Protocol):
    """A consumer whose offsets a producer can commit in its transaction."""

    def offsets_for_transaction(self) -> tuple[list[TopicPartition], Any]:
        """Next offsets of the partitions read in this transaction, and librdkafka's group metadata."""

    def transaction_ended(self, *, committed: bool) -> None:
        """Continue after a commit; seek back to the start of the transaction after an abort."""
