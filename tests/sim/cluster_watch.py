"""The invariants of a cluster, checked where something changes: at every append to a log, every step of a high
watermark, every entry of the metadata log, and every leadership. Never repairs anything.

`Watch` holds what the whole world knows, which no broker does. `watching` puts its checks around the broker's own
functions for one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from penstock.core.limits import PRODUCER_IDS_BLOCK
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import NO_OWNER, Event, ProducerIdsReserved, TopicSaved
from penstock.core.machines.cluster.events import BrokerSaved, ClusterSaved, PartitionSaved
from penstock.core.machines.cluster.values import NO_LEADER, BrokerRegistration, PartitionReplicas
from penstock.core.model import PartitionId
from penstock.core.records.batch import decode_header
from penstock.core.replication.tracker import FollowerFetch, ReplicaTracker
from penstock.node.broker import Broker
from penstock.node.cluster.catalog_host import CatalogHost
from penstock.node.cluster.metadata_log import Entry
from penstock.node.coordinators.shard import Shard
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.replica import Replica
from sim.cluster_machines import BrokerMachine
from sim.ledger import Broken
from sim.loop import SimLoop
from sim.replica_watch import ReplicaWatch, id_of, incarnation_of

Leadership = tuple[str, bytes, int, int]
"""What is led (a partition, a shard), topic id, index, epoch."""


class Watch:
    """Everything that is known of one run."""

    def __init__(self, loop: SimLoop, machines: dict[int, BrokerMachine]) -> None:
        self._loop = loop
        self._machines = machines
        self._truth = Catalog()
        self._states: dict[int, object] = {0: _state_of(self._truth)}
        """Index of the metadata log → the state that it stands for."""
        self._leaders: dict[Leadership, str] = {}
        """Who has led in an epoch: the incarnation of the process."""
        self.replicas = ReplicaWatch(self._fail, self._truth, machines)
        self._producer_ids: set[int] = set()
        self.end_index = 0
        """Where the metadata log ends, as far as anybody knows."""
        self.checks = 0
        self.moves = 0
        """Partitions that have arrived on another broker."""

    @property
    def truth(self) -> Catalog:
        """The state after the last entry of the metadata log."""
        return self._truth

    def _here(self) -> BrokerMachine:
        return self._machines[int(self._loop.here().name.rpartition("-")[2])]

    def _fail(self, why: str) -> NoReturn:
        """End the run at once: the code that is watched may catch what is raised in it."""
        broken = Broken(why)
        self._loop.call_exception_handler({"message": "an invariant is broken", "exception": broken})
        raise broken

    # -- the metadata log

    def taken(self, index: int, events: tuple[Event, ...]) -> None:
        """The store has appended these events, which take effect together."""
        if index != self.end_index:
            self._fail(f"events are missing between {self.end_index} and {index}")
        cluster = self._truth.cluster
        changes: dict[PartitionId, PartitionReplicas | None] = {}
        # One change may create a topic, and the next one begin to stop its broker.
        self.replicas.able = {one.broker_id for one in cluster.brokers if cluster.can_lead(one.broker_id)}
        for event in events:
            self._check_event(event)
            if isinstance(event, PartitionSaved):
                changes.setdefault(event.partition.id, cluster.find_partition(event.partition.id))
            self._truth.apply(event)
        self._check_changes(
            changes, {event.broker.broker_id for event in events if isinstance(event, BrokerSaved)}
        )
        self.end_index = index + len(events)
        self._states[self.end_index] = _state_of(self._truth)
        self.checks += 1

    def _check_changes(
        self, before: dict[PartitionId, PartitionReplicas | None], broker_ids: set[int]
    ) -> None:
        cluster = self._truth.cluster
        for place, earlier in before.items():
            placed = cluster.find_partition(place)
            if placed is not None:  # it was not deleted by the same events
                self._check_leader(placed)
                self.replicas.placed(earlier, placed)
        for broker_id in sorted(broker_ids):
            for placed in cluster.held_by(broker_id):
                self._check_leader(placed)
            self.replicas.check_broker(broker_id)

    def _check_event(self, event: Event) -> None:
        match event:
            case ProducerIdsReserved(upto):
                if upto != self._truth.producer_ids_upto + PRODUCER_IDS_BLOCK:
                    self._fail(f"the producer ids up to {upto} are not the next block")
            case BrokerSaved(broker):
                self._check_registration(self._truth.cluster.find_broker(broker.broker_id), broker)
            case PartitionSaved(placed):
                self._check_epochs(self._truth.cluster.find_partition(placed.id), placed)
            case _:
                pass

    def _check_registration(self, earlier: BrokerRegistration | None, now: BrokerRegistration) -> None:
        """A process has one broker epoch. The next one registers when this one is fenced, in a higher epoch."""
        if earlier is None:
            return
        if now.incarnation_id == earlier.incarnation_id:
            if now.epoch != earlier.epoch:
                self._fail(f"{now} has another epoch, but is the same process")
        elif not earlier.is_fenced:
            self._fail(f"{now} replaces a registration that was not fenced")
        elif now.epoch <= earlier.epoch:
            self._fail(f"{now} registered in the epoch of its predecessor")

    def _check_epochs(self, before: PartitionReplicas | None, after: PartitionReplicas) -> None:
        """The epoch of a partition counts its changes, that of its leader counts leaders, completed moves and failed
        replicas."""
        if before is None:
            return
        is_new_term = after.leader != before.leader or not set(before.replicas) <= set(after.replicas)
        may_be_failure = after.replicas == before.replicas and set(after.isr) <= set(before.isr)
        terms = after.leader_epoch - before.leader_epoch
        is_right = terms == 1 if is_new_term else terms == 0 or (terms == 1 and may_be_failure)
        if after.partition_epoch != before.partition_epoch + 1 or not is_right:
            self._fail(f"an epoch is wrong: {before} became {after}")
        if before.is_moving and not after.is_moving:
            self._check_move(before, after)

    def _check_move(self, before: PartitionReplicas, after: PartitionReplicas) -> None:
        """A move ends with complete replicas, wherever it ends: it may be replaced by one that is over at once."""
        if not set(after.replicas) & {*after.isr, *after.elr}:
            self._fail(f"{after} has no complete replica, it was {before}")
        if not {*after.replicas} - {*before.originals} <= {*after.isr}:
            self._fail(f"{before} ended at {after}, although not all added replicas are in sync")
        self.moves += after.replicas != before.originals

    def _check_leader(self, placed: PartitionReplicas) -> None:
        """A fenced broker is in no ISR and leads nothing; a leader is in the ISR."""
        if any(map(self._truth.cluster.is_fenced, placed.isr)):
            self._fail(f"{placed} has a fenced broker in its ISR")
        able = [*map(self._truth.cluster.can_lead, placed.isr)]
        if any(able) and not all(able):
            self._fail(f"{placed} has a stopping broker in its ISR, although another one can lead")
        if placed.leader != NO_LEADER and placed.leader not in placed.isr:
            self._fail(f"{placed} has a leader outside of its ISR")

    def arrives(self, entry: Entry) -> None:
        """A broker is about to apply an entry. Of a store that nobody looks into, the first one tells what it holds."""
        if entry.index <= self.end_index:
            return
        if entry.is_snapshot:
            self._adopt(entry.events, entry.index)
        else:
            self.taken(entry.index - len(entry.events), entry.events)

    def applied(self, host: CatalogHost, entry: Entry) -> None:
        """A broker has applied an entry: its catalog is what the log stands for at that index."""
        if host.index != entry.index:
            self._fail(f"the entry of index {entry.index} was applied at {host.index}")
        self._compare(host)

    def recovered(self, host: CatalogHost) -> None:
        """A broker has replayed the log to its end."""
        if host.index > self.end_index:
            self._adopt(_events_of(host._catalog), host.index)
        self._compare(host)

    def _adopt(self, snapshot: Sequence[Event], index: int) -> None:
        for event in self._truth.decide_catch_up(snapshot):
            self._truth.apply(event)
        self.end_index = index
        self._states[index] = _state_of(self._truth)

    def _compare(self, host: CatalogHost) -> None:
        found, truth = _state_of(host._catalog), self._states.get(host.index)
        if found != truth:
            where = f"{self._loop.here().name} at index {host.index}"
            self._fail(f"{where} has another state than the metadata log:\n{found}\n{truth}")
        self.checks += 1

    # -- leaders

    def leads(self, what: str, topic_id: bytes, index: int, epoch: int) -> None:
        """A process acts as the leader of something in an epoch: it is the only one that ever does."""
        machine = self._here()
        incarnation = _incarnation(machine.broker)
        first = self._leaders.setdefault((what, topic_id, index, epoch), incarnation)
        if first != incarnation:
            self._fail(
                f"{what} {index} of {topic_id.hex()} is led in epoch {epoch} by {machine.name} ({incarnation}), and"
                f" was by {first}"
            )
        self.checks += 1

    def begins(self, partition: Replica) -> None:
        """A replica leads from now on: it holds everything that was ever committed, unless others lead since, and it
        has not heard of them yet."""
        placed = self._truth.cluster.find_partition(id_of(partition))
        if placed is None or placed.leader_epoch != partition.leader_epoch:
            return
        if not self.replicas.holds_committed(partition):
            where = f"{self._here().name} leads {partition} in epoch {partition.leader_epoch}"
            committed = self.replicas.committed(id_of(partition))
            self._fail(f"{where} up to {partition.end_offset}, but others were committed up to {committed}")
        self.checks += 1

    def appended(self, partition: Replica, offset: int, batch: memoryview) -> None:
        """A batch was appended, by the leader or by a replica that copies it."""
        header = decode_header(batch)
        if partition.is_leader:
            if (header.base_offset, header.leader_epoch) != (offset, partition.leader_epoch):
                self._fail(f"{partition}: a batch carries another offset or epoch than those of its append")
            self.leads("partition", partition.topic_id, partition.index, partition.leader_epoch)
            self._check_acting(partition, "appends to")
        self.replicas.appended(partition, header)

    def commits(self, partition: Replica, offset: int) -> None:
        """The high watermark is about to move there, and producers to be told."""
        broker = self._here().broker
        if not partition.is_leader:
            if offset > self.replicas.committed(id_of(partition)):
                self._fail(
                    f"{self._here().name} takes {offset} for committed in {partition}, which nobody did"
                )
        elif broker is not None:
            self._check_acting(partition, "commits in")
            self.replicas.commits(partition, offset, broker)

    def _check_acting(self, partition: Replica, what: str) -> None:
        """A broker acts as a leader only while the metadata that it has heard of says so: not once it was fenced."""
        broker = self._here().broker
        self.checks += 1
        if broker is None:
            return
        placed = broker.catalog.cluster.find_partition(PartitionId(partition.topic_id, partition.index))
        if (
            placed is None
            or placed.leader != broker.identity.node_id
            or placed.leader_epoch != partition.leader_epoch
        ):
            where = f"{self._here().name} {what} {partition} in epoch {partition.leader_epoch}"
            self._fail(f"{where}, but knows {placed}")

    def reserved(self, producer_id: int) -> None:
        """A producer id was handed out."""
        if producer_id in self._producer_ids:
            self._fail(f"producer id {producer_id} was handed out twice")
        self._producer_ids.add(producer_id)
        self.checks += 1


def _incarnation(broker: Broker | None) -> str:
    if broker is None:
        return "a process that recovers"
    return incarnation_of(broker)


def _state_of(catalog: Catalog) -> object:
    cluster = catalog.cluster
    return (
        tuple(catalog.topics),
        tuple(cluster.partitions()),
        tuple(cluster.brokers),
        catalog.producer_ids_upto,
        cluster.broker_epoch,
    )


def _events_of(catalog: Catalog) -> list[Event]:
    """A snapshot of what `_state_of` compares."""
    cluster = catalog.cluster
    return [
        ClusterSaved(cluster.cluster_id or "", cluster.broker_epoch),
        *map(BrokerSaved, cluster.brokers),
        *map(TopicSaved, catalog.topics),
        *map(PartitionSaved, cluster.partitions()),
        ProducerIdsReserved(catalog.producer_ids_upto, NO_OWNER),
    ]


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Put the checks around the functions of all brokers, for as long as the run takes."""
    wrapped = [
        (Partition, "_write", _around_write(watch, Partition._write)),
        (Replica, "advance_high_watermark", _around_advance(watch, Replica.advance_high_watermark)),
        (Replica, "truncate", _around_cut(watch, Replica.truncate)),
        (Replica, "restart", _around_cut(watch, Replica.restart)),
        (ReplicaTracker, "note_fetch", _around_fetch(watch, ReplicaTracker.note_fetch)),
        (Replica, "lead", _around_begin(watch, Replica.lead)),
        (Shard, "lead", _around_lead(watch, Shard.lead)),
        (CatalogHost, "_take", _around_take(watch, CatalogHost._take)),
        (CatalogHost, "recover", _around_recover(watch, CatalogHost.recover)),
        (Broker, "reserved_producer_id", _around_reserved(watch, Broker.reserved_producer_id)),
    ]
    originals = [(owner, name, owner.__dict__.get(name)) for owner, name, _ in wrapped]
    for owner, name, function in wrapped:
        setattr(owner, name, function)
    try:
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original) if original is not None else delattr(owner, name)


