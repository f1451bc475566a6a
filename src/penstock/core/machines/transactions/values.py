"""The state of one transactional id, as a value, and its events. transactions.py decides.

Each event is the full state of its transactional id, so that the log may be compacted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from penstock.core.model import NO_EPOCH, NO_PRODUCER

NO_TIME = -1
EPOCH_MAX = 2**15 - 1
NO_TOPIC_ID = b""
"""The topic id of partitions that were added by a version that stored only names: the topic is looked up by name."""


class TransactionState(StrEnum):
    """The state of a transactional id, by Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


class TransactionMove(StrEnum):
    """Transitions of a transactional id."""

    INIT = "init"
    ADD = "add"
    COMMIT = "commit"
    ABORT = "abort"
    COMPLETE = "complete"
    FORGET = "forget"


NEXT: dict[tuple[TransactionState, TransactionMove], TransactionState | None] = {
    (TransactionState.EMPTY, TransactionMove.INIT): TransactionState.EMPTY,
    (TransactionState.EMPTY, TransactionMove.ADD): TransactionState.ONGOING,
    (TransactionState.EMPTY, TransactionMove.ABORT): TransactionState.PREPARE_ABORT,
    (TransactionState.EMPTY, TransactionMove.FORGET): None,
    (TransactionState.ONGOING, TransactionMove.ADD): TransactionState.ONGOING,
    (TransactionState.ONGOING, TransactionMove.COMMIT): TransactionState.PREPARE_COMMIT,
    (TransactionState.ONGOING, TransactionMove.ABORT): TransactionState.PREPARE_ABORT,
    (TransactionState.PREPARE_COMMIT, TransactionMove.COMPLETE): TransactionState.COMPLETE_COMMIT,
    (TransactionState.PREPARE_ABORT, TransactionMove.COMPLETE): TransactionState.COMPLETE_ABORT,
    (TransactionState.COMPLETE_COMMIT, TransactionMove.INIT): TransactionState.EMPTY,
    (TransactionState.COMPLETE_COMMIT, TransactionMove.ADD): TransactionState.ONGOING,
    (TransactionState.COMPLETE_COMMIT, TransactionMove.ABORT): TransactionState.PREPARE_ABORT,
    (TransactionState.COMPLETE_COMMIT, TransactionMove.FORGET): None,
    (TransactionState.COMPLETE_ABORT, TransactionMove.INIT): TransactionState.EMPTY,
    (TransactionState.COMPLETE_ABORT, TransactionMove.ADD): TransactionState.ONGOING,
    (TransactionState.COMPLETE_ABORT, TransactionMove.ABORT): TransactionState.PREPARE_ABORT,
    (TransactionState.COMPLETE_ABORT, TransactionMove.FORGET): None,
}
"""The transition table; None means deleted. Only protocol V2 aborts outside of ONGOING, to bump the epoch. INIT while
ONGOING fences the producer: an ABORT under a new epoch, then INIT."""


class Enlisted(NamedTuple):
    """A partition in a transaction. The topic id tells a re-created topic, which the transaction did not write to, from
    the deleted one with the same name."""

    topic: str
    partition: int
    topic_id: bytes = NO_TOPIC_ID


PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


class Transaction(NamedTuple):
    """One transactional id. In a prepared state `producer_epoch` is the epoch of the markers."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    """The previous epoch, if its producer may still retry to get the current one; else -1."""
    previous_producer_id: int = NO_PRODUCER
    next_producer_id: int = NO_PRODUCER
    """The successor id once the markers are written, because the epochs of this id are exhausted."""
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: tuple[Enlisted, ...] = ()
    started_ms: int = NO_TIME
    changed_ms: int = NO_TIME
    is_v2: bool = False
    """The producer uses protocol V2: each transaction bumps the epoch."""

    @property
    def is_exhausted(self) -> bool:
        """No epoch is left for a producer; the last one is reserved for fencing."""
        return self.producer_epoch >= EPOCH_MAX - 1

    @property
    def is_commit(self) -> bool:
        return self.state is TransactionState.PREPARE_COMMIT

    @property
    def for_producer(self) -> tuple[int, int]:
        """Producer id and epoch with which the producer continues."""
        if self.next_producer_id != NO_PRODUCER:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch


@dataclass(frozen=True, slots=True)
class TransactionSaved:
    """The new state of a transactional id."""

    transaction: Transaction


@dataclass(frozen=True, slots=True)
class TransactionForgotten:
    """The transactional id was removed."""

    transactional_id: str


Event = TransactionSaved | TransactionForgotten
