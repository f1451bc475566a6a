"""Produce: appends batches to partitions and acknowledges them as requested. Decodes no records.

Batches are validated before they are appended; expensive validation runs in a worker, and requests with many
partitions run in slices. Transactional batches are appended once the transaction's coordinator vouches for them.
Meanwhile the caller's connection is held, so that a later batch cannot overtake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from penstock.core.access import Operation, transactional_id_resource
from penstock.core.errors import (
    BrokerError,
    InvalidRecord,
    InvalidTopic,
    LeaderNotAvailable,
    NotLeader,
    TransactionBusy,
    WrongProducer,
)
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.log.marker_guards import MarkerGuard
from penstock.core.machines.transactions.transactions import Claim
from penstock.core.model import Acks, PartitionId, TopicPartition, TopicRef
from penstock.core.records.batch import TRANSACTIONAL, decode_header
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.connections.turns import BYTES_PER_UNIT
from penstock.node.replicas.admission import Admitted
from penstock.node.replicas.offset_waits import Settled
from penstock.node.replicas.partition import Appended, Partition
from penstock.node.runtime.slices import CHUNK, Sliced, run_unsliced
from penstock.node.runtime.workers import forget_variables
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.routes import Routes

Hold = Callable[[], Callable[[], None]]
"""Holds the caller's connection; returns the function that releases it once the write has taken effect."""

_ALL = int(Acks.ALL)


class AppendedBatch:
    """An appended batch. It is acknowledged once it is flushed (acks=1) or committed (acks=all)."""

    __slots__ = ("_end_offset", "_is_for_all", "_partition", "append_time_ms", "base_offset", "start_offset")

    def __init__(self, partition: Partition, appended: Appended, acks: int) -> None:
        self._partition = partition
        self._is_for_all = acks == _ALL
        self.base_offset, self._end_offset, self.append_time_ms = appended
        self.start_offset = partition.log.start_offset
        """The log start offset of the partition."""

    @property
    def is_acknowledged(self) -> bool:
        partition = self._partition
        reached = partition.log.high_watermark if self._is_for_all else partition.flushed_offset
        return reached >= self._end_offset

    def when_acknowledged(self, settled: Settled, timeout_ms: int = 0) -> None:
        """Call back once: with None, with the error, or with TimedOut after `timeout_ms`, unless that is 0 or less.
        After a timeout the batch stays in the log."""
        partition = self._partition
        when = partition.when_committed if self._is_for_all else partition.when_flushed
        when(self._end_offset, settled, timeout_ms)


class NewBatch:
    """A batch for one partition. A batch without records is rejected; the bytes are stamped in place."""

    __slots__ = ("index", "records", "topic")

    def __init__(self, topic: TopicRef, index: int, records: memoryview | None) -> None:
        self.topic = topic
        self.index = index
        self.records = records

    @property
    def units(self) -> int:
        """Cost of validating or appending it, see SLICE_UNITS."""
        return 1 + len(self.records or b"") // BYTES_PER_UNIT

    def own(self) -> None:
        """Copy the records: the append is deferred, and the receive buffer that contains them will be reused."""
        if self.records is not None:
            self.records = memoryview(bytearray(self.records))


class InTransaction(NamedTuple):
    """The transaction of a produce request."""

    transactional_id: str
    may_add: bool
    """Whether missing partitions may be added to it, as in protocol V2."""


class Produced(NamedTuple):
    """The outcomes of the batches of one request, in order."""

    outcomes: list[AppendedBatch | BrokerError]
    doubt: BrokerError | None
    """The error of batches that the transaction's coordinator did not vouch for."""