def _around_write(watch: Watch, write: Callable[..., int]) -> Callable[..., int]:
    def checked(self: Partition, append: Any, batch: memoryview, *rest: Any) -> int:
        watch.replicas.opened(self)

        def append_and_tell(batch: memoryview, *rest: Any) -> int:
            offset = append(batch, *rest)
            watch.appended(self, offset, batch)  # before anybody is told, and before it is committed
            return int(offset)

        return write(self, append_and_tell, batch, *rest)

    return checked


def _around_advance(watch: Watch, advance: Callable[..., None]) -> Callable[..., None]:
    def checked(self: Replica, offset: int) -> None:
        if offset > self.high_watermark and self.failure is None:
            watch.commits(self, offset)
        advance(self, offset)

    return checked


def _around_fetch(watch: Watch, note_fetch: Callable[..., None]) -> Callable[..., None]:
    def checked(self: ReplicaTracker, broker_id: int, fetched: FollowerFetch, *rest: Any) -> None:
        note_fetch(self, broker_id, fetched, *rest)
        watch.replicas.fetched(self.placed, broker_id, fetched)

    return checked


def _around_cut(watch: Watch, cut: Callable[..., None]) -> Callable[..., None]:
    def checked(self: Replica, offset: int) -> None:
        watch.replicas.opened(self)
        cut(self, offset)
        watch.replicas.truncated(self)

    return checked


