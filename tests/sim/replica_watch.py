"""The invariants of replicas, checked where a log, a high watermark or the metadata changes. Never repairs anything.

Two rules carry the rest. A batch is named by its leader epoch and its offset, and nobody but the leader of that epoch
makes one. A follower appends a batch only behind the batch that it has on the leader. By these, two logs that share a
batch are equal up to it, so it is enough to compare one batch to know that a replica holds all that was committed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas
from penstock.core.model import PartitionId
from penstock.core.records.batch import BatchHeader, decode_header
from penstock.core.records.build import open_batch
from penstock.core.replication.tracker import FollowerFetch
from penstock.node.broker import Broker
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.replica import Replica
from sim.cluster_machines import BrokerMachine

Fail = Callable[[str], NoReturn]


class BatchName(NamedTuple):
    """A batch of a partition: nobody else writes another one in this epoch at this offset."""

    base_offset: int
    epoch: int


class Written(NamedTuple):
    """What is known of a batch."""

    checksum: int
    before: BatchName | None
    """The batch before it in the log of the leader that made it; None if it was the first there."""


class ReplicaWatch:
    """What was written and committed anywhere. `truth` is the state of the metadata log."""

    def __init__(self, fail: Fail, truth: Catalog, machines: dict[int, BrokerMachine]) -> None:
        self._fail = fail
        self._truth = truth
        self._machines = machines
        self._written: dict[PartitionId, dict[BatchName, Written]] = {}
        self._logs: dict[Replica, list[BatchName]] = {}
        """The batches of every log that was opened, by offset."""
        self._committed: dict[PartitionId, int] = {}
        """The highest offset up to which a leader has committed."""
        self._last: dict[PartitionId, BatchName] = {}
        """The last committed batch."""
        self._fetched: dict[tuple[PartitionId, int, int, int], int] = {}
        """Partition, leader epoch, follower and its broker epoch → the offset that it last asked for."""
        self.able: set[int] = set()
        """The brokers that could lead before the last change."""
        self.checks = 0

    def committed(self, partition: PartitionId) -> int:
        """Everything before it was committed, and stays for ever unless it is deleted."""
        return self._committed.get(partition, 0)

    # -- logs

    def opened(self, replica: Replica) -> list[BatchName]:
        """The batches of a log. What recovery found is held against what was written."""
        known = self._logs.get(replica)
        if known is None:
            known = []
            for segment in replica.log.segments:
                for found in segment.walk(0, segment.size, verify=False):
                    self._found(replica, known, found.header)
            self._logs[replica] = known
        return known

    def _found(self, replica: Replica, before: list[BatchName], header: BatchHeader) -> None:
        """A batch may be there although its writer died while it was written; nobody has seen that one yet."""
        name = BatchName(header.base_offset, header.leader_epoch)
        written = Written(header.crc, before[-1] if before else None)
        if not replica.config.cleanup_compact:
            first = self._written.setdefault(id_of(replica), {}).setdefault(name, written)
            is_behind_another = None not in (written.before, first.before) and first.before != written.before
            if first.checksum != header.crc or is_behind_another:
                self._fail(f"{replica} was opened with {name}: {written}, but it was written as {first}")
        before.append(name)

    def appended(self, replica: Replica, header: BatchHeader) -> None:
        """A batch was appended to a log that `opened` knows."""
        log = self._logs[replica]
        name = BatchName(header.base_offset, header.leader_epoch)
        written = Written(header.crc, log[-1] if log else None)
        known = self._written.setdefault(id_of(replica), {})
        if header.leader_epoch > replica.leader_epoch:
            self._fail(f"{replica} got {name} in leader epoch {replica.leader_epoch}")
        if replica.is_leader:
            if name in known:
                self._fail(f"{replica}: the leader made {name} twice")
            known[name] = written
        elif not replica.config.cleanup_compact:
            self._check_copy(replica, name, written, known.get(name))
        log.append(name)
        self.checks += 1

    def _check_copy(self, replica: Replica, name: BatchName, copied: Written, made: Written | None) -> None:
        if made is None or made.checksum != copied.checksum:
            self._fail(
                f"{replica} copied {name} with checksum {copied.checksum}, which no leader wrote: {made}"
            )
        if None not in (copied.before, made.before) and copied.before != made.before:  # both logs reach back
            self._fail(f"{replica} has {name} behind {copied.before}, its leader had it behind {made.before}")

    def truncated(self, replica: Replica) -> None:
        """A log was cut at its end, or begins again somewhere else."""
        log = self._logs[replica]
        del log[bisect_left(log, (replica.end_offset,)) :]
        if replica.log.start_offset == replica.end_offset:
            log.clear()
        placed = self._truth.cluster.find_partition(id_of(replica))
        if placed is not None:
            self.check_complete(placed)

    # -- commits

    def commits(self, leader: Replica, offset: int, broker: Broker) -> None:
        """A leader is about to move its high watermark there."""
        place, log = id_of(leader), self.opened(leader)
        offset = min(offset, leader.end_offset)
        self._check_quorum(leader, offset, broker)
        if offset <= self.committed(place):
            return
        last = log[bisect_left(log, (offset,)) - 1] if log and log[0].base_offset < offset else None
        self._committed[place] = offset
        if last is not None:
            self._last[place] = last
        placed = self._truth.cluster.find_partition(place)
        if placed is not None:
            self.check_complete(placed)

    def _check_quorum(self, leader: Replica, offset: int, broker: Broker) -> None:
        """The ISR that the leader knows is sufficient, and all of the real one have fetched that in its epoch."""
        place = id_of(leader)
        known, real = broker.catalog.cluster.find_partition(place), self._truth.cluster.find_partition(place)
        if known is None or real is None or real.leader_epoch != leader.leader_epoch:
            return
        size_min = broker.catalog.cluster.isr_size_min(place.topic_id)
        if not is_sufficient(known, size_min):
            self._fail(
                f"{leader} commits up to {offset} with {known}, at least {size_min} have to be in sync"
            )
        for one in real.isr:
            registered = self._truth.cluster.find_broker(one)
            if one == real.leader or registered is None:
                continue
            fetched = self._fetched.get((place, leader.leader_epoch, one, registered.epoch), -1)
            if fetched < offset:
                self._fail(
                    f"{leader} commits up to {offset}, broker {one} has fetched up to {fetched}: {real}"
                )

    def fetched(self, placed: PartitionReplicas, follower: int, fetched: FollowerFetch) -> None:
        """A follower has told its leader how far it has everything."""
        self._fetched[placed.id, placed.leader_epoch, follower, fetched.broker_epoch] = fetched.offset

    # -- who has to be complete

    def holds_committed(self, replica: Replica) -> bool:
        """Whether a log has everything that was committed. Nothing can be told of one that is offline."""
        if replica.failure is not None:
            return True
        place = id_of(replica)
        committed, last = self.committed(place), self._last.get(place)
        if replica.end_offset < committed:
            return False
        if replica.config.cleanup_compact or last is None or replica.log.start_offset >= committed:
            return True
        log = self.opened(replica)
        at = bisect_left(log, last)
        return at < len(log) and log[at] == last

    def check_complete(self, placed: PartitionReplicas) -> None:
        """Every member of ISR and ELR that runs holds all that was committed."""
        if not self.committed(placed.id):
            return
        for one in (*placed.isr, *placed.elr):
            self._check_member(placed, one)
        self.checks += 1

    def check_broker(self, broker_id: int) -> None:
        """The same for all partitions of one broker, which has registered."""
        for placed in self._truth.cluster.held_by(broker_id):
            if self.committed(placed.id) and broker_id in (*placed.isr, *placed.elr):
                self._check_member(placed, broker_id)

    def _check_member(self, placed: PartitionReplicas, broker_id: int) -> None:
        broker = self._machines[broker_id].broker
        registered = self._truth.cluster.find_broker(broker_id)
        if broker is None or registered is None or incarnation_of(broker) != registered.incarnation_id:
            return
        replica = broker.find_held(placed.id)
        if replica is None:
            if broker.catalog.find_by_id(placed.topic_id) is not None:
                self._fail(f"broker {broker_id} holds no replica of {placed}, but is said to be complete")
        elif not self.holds_committed(replica):
            self._fail(
                f"broker {broker_id} ends {replica} at {replica.end_offset}, with {self.opened(replica)[-2:]};"
                f" {self._last.get(placed.id)} up to {self.committed(placed.id)} is committed, and it is a member of"
                f" {placed}"
            )

    # -- metadata

    def placed(self, before: PartitionReplicas | None, after: PartitionReplicas) -> None:
        """A partition has changed in the metadata log."""
        size_min = self._truth.cluster.isr_size_min(after.topic_id)
        isr, elr, replicas = set(after.isr), set(after.elr), set(after.replicas)
        if isr & elr or not isr | elr <= replicas or len(isr) != len(after.isr):
            self._fail(f"ISR and ELR overlap, or leave the replicas: {after}")
        if after.elr and is_sufficient(after, size_min):
            self._fail(f"{after} has an ELR although {size_min} in the ISR are enough")
        joined = isr - set(() if before is None else before.isr)
        if not all(map(self._truth.cluster.can_lead, joined - self.able)):
            self._fail(f"{before} became {after}: a broker joined the ISR that is fenced or stopping")
        if before is not None and after.leader not in (NO_LEADER, before.leader):
            self._check_elected(before, after)
        if after.is_recovering and (before is None or not before.is_recovering):
            self._fail(f"{before} became {after}: nobody has asked for an election that may lose records")
        self.check_complete(after)

    def _check_elected(self, before: PartitionReplicas, after: PartitionReplicas) -> None:
        """A new leader was complete before, or the old one has found it to be in sync."""
        leader, place = after.leader, after.id
        registered = self._truth.cluster.find_broker(leader)
        if leader in (*before.isr, *before.elr) or after.is_recovering or registered is None:
            return
        fetched = self._fetched.get((place, before.leader_epoch, leader, registered.epoch), -1)
        if fetched < self.committed(place):
            self._fail(f"{before} became {after}: the leader had fetched up to {fetched}")

    # -- the end

    def compare(self, placed: PartitionReplicas, replicas: list[Partition]) -> str | None:
        """Why replicas are not at the end of their leader, which is the first of them; None if they are."""
        if len(replicas) < len(placed.replicas) or not replicas[0].is_leader:
            return f"{placed} is led by nobody, or has replicas on brokers that do not run"
        leader = _extent(replicas[0])
        if leader.high_watermark != leader.end:
            return f"{replicas[0]} is committed up to {leader}"
        for one in replicas[1:]:
            copy = _extent(one)
            # What an earlier leader has deleted, the present one need not have heard of.
            if copy.start < leader.start or copy[1:] != leader[1:]:
                return f"a copy of {one} has {copy}, the leader {leader}"
        return None

    def compare_whole(self, replicas: list[Partition]) -> None:
        """What is on the disks is the same, byte by byte, or record by record where logs are compacted."""
        start = max(one.start_offset for one in replicas)
        contents = [
            _latest(one, start) if one.config.cleanup_compact else _batches(one, start) for one in replicas
        ]
        if any(one != contents[0] for one in contents):
            self._fail(f"replicas of {replicas[0]} differ: {contents}")
        self.checks += 1


class _Extent(NamedTuple):
    """The offsets of one log."""

    start: int
    end: int
    high_watermark: int


def _extent(replica: Replica) -> _Extent:
    return _Extent(replica.start_offset, replica.end_offset, replica.high_watermark)


def _batches(replica: Replica, start: int) -> list[bytes]:
    """All batches that reach beyond an offset."""
    return [
        bytes(found.raw)
        for segment in replica.log.segments
        for found in segment.walk(0, segment.size, verify=True)
        if found.header.next_offset > start
    ]


def _latest(replica: Replica, start: int) -> dict[bytes | None, tuple[int, bytes]]:
    """The last record of each key, unless it says that the key is gone."""
    found: dict[bytes | None, tuple[int, bytes]] = {}
    for raw in _batches(replica, start):
        header = decode_header(raw)
        for record in () if header.is_control else open_batch(memoryview(raw), header):
            if record.value is None:
                found.pop(record.key, None)
            else:
                found[record.key] = record.offset, bytes(record.value)
    return found


def id_of(replica: Replica) -> PartitionId:
    return PartitionId(replica.topic_id, replica.index)


def incarnation_of(broker: Broker) -> str:
    assert broker.membership is not None
    return broker.membership._profile.incarnation_id


def is_sufficient(placed: PartitionReplicas, size_min: int) -> bool:
    """Whether records are committed with this ISR: strictly, and without those that are being added."""
    counted = sum(one not in placed.adding for one in placed.isr)
    return counted >= min(size_min, len(placed.replicas) - len(placed.adding))