class ProduceVerbs:
    """Appends batches sent by clients."""

    def __init__(self, broker: Broker, authorization: Authorization, routes: Routes) -> None:
        self._broker = broker
        self.authorization = authorization
        self.find = routes.partition
        self.routes = routes
        self.slices = broker.runtime.slices
        self.workers = broker.runtime.workers

    def append(
        self, session: Session, topic: TopicRef, index: int, batch: memoryview | None, acks: int
    ) -> AppendedBatch | None:
        """Append one batch now; None if its validation is expensive, so that it must go through `append_all`."""
        partition = self.target(session, topic, index, batch)
        assert batch is not None
        admitted = partition.admission.now(batch, acks)
        if admitted is None:
            return None
        return AppendedBatch(partition, partition.append_admitted(admitted), acks)

    def append_all(
        self,
        session: Session,
        batches: Sequence[NewBatch],
        acks: int,
        within: InTransaction | None,
        hold: Hold,
        done: Callable[[Produced | BaseException], None],
    ) -> None:
        """Append batches in order, after all of them are validated.

        `done` is called once, possibly before this returns; with an exception only in case of a defect.
        """
        _Production(self, session, batches, acks, within, hold, done).start()

    def target(self, session: Session, topic: TopicRef, index: int, batch: memoryview | None) -> Partition:
        """The partition of a batch. Raises if the caller may not write to it or it is offline."""
        if self.authorization.authorizer is not None:
            self.authorization.authorize_topic(session, Operation.WRITE, topic)
        try:
            partition = self.find(topic, index)
        except (NotLeader, LeaderNotAvailable):
            if batch:
                self._expect(topic, index, batch)
            raise
        if not batch:
            raise InvalidRecord("the request carries no batch for this partition")
        if partition.is_internal:
            check_written_by_clients(partition)
        if partition.failure is not None:
            partition.check_online()
        return partition

    def _expect(self, topic: TopicRef, index: int, batch: memoryview) -> None:
        """This broker may lead a partition that it holds in the next moment. The first batch of a producer must not be
        overtaken then by one that was sent right after it."""
        catalog = self._broker.catalog
        found = catalog.find(topic) if isinstance(topic, str) else catalog.find_by_id(topic)
        held = None if found is None else self._broker.find_held(PartitionId(found.id, index))
        if held is not None and len(batch) >= BATCH_HEADER_BYTES:
            header = decode_header(batch)
            if header.producer_id >= 0:
                held.log.producers.expect(header, self._broker.runtime.clock.now_ms())


