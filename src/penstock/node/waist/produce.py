"""Produce: batches into partitions, acknowledged as their producer asked for. Never decodes a record.

Batches are admitted before they are appended; where that takes long, a worker does it, and batches to many partitions
are admitted and appended in slices. What a producer writes in a transaction is appended once the transaction's
coordinator vouches for it. While any of this is under way the caller's connection is held, so that a later batch
cannot overtake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.core.access import Operation, transactional_id_resource
from penstock.core.errors import BrokerError, InvalidRecord, InvalidTopic, WrongProducer
from penstock.core.machines.transactions.transactions import Claim
from penstock.core.model import Acks, TopicPartition, TopicRef
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
"""Called when a write cannot take effect at once; calls what it returns once it has."""


class AppendedBatch:
    """A batch that was appended. It is acknowledged once it is flushed or committed, as its producer asked for."""

    __slots__ = ("_end_offset", "_is_for_all", "_partition", "append_time_ms", "base_offset", "start_offset")

    def __init__(self, partition: Partition, appended: Appended, acks: int) -> None:
        self._partition = partition
        self._is_for_all = acks == Acks.ALL
        self.base_offset, self._end_offset, self.append_time_ms = appended
        self.start_offset = partition.start_offset
        """Where the partition's log starts."""

    @property
    def is_acknowledged(self) -> bool:
        partition = self._partition
        reached = partition.high_watermark if self._is_for_all else partition.flushed_offset
        return reached >= self._end_offset

    def when_acknowledged(self, settled: Settled, timeout_ms: int = 0) -> None:
        """Call back once with None, with what kept the batch from being acknowledged, or with TimedOut after
        `timeout_ms`, unless that is 0 or less. The batch stays in the log then."""
        partition = self._partition
        when = partition.when_committed if self._is_for_all else partition.when_flushed
        when(self._end_offset, settled, timeout_ms)


class NewBatch:
    """A batch for one partition. Without records it is refused; the bytes are stamped in place."""

    __slots__ = ("index", "records", "topic")

    def __init__(self, topic: TopicRef, index: int, records: memoryview | None) -> None:
        self.topic = topic
        self.index = index
        self.records = records

    @property
    def units(self) -> int:
        """What admitting or appending it costs, see SLICE_UNITS."""
        return 1 + len(self.records or b"") // BYTES_PER_UNIT

    def own(self) -> None:
        """Copy the records: their effect is deferred, and the buffer that they lie in is about to be reused."""
        if self.records is not None:
            self.records = memoryview(bytearray(self.records))


class InTransaction(NamedTuple):
    """The transaction that batches are written in."""

    transactional_id: str
    may_add: bool
    """Partitions that are not in it yet may be taken into it, as protocol V2 has it."""


class Produced(NamedTuple):
    """What became of the batches of one request, in their order."""

    outcomes: list[AppendedBatch | BrokerError]
    doubt: BrokerError | None
    """The outcome of batches that the transaction's coordinator did not vouch for."""


class ProduceVerbs:
    """Appends what clients send as batches."""

    def __init__(self, broker: Broker, authorization: Authorization, routes: Routes) -> None:
        self.authorization = authorization
        self.find = routes.partition
        self.routes = routes
        self.slices = broker.runtime.slices
        self.workers = broker.runtime.workers

    def append(
        self, session: Session, topic: TopicRef, index: int, batch: memoryview | None, acks: int
    ) -> AppendedBatch | None:
        """Append one batch now; None when admitting it takes long, so that it has to go through `append_all`."""
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
        """Append batches in their order, all of them or none before the last one is admitted.

        `done` is called once, maybe before this returns; with an exception only if that is a defect.
        """
        _Production(self, session, batches, acks, within, hold, done).start()

    def target(self, session: Session, topic: TopicRef, index: int, batch: memoryview | None) -> Partition:
        """The partition that a batch is for. Raises what forbids to write to it."""
        if self.authorization.authorizer is not None:
            self.authorization.authorize_topic(session, Operation.WRITE, topic)
        partition = self.find(topic, index)
        if not batch:
            raise InvalidRecord("the request carries no batch for this partition")
        if partition.is_internal:
            check_written_by_clients(partition)
        if partition.failure is not None:
            partition.check_online()
        return partition


