"""What a transaction needs of a consumer: how far it has read, and for which group. Never reads anything itself."""

from __future__ import annotations

from typing import Any, Protocol

from confluent_kafka import TopicPartition


class ConsumerProgress(Protocol):
    """A consumer whose progress can be committed by a producer."""

    def offsets_for_transaction(self) -> tuple[list[TopicPartition], Any]:
        """The next offset of each partition that messages came from, and the group in the library's words."""

    def transaction_ended(self, *, committed: bool) -> None:
        """After a commit go on; after an abort hand out again what was handed out for it."""