class _Production:
    """One request with several batches, or with one whose validation is expensive."""

    def __init__(
        self,
        verbs: ProduceVerbs,
        session: Session,
        batches: Sequence[NewBatch],
        acks: int,
        within: InTransaction | None,
        hold: Hold,
        done: Callable[[Produced | BaseException], None],
    ) -> None:
        self._verbs = verbs
        self._session = session
        self._batches = batches
        self._acks = acks
        self._within = within
        self._hold = hold
        self._told = done
        self._is_long = len(batches) > CHUNK
        """There are too many batches to append in one loop iteration."""
        self._admitted: list[Admitted | BrokerError] = []
        """For each batch: the validated batch, or the error."""
        self._doubt: BrokerError | None = None
        self._unvouched: set[TopicPartition] = set()
        """The partitions that the coordinator does not vouch for."""
        self._guards: dict[TopicPartition, tuple[Partition, int, MarkerGuard]] = {}
        """Partition, producer and guard of every transactional batch."""

    def start(self) -> None:
        if self._within is None:
            self._finish()
        else:
            self._start_in_transaction(self._within)

    def _target(self, batch: NewBatch) -> Partition:
        return self._verbs.target(self._session, batch.topic, batch.index, batch.records)

    # -- in a transaction

    def _start_in_transaction(self, within: InTransaction) -> None:
        """Append once the coordinator vouches for the partitions in which the transaction is not open yet."""
        try:
            resource = transactional_id_resource(within.transactional_id)
            self._verbs.authorization.authorize(self._session, Operation.WRITE, resource)
        except BrokerError as error:
            self._done(Produced([error] * len(self._batches), None))
            return
        claims, places = self._find_unvouched()
        if len(claims) > 1:
            self._doubt = WrongProducer("the request contains batches of more than one producer")
            self._unvouched = places
        if self._doubt is not None or not places:
            self._finish()
            return
        # The coordinator may have to persist an entry first, so its callback can run after this request returned to the
        # connection. The hold keeps later requests from overtaking this one; the records are copied below, because
        # the receive buffer is reused as soon as this returns. A callback that already ran needs neither.
        is_vouched = False
        release_hold = self._hold()

        def vouched(error: BrokerError | None) -> None:
            nonlocal is_vouched
            is_vouched = True
            if error is not None:
                self._doubt, self._unvouched = error, places
            self._finish()
            release_hold()

        (by,) = claims
        self._verbs.routes.admission(within.transactional_id).admit(
            within.transactional_id, by, sorted(places), vouched, may_add=within.may_add
        )
        if not is_vouched:
            self._own_records()

    def _find_unvouched(self) -> tuple[set[Claim], set[TopicPartition]]:
        """The producers of the batches, and the partitions in which their transaction is not open. Invalid batches are
        rejected later."""
        claims: set[Claim] = set()
        places: set[TopicPartition] = set()
        for batch in self._batches:
            try:
                partition = self._target(batch)
                header = decode_header(batch.records or b"")
            except BrokerError:
                continue
            if not header.attributes & TRANSACTIONAL:
                continue
            by = Claim(header.producer_id, header.producer_epoch)
            claims.add(by)
            self._guard(partition, by)
            # With an earlier batch of this transaction in the log, the coordinator has vouched for this partition
            # and its marker will come: no second check is needed.
            if not partition.log.producers.is_in_transaction(*by):
                places.add(TopicPartition(partition.topic, batch.index))
        return claims, places

    def _guard(self, partition: Partition, by: Claim) -> None:
        """Notice a marker that arrives before the batch is appended."""
        place = TopicPartition(partition.topic, partition.index)
        if place not in self._guards:
            self._guards[place] = partition, by.producer_id, partition.guards.begin(*by)

    def _done(self, outcome: Produced | BaseException) -> None:
        for partition, producer_id, guard in self._guards.values():
            partition.guards.end(producer_id, guard)
        self._told(outcome)

    # -- validation

    def _finish(self) -> None:
        if self._is_long:
            self._finish_sliced()
        elif run_unsliced(self._admit_now()):
            self._append_all()
        else:
            self._admit_apart()

    def _finish_sliced(self) -> None:
        release_hold = self._hold()
        self._own_records()

        def admitted(outcome: bool | Exception) -> None:
            if outcome is True:
                self._append_all()
            elif outcome is False:
                self._admit_apart()
            else:
                self._done(outcome)
            release_hold()

        self._verbs.slices.queue(self._admit_now(), admitted)

    def _admit_now(self) -> Sliced[bool]:
        """Validate every batch on the loop; False if one of them must be decompressed in a worker."""
        self._admitted = []
        for batch in self._batches:
            yield batch.units
            try:
                partition = self._target(batch)
                assert batch.records is not None
                admitted = partition.admission.now(batch.records, self._acks)
            except BrokerError as error:
                self._admitted.append(error.with_traceback(None))  # its frames would keep the batch in memory
                continue
            if admitted is None:
                return False
            self._admitted.append(admitted)
        return True

    def _admit_apart(self) -> None:
        """Validate every batch in a worker."""
        release_hold = self._hold()
        self._own_records()
        jobs: list[Callable[[], Admitted] | BrokerError] = []
        for batch in self._batches:
            try:
                partition = self._target(batch)
                assert batch.records is not None
                jobs.append(partition.admission.work(batch.records, self._acks))
            except BrokerError as error:
                jobs.append(error.with_traceback(None))

        def admitted(outcome: list[Admitted | BrokerError] | BaseException) -> None:
            release_hold()
            if isinstance(outcome, BaseException):
                self._done(outcome)
                raise outcome
            self._admitted = outcome
            self._append_all()

        self._verbs.workers.submit(lambda: run_all(jobs), admitted)

    def _own_records(self) -> None:
        for batch in self._batches:
            batch.own()

    # -- append

    def _append_all(self) -> None:
        if not self._is_long:
            self._done(run_unsliced(self._append()))
            return
        release_hold = self._hold()

        def appended(outcome: Produced | Exception) -> None:
            release_hold()
            self._done(outcome)

        self._verbs.slices.queue(self._append(), appended)

    def _append(self) -> Sliced[Produced]:
        outcomes: list[AppendedBatch | BrokerError] = []
        for batch, admitted in zip(self._batches, self._admitted, strict=True):
            outcomes.append(self._append_one(batch, admitted))
            yield batch.units
        return Produced(outcomes, self._doubt)

    def _append_one(self, batch: NewBatch, admitted: Admitted | BrokerError) -> AppendedBatch | BrokerError:
        """Looks up the partition again: its topic may have been deleted while a worker was busy."""
        is_within = self._within is not None
        try:
            partition = self._target(batch)
            place = TopicPartition(partition.topic, batch.index)
            if is_within and place in self._unvouched:
                assert self._doubt is not None
                return self._doubt
            if place in self._guards and self._guards[place][2].is_void:
                self._doubt = self._doubt or TransactionBusy("the transaction was ended meanwhile; retry")
                return self._doubt
            if isinstance(
                admitted, BrokerError
            ):  # raising it again would create a reference cycle with its batch
                return admitted
            appended = partition.append_admitted(admitted, in_transaction=is_within)
            return AppendedBatch(partition, appended, self._acks)
        except BrokerError as error:
            return error


def run_all(jobs: Sequence[Callable[[], Admitted] | BrokerError]) -> list[Admitted | BrokerError]:
    """Run validations in a worker; a rejected batch does not affect the others."""
    outcomes: list[Admitted | BrokerError] = []
    for job in jobs:
        if isinstance(job, BrokerError):
            outcomes.append(job)
            continue
        try:
            outcomes.append(job())
        except BrokerError as error:
            forget_variables(error)  # including the decompressed batch
            outcomes.append(error)
    return outcomes


class WrittenPartition(Protocol):
    """A partition that records are to be written to, here or on another broker."""

    @property
    def topic(self) -> str: ...

    @property
    def is_internal(self) -> bool: ...


def check_written_by_clients(partition: WrittenPartition) -> None:
    """Raise InvalidTopic for internal topics."""
    if partition.is_internal:
        raise InvalidTopic(f"{partition.topic!r} is an internal topic, only the broker writes to it")
