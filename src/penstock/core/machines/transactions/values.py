"""What is known of one transactional id, as a value, and the events that change it. Never decides; never holds two.

Each event is the whole state of its transactional id, so the log of them may be compacted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from penstock.core.model import NO_EPOCH, NO_PRODUCER

NO_TIME = -1
EPOCH_MAX = 2**15 - 1
NO_TOPIC_ID = b""
"""Of a partition that was added by a version that stored names alone: its topic is found by name."""


class TransactionState(StrEnum):
    """Where a transactional id stands, by Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


class TransactionMove(StrEnum):
    """What can happen to a transactional id."""

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
"""What may follow what; None: it is gone. An abort outside of ONGOING is only for protocol V2, which bumps the epoch
so. A producer that asks for INIT while ONGOING is fenced: that is an ABORT under a new epoch, and INIT comes after."""


class Enlisted(NamedTuple):
    """A partition in a transaction. The id says which topic of that name it belongs to: a topic that was deleted and
    created again is another topic, and the transaction did not write to it."""

    topic: str
    partition: int
    topic_id: bytes = NO_TOPIC_ID


PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transactional id. In a prepared state `producer_epoch` is that of the markers to be written."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    """The epoch before, if its producer may still be told of the present one; -1: nobody may."""
    previous_producer_id: int = NO_PRODUCER
    next_producer_id: int = NO_PRODUCER
    """The id that takes over once the markers are written, because the epochs of this one are used up."""
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: tuple[Enlisted, ...] = ()
    started_ms: int = NO_TIME
    changed_ms: int = NO_TIME
    is_v2: bool = False
    """Its producer speaks protocol V2: the epoch goes up with each transaction."""

    @property
    def is_exhausted(self) -> bool:
        """No epoch is left for a producer; the last one is kept for fencing."""
        return self.producer_epoch >= EPOCH_MAX - 1

    @property
    def is_commit(self) -> bool:
        return self.state is TransactionState.PREPARE_COMMIT

    @property
    def for_producer(self) -> tuple[int, int]:
        """Producer id and epoch that the producer goes on with."""
        if self.next_producer_id != NO_PRODUCER:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch


@dataclass(frozen=True, slots=True)
class TransactionSaved:
    """This is what is known of a transactional id now."""

    transaction: Transaction


@dataclass(frozen=True, slots=True)
class TransactionForgotten:
    """Nothing is known of it any more."""

    transactional_id: str


Event = TransactionSaved | TransactionForgotten