class _Production:
    """One request of several batches, or of one that takes long."""

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
        self._done = done
        self._is_long = len(batches) > CHUNK
        """There are too many batches to append in one turn of the loop."""
        self._admitted: list[Admitted | BrokerError] = []
        """For each batch: the batch, checked, or why it was refused."""
        self._doubt: BrokerError | None = None
        self._unvouched: set[TopicPartition] = set()
        """The partitions for whose batches the coordinator does not vouch."""

    def start(self) -> None:
        if self._within is None:
            self._finish()
        else:
            self._start_in_transaction(self._within)

    def _target(self, batch: NewBatch) -> Partition:
        return self._verbs.target(self._session, batch.topic, batch.index, batch.records)

    # -- in a transaction

    def _start_in_transaction(self, within: InTransaction) -> None:
        """Where the transaction is not open yet, its coordinator has to vouch for the batch before it is appended."""
        try:
            resource = transactional_id_resource(within.transactional_id)
            self._verbs.authorization.authorize(self._session, Operation.WRITE, resource)
        except BrokerError as error:
            self._done(Produced([error] * len(self._batches), None))
            return
        claims, places = self._find_unvouched()
        if len(claims) > 1:
            self._doubt = WrongProducer("records of more than one producer came in one transaction")
            self._unvouched = places
        if self._doubt is not None or not places:
            self._finish()
            return
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
        self._verbs.routes.transactions(within.transactional_id).admit(
            within.transactional_id, by, sorted(places), vouched, may_add=within.may_add
        )
        if not is_vouched:
            self._own_records()

    def _find_unvouched(self) -> tuple[set[Claim], set[TopicPartition]]:
        """Who writes, and to which partitions that have no transaction of it open. What is wrong is refused later."""
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
            if not partition.log.producers.is_in_transaction(*by):
                places.add(TopicPartition(partition.topic, batch.index))
        return claims, places

    # -- admission

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
        """Admit every batch on the loop; False when one of them must be opened in a worker."""
        self._admitted = []
        for batch in self._batches:
            yield batch.units
            try:
                partition = self._target(batch)
                assert batch.records is not None
                admitted = partition.admission.now(batch.records, self._acks)
            except BrokerError as error:
                self._admitted.append(error.with_traceback(None))  # its frames would hold the batch
                continue
            if admitted is None:
                return False
            self._admitted.append(admitted)
        return True

    def _admit_apart(self) -> None:
        """Admit every batch in a worker."""
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

    # -- appending

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
        """The partition is looked up again: a topic may have been deleted while a worker was busy."""
        is_within = self._within is not None
        try:
            partition = self._target(batch)
            if is_within and TopicPartition(partition.topic, batch.index) in self._unvouched:
                assert self._doubt is not None
                return self._doubt
            if isinstance(admitted, BrokerError):  # raised again, it would hold its batch in a cycle
                return admitted
            appended = partition.append_admitted(admitted, in_transaction=is_within)
            return AppendedBatch(partition, appended, self._acks)
        except BrokerError as error:
            return error


def run_all(jobs: Sequence[Callable[[], Admitted] | BrokerError]) -> list[Admitted | BrokerError]:
    """Run admissions, in a worker; one that is refused does not keep the others."""
    outcomes: list[Admitted | BrokerError] = []
    for job in jobs:
        if isinstance(job, BrokerError):
            outcomes.append(job)
            continue
        try:
            outcomes.append(job())
        except BrokerError as error:
            forget_variables(error)  # among them what the batch was unfolded to
            outcomes.append(error)
    return outcomes


def check_written_by_clients(partition: Partition) -> None:
    """Refuse the broker's own topics."""
    if partition.is_internal:
        raise InvalidTopic(f"{partition.topic!r} is an internal topic, only the broker writes to it")
