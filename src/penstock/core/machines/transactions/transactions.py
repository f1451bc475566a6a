"""Transactional ids: which producer owns each, and how its transactions end. The host writes the markers.

Two phases: the decision to commit or abort is persisted before any marker is written (`PrepareCommit`, `PrepareAbort`);
once all markers are written, the host calls `decide_complete`. The transitions are in `values.NEXT`. Time and new
producer ids are arguments. Errors are Kafka's, checked in Kafka's order, because clients depend on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.core.errors import (
    FencedProducer,
    IllegalMove,
    InvalidTransactionState,
    TransactionAbortable,
    TransactionBusy,
    UnknownTransaction,
    WrongProducer,
)
from penstock.core.machines.transactions.values import (
    EPOCH_MAX,
    NEXT,
    NO_TIME,
    PREPARED,
    Enlisted,
    Event,
    Transaction,
    TransactionForgotten,
    TransactionMove,
    TransactionSaved,
    TransactionState,
)
from penstock.core.model import NO_EPOCH, NO_PRODUCER, TopicPartition


class Claim(NamedTuple):
    """The producer id and epoch that a request claims."""

    producer_id: int
    producer_epoch: int


class Transactions:
    """The machine. One per partition of `__transaction_state`."""

    def __init__(self) -> None:
        self._by_id: dict[str, Transaction] = {}
        self._ongoing: dict[str, None] = {}

    # -- reading

    @property
    def all(self) -> list[Transaction]:
        """All transactional ids."""
        return [self._by_id[transactional_id] for transactional_id in sorted(self._by_id)]

    @property
    def prepared(self) -> list[Transaction]:
        """Transactions that are decided but whose markers may be missing."""
        return [one for one in self.all if one.state in PREPARED]

    def find(self, transactional_id: str) -> Transaction | None:
        return self._by_id.get(transactional_id)

    def get(self, transactional_id: str) -> Transaction:
        found = self._by_id.get(transactional_id)
        if found is None:
            raise UnknownTransaction(f"there is no transactional id {transactional_id!r}")
        return found

    def timed_out(self, now_ms: int) -> list[Transaction]:
        """Open transactions past their timeout."""
        open_ones = [self._by_id[transactional_id] for transactional_id in sorted(self._ongoing)]
        return [one for one in open_ones if now_ms - one.started_ms > one.timeout_ms]

    def check_partitions(
        self, transactional_id: str, by: Claim, partitions: Iterable[TopicPartition]
    ) -> None:
        """Raises unless these partitions are in the open transaction of this producer.

        By name, as producers know them: a producer does not add a partition again when its topic is re-created.
        """
        one = self._claimed(transactional_id, by)
        if one.state in PREPARED:
            raise TransactionBusy(f"the transaction of {transactional_id!r} is being completed")
        known = {(at.topic, at.partition) for at in one.partitions}
        missing = [partition for partition in partitions if partition not in known]
        if missing or one.state is not TransactionState.ONGOING:
            raise TransactionAbortable(
                f"{missing[:1]} is not part of an open transaction of {transactional_id!r}"
            )

    def are_enlisted(self, transactional_id: str, partitions: Iterable[Enlisted]) -> bool:
        """Whether these partitions, including topic ids, are in the transaction: only those get a marker."""
        one = self._by_id.get(transactional_id)
        return (
            one is not None
            and one.state is TransactionState.ONGOING
            and set(partitions).issubset(one.partitions)
        )

    def _claimed(self, transactional_id: str, by: Claim) -> Transaction:
        """The transaction, if the producer owns it."""
        one = self._by_id.get(transactional_id)
        if one is None or one.producer_id != by.producer_id:
            raise WrongProducer(
                f"transactional id {transactional_id!r} does not belong to producer {by.producer_id}"
            )
        if one.producer_epoch != by.producer_epoch or by.producer_epoch == EPOCH_MAX:
            raise _fenced(one, by.producer_epoch)  # the last epoch is reserved for fencing
        return one

    # -- deciding: producer ids

    def needs_new_id(self, transactional_id: str) -> bool:
        """Whether `decide_init` or `decide_end` needs a new producer id."""
        one = self._by_id.get(transactional_id)
        return one is None or one.is_exhausted

    def decide_init(
        self, transactional_id: str, timeout_ms: int, expected: Claim | None, *, new_id: int, now_ms: int
    ) -> list[Event]:
        """Assign the producer a new epoch, which fences the previous producer.

        If a transaction is open, decides its abort, under an epoch that no producer gets; the caller must then retry.
        """
        one = self._by_id.get(transactional_id) or Transaction(transactional_id, new_id)
        if expected is not None and not _may_continue(one, expected):
            raise _fenced(one, expected.producer_epoch)
        if one.state in PREPARED:
            raise TransactionBusy(f"the transaction of {transactional_id!r} is being completed")
        if one.state is TransactionState.ONGOING:
            return self.decide_fence(transactional_id, now_ms)
        if one.is_exhausted and (expected is None or expected.producer_epoch == one.producer_epoch):
            assert new_id != NO_PRODUCER
            last_epoch = NO_EPOCH if expected is None else one.producer_epoch
            one = one._replace(producer_id=new_id, previous_producer_id=one.producer_id)
            epochs = 0, last_epoch
        else:
            epochs = _bump(one, expected)
        return [
            _moved(
                one, TransactionMove.INIT, now_ms, producer_epoch=epochs[0], last_epoch=epochs[1],
                timeout_ms=timeout_ms, partitions=(), started_ms=NO_TIME,
            )
        ]  # fmt: skip

    # -- deciding: what is in a transaction

    def decide_add(
        self, transactional_id: str, by: Claim, partitions: Iterable[Enlisted], *, now_ms: int, is_v2: bool
    ) -> list[Event]:
        """Add partitions to the transaction, which opens if needed. No events if it contains all of them.

        A partition of a re-created topic replaces the one with the same name, whose records were deleted.
        """
        one = self._claimed(transactional_id, by)
        if one.state in PREPARED:
            raise TransactionBusy(f"the transaction of {transactional_id!r} is being completed")
        is_open = one.state is TransactionState.ONGOING
        known = {(at.topic, at.partition): at for at in one.partitions} if is_open else {}
        together = known | {(at.topic, at.partition): at for at in partitions}
        if is_open and together == known:
            return []
        started_ms = one.started_ms if is_open else now_ms
        in_order = tuple(sorted(together.values()))
        return [
            _moved(one, TransactionMove.ADD, now_ms, partitions=in_order, started_ms=started_ms, is_v2=is_v2)
        ]

    # -- deciding: the end

    def decide_end(
        self, transactional_id: str, by: Claim, *, commit: bool, is_v2: bool, new_id: int, now_ms: int
    ) -> list[Event]:
        """Commit or abort, as the producer requests. No events if that was done before: the request is a retry."""
        if is_v2:
            return self._decide_end_v2(transactional_id, by, commit=commit, new_id=new_id, now_ms=now_ms)
        one = self._claimed(transactional_id, by)
        if one.state is TransactionState.ONGOING:
            return [
                _moved(one, TransactionMove.COMMIT if commit else TransactionMove.ABORT, now_ms, is_v2=False)
            ]
        return _already(one, commit=commit)

    def _decide_end_v2(
        self, transactional_id: str, by: Claim, *, commit: bool, new_id: int, now_ms: int
    ) -> list[Event]:
        """In V2 every end bumps the epoch, so that a late or duplicate request cannot affect a later transaction."""
        one = self._by_id.get(transactional_id)
        overflowed = one is not None and _is_overflow_retry(one, by)
        if one is None or (one.producer_id != by.producer_id and not overflowed):
            raise WrongProducer(
                f"transactional id {transactional_id!r} does not belong to producer {by.producer_id}"
            )
        # The bump identifies a retry: the first request of this end raised the epoch to one above the caller's.
        is_retry = overflowed or one.producer_epoch == by.producer_epoch + 1
        is_current = by == (one.producer_id, one.producer_epoch) and by.producer_epoch < EPOCH_MAX
        # An open or empty transaction has not ended in this epoch, so a lower epoch belongs to an earlier one. A
        # prepared one has already bumped, so only the retry is valid. A completed one allows both: a retry, and an
        # abort by the current producer, which has not added anything yet.
        valid = {TransactionState.ONGOING: is_current, TransactionState.EMPTY: is_current} | dict.fromkeys(
            PREPARED, is_retry
        )
        if not valid.get(one.state, is_retry or is_current):
            raise _fenced(one, by.producer_epoch)
        if is_retry and one.state is not TransactionState.EMPTY and one.state is not TransactionState.ONGOING:
            return _already(one, commit=commit)
        if commit and one.state is not TransactionState.ONGOING:
            raise InvalidTransactionState(f"no transaction to commit: {transactional_id!r} is in {one.state}")
        # The markers use the last epoch; the successor id takes over once they are written.
        next_id = new_id if one.is_exhausted else NO_PRODUCER
        assert not one.is_exhausted or new_id != NO_PRODUCER
        is_open = one.state is TransactionState.ONGOING
        move = TransactionMove.COMMIT if commit else TransactionMove.ABORT
        return [
            _moved(
                one, move, now_ms, producer_epoch=one.producer_epoch + 1,
                last_epoch=one.producer_epoch, next_producer_id=next_id, is_v2=True,
                partitions=one.partitions if is_open else (), started_ms=one.started_ms if is_open else now_ms,
            )
        ]  # fmt: skip

    def decide_fence(self, transactional_id: str, now_ms: int) -> list[Event]:
        """Abort an open transaction and fence its producer."""
        one = self.get(transactional_id)
        epoch = min(one.producer_epoch + 1, EPOCH_MAX)
        return [_moved(one, TransactionMove.ABORT, now_ms, producer_epoch=epoch, last_epoch=NO_EPOCH)]

    def decide_complete(self, transactional_id: str, now_ms: int) -> list[Event]:
        """All markers are written."""
        one = self.get(transactional_id)
        producer_id, epoch = one.for_producer
        return [
            _moved(
                one, TransactionMove.COMPLETE, now_ms, producer_id=producer_id, producer_epoch=epoch, partitions=(),
                previous_producer_id=one.producer_id, next_producer_id=NO_PRODUCER,
            )
        ]  # fmt: skip

    def decide_expire(self, now_ms: int, expiry_ms: int) -> list[Event]:
        """Remove ids that were not used for longer than `expiry_ms`."""
        idle = [
            one
            for one in self.all
            if (one.state, TransactionMove.FORGET) in NEXT and now_ms - one.changed_ms > expiry_ms
        ]
        return [TransactionForgotten(one.transactional_id) for one in idle]

    # -- applying

    def apply(self, event: Event) -> None:
        """Apply an event. Never fails: any event may follow any other, because the log may be compacted."""
        match event:
            case TransactionSaved(one):
                self._by_id[one.transactional_id] = one
                if one.state is TransactionState.ONGOING:
                    self._ongoing[one.transactional_id] = None
                else:
                    self._ongoing.pop(one.transactional_id, None)
            case TransactionForgotten(transactional_id):
                self._by_id.pop(transactional_id, None)
                self._ongoing.pop(transactional_id, None)


def _moved(one: Transaction, move: TransactionMove, now_ms: int, **changes: object) -> TransactionSaved:
    state = NEXT.get((one.state, move))
    if state is None:
        raise IllegalMove(f"{one.transactional_id!r} is in {one.state}, which does not allow {move}")
    return TransactionSaved(one._replace(state=state, changed_ms=now_ms, **changes))  # type: ignore[arg-type]


def _fenced(one: Transaction, epoch: int) -> FencedProducer:
    return FencedProducer(
        f"transactional id {one.transactional_id!r} is at producer {one.producer_id} epoch {one.producer_epoch}, "
        f"epoch {epoch} is fenced"
    )


def _already(one: Transaction, *, commit: bool) -> list[Event]:
    """The response to a retried end: done, retry later, or an error if it ended the other way."""
    done = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    under_way = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
    if one.state is done:
        return []
    if one.state is under_way:
        raise TransactionBusy(f"the transaction of {one.transactional_id!r} is being completed")
    what = "commit" if commit else "abort"
    raise InvalidTransactionState(f"no transaction to {what}: {one.transactional_id!r} is in {one.state}")


def _may_continue(one: Transaction, expected: Claim) -> bool:
    """Whether a producer that claims to be `expected` may continue. `_bump` checks its epoch.

    Any producer may if the id is new. One whose epochs are exhausted may retry to get its successor id.
    """
    is_retry = expected.producer_id == one.previous_producer_id and expected.producer_epoch >= EPOCH_MAX - 1
    return one.producer_epoch == NO_EPOCH or expected.producer_id == one.producer_id or is_retry


def _bump(one: Transaction, expected: Claim | None) -> tuple[int, int]:
    """The next epoch, and the one remembered as its predecessor."""
    bumped = one.producer_epoch + 1
    if expected is None:
        return bumped, NO_EPOCH
    if one.producer_epoch in (NO_EPOCH, expected.producer_epoch):
        return bumped, one.producer_epoch
    if expected.producer_epoch == one.last_epoch:
        return one.producer_epoch, one.last_epoch
    raise _fenced(one, expected.producer_epoch)


def _is_overflow_retry(one: Transaction, by: Claim) -> bool:
    """Whether this retries the end that exhausted the epochs, after a new producer id took over."""
    return (
        one.previous_producer_id == by.producer_id
        and by.producer_epoch == EPOCH_MAX - 1
        and one.producer_epoch == 0
    )