def _around_begin(watch: Watch, lead: Callable[..., None]) -> Callable[..., None]:
    def checked(self: Replica, epoch: int, **more: Any) -> None:
        lead(self, epoch, **more)
        if self.failure is None:
            watch.begins(self)

    return checked


def _around_lead(watch: Watch, lead: Callable[..., None]) -> Callable[..., None]:
    def checked(self: Shard[Any], epoch: int) -> None:
        lead(self, epoch)
        watch.leads("shard", self.partition.topic_id, self.partition.index, self.epoch)

    return checked


def _around_take(watch: Watch, take: Callable[..., Any]) -> Callable[..., Any]:
    async def checked(self: CatalogHost, entry: Entry) -> None:
        watch.arrives(entry)
        await take(self, entry)
        watch.applied(self, entry)

    return checked


def _around_recover(watch: Watch, recover: Callable[..., Any]) -> Callable[..., Any]:
    async def checked(self: CatalogHost, seen_index: int) -> Any:
        removed = await recover(self, seen_index)
        watch.recovered(self)
        return removed

    return checked


def _around_reserved(watch: Watch, reserved: Callable[..., int | None]) -> Callable[..., int | None]:
    def checked(self: Broker) -> int | None:
        producer_id = reserved(self)
        if producer_id is not None:
            watch.reserved(producer_id)
        return producer_id

    return checked
