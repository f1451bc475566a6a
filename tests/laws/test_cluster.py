"""Laws of the cluster state, found by running it: invariants after every append, no committed record lost, replay.

A model of the replicas runs beside the state: it knows which broker holds every committed record. It commits only to
the ISR, and loses what a broker may lose. Whoever is elected must hold what was committed, unless the election says
that records may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from cluster_replicas import NOTHING, Replicas, compacted, state
from penstock.core.errors import BrokerError
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.config_changes import ConfigChange, ConfigOp
from penstock.core.machines.catalog.events import Event, decode, encode
from penstock.core.machines.catalog.internal_topics import decide_raise_internal
from penstock.core.machines.cluster.assignment import default_factor
from penstock.core.machines.cluster.brokers import (
    RegistrationRequest,
    decide_drain,
    decide_fence,
    decide_stop,
    decide_unfence,
    decide_unregister,
)
from penstock.core.machines.cluster.election import ElectionKind
from penstock.core.machines.cluster.events import PartitionRemoved, PartitionSaved
from penstock.core.machines.cluster.partition_state import (
    IsrChange,
    IsrMember,
    decide_change_isr,
    decide_elect,
    decide_preferred,
    decide_replica_failed,
)
from penstock.core.machines.cluster.reassignment import (
    decide_cancel,
    decide_reassign,
    drain_moves,
    join_moves,
    rebalance_moves,
)
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.machines.cluster.values import NO_BROKER_EPOCH, NO_LEADER, PartitionReplicas
from penstock.core.model import Address, PartitionId

BROKERS = st.integers(1, 5)
BROKER_LISTS = st.one_of(
    *[st.lists(BROKERS, min_size=1, max_size=3, unique=True)] * 3, st.lists(BROKERS, max_size=3)
)
NAMES = st.sampled_from(["a", "b", "c"])
INTERNAL = "__subscriptions"


class ClusterMachine(RuleBasedStateMachine):
    """Appends decisions as a host does. Requests are made on a state that may be old by the time they arrive."""

    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.catalog = Catalog()
        self.events: list[Event] = []
        self.replicas = Replicas()
        self.incarnations = 0
        self.has_failed = False
        """Whether the event that is appended now is that of a failed replica."""
        self.late = Catalog()
        self.seen = 0
        """`late` has applied the events before this index."""

    @property
    def cluster(self) -> ClusterState:
        return self.catalog.cluster

    def append(self, decide: Callable[[], Sequence[Event]]) -> bool:
        """False if the decision was refused. Deciding changes nothing."""
        before = state(self.catalog)
        try:
            events = decide()
        except BrokerError:
            events = None
        assert state(self.catalog) == before, "decide wrote"
        for event in events or ():
            self.watch(event)
            self.catalog.apply(decode(*encode(event)))
            self.events.append(event)
        return events is not None

    def watch(self, event: Event) -> None:
        """Epochs only grow, and the model follows."""
        if isinstance(event, PartitionRemoved):
            self.replicas.remove(PartitionId(event.topic_id, event.partition))
        if not isinstance(event, PartitionSaved):
            return
        after, before = event.partition, self.cluster.find_partition(event.partition.id)
        self.replicas.place(after)
        if before is None:
            return
        assert after.partition_epoch == before.partition_epoch + 1
        has_new_leader = after.leader != before.leader
        is_removed = not set(before.replicas) <= set(after.replicas)
        assert after.leader_epoch == before.leader_epoch + (has_new_leader or is_removed or self.has_failed)
        if (has_new_leader or self.has_failed) and after.leader != NO_LEADER:
            self.replicas.lead(before, after)
        assert not after.is_moving or set(after.originals) == set(before.originals), (
            "cancelling would not go back"
        )

    # -- brokers

    @initialize(count=st.sampled_from([0, 1, 3, 4, 5]), factor=st.integers(1, 3), size_min=st.integers(1, 2))
    def start(self, count: int, factor: int, size_min: int) -> None:
        for broker_id in range(1, count + 1):
            self.register(broker_id, is_clean=True, is_other_cluster=False)
            self.unfence(broker_id, 0)
        self.create("a", 2, factor, size_min)

    @rule(broker_id=BROKERS, is_clean=st.booleans())
    def restart(self, broker_id: int, is_clean: bool) -> None:
        self.fence(broker_id, 0)
        self.register(broker_id, is_clean=is_clean, is_other_cluster=False)
        self.unfence(broker_id, 0)

    @rule(broker_id=BROKERS, is_clean=st.booleans(), is_other_cluster=st.sampled_from([False] * 9 + [True]))
    def register(self, broker_id: int, is_clean: bool, is_other_cluster: bool) -> None:
        present = self.cluster.find_broker(broker_id)
        self.incarnations += 1
        request = RegistrationRequest(
            "elsewhere" if is_other_cluster else "here",
            broker_id,
            f"process {self.incarnations}",
            {"PLAINTEXT": Address("host", 9092)},
            rack="left" if broker_id <= 2 else "right" if broker_id <= 4 else "",
            previous_epoch=present.epoch if present and is_clean else NO_BROKER_EPOCH,
        )
        highest, cluster_id = self.cluster.broker_epoch, self.cluster.cluster_id
        is_allowed = cluster_id in (None, request.cluster_id) and (present is None or present.is_fenced)
        if is_allowed and present is not None and not is_clean:
            self.replicas.lose(broker_id)
        assert self.append(lambda: self.catalog.decide_register_broker(request)) == is_allowed
        if is_allowed:
            assert self.cluster.broker(broker_id).epoch == highest + 1 == self.cluster.broker_epoch
            assert self.cluster.is_fenced(broker_id)
            assert self.catalog.decide_register_broker(request) == [], "a repeated request changes nothing"

    def change_broker(
        self, broker_id: int, age: int, decide: Callable[[ClusterState, int, int], Sequence[Event]]
    ) -> None:
        """Changes in the name of an earlier registration are refused."""
        present = self.cluster.find_broker(broker_id)
        epoch = present.epoch - age if present else 1
        assert self.append(lambda: decide(self.cluster, broker_id, epoch)) == (
            present is not None and age == 0
        )

    @rule(broker_id=BROKERS, age=st.sampled_from([0, 0, 0, 1, -1]))
    def unfence(self, broker_id: int, age: int) -> None:
        self.change_broker(broker_id, age, decide_unfence)

    @rule(broker_id=BROKERS, age=st.sampled_from([0, 0, 0, 1]))
    def stop(self, broker_id: int, age: int) -> None:
        self.change_broker(broker_id, age, decide_stop)

    @rule(broker_id=BROKERS, age=st.sampled_from([0, 0, 0, 1]))
    def fence(self, broker_id: int, age: int) -> None:
        self.change_broker(broker_id, age, decide_fence)

    @rule(broker_id=BROKERS, is_draining=st.booleans())
    def drain(self, broker_id: int, is_draining: bool) -> None:
        self.append(lambda: decide_drain(self.cluster, broker_id, is_draining=is_draining))

    @rule(broker_id=BROKERS)
    def unregister(self, broker_id: int) -> None:
        self.append(lambda: decide_unregister(self.cluster, broker_id))

    # -- topics

    def new_topic_id(self) -> bytes:
        return (len(self.events) + 2).to_bytes(16, "big")

    @rule(
        name=NAMES,
        size=st.integers(1, 4),
        factor=st.integers(0, 3),
        size_min=st.integers(1, 3),
        is_unclean=st.sampled_from([False, False, True]),
    )
    def create(self, name: str, size: int, factor: int, size_min: int, is_unclean: bool = False) -> None:
        self.append(
            lambda: self.catalog.decide_create_topic(
                name,
                size,
                {
                    "min.insync.replicas": str(size_min),
                    "unclean.leader.election.enable": "true" if is_unclean else "false",
                },
                topic_id=self.new_topic_id(),
                now_ms=0,
                replication_factor=factor,
            )
        )

    @rule(factor=st.integers(0, 3))
    def create_internal(self, factor: int) -> None:
        """A topic of the brokers, which has as many replicas as a new topic gets now, or one."""
        if self.catalog.find(INTERNAL) is None and self.cluster.has_brokers:
            self.append(
                lambda: self.catalog.decide_create_topic(
                    INTERNAL,
                    2,
                    {},
                    topic_id=self.new_topic_id(),
                    now_ms=0,
                    internal=True,
                    replication_factor=default_factor(self.cluster, factor),
                )
            )

    @rule(factor=st.integers(0, 4))
    def raise_internal(self, factor: int) -> None:
        before = list(self.cluster.partitions())
        assert self.append(lambda: decide_raise_internal(self.catalog, factor))
        for one in before:
            after = self.cluster.partition(one.id)
            assert set(one.target) <= set(after.target) and after.leader == one.leader
            self.check_move(one)

    @rule(name=NAMES, assignments=st.lists(BROKER_LISTS, min_size=1, max_size=3))
    def create_assigned(self, name: str, assignments: list[list[int]]) -> None:
        self.append(
            lambda: self.catalog.decide_create_topic(
                name, len(assignments), {}, topic_id=self.new_topic_id(), now_ms=0, assignments=assignments
            )
        )

    @rule(name=NAMES, total=st.integers(1, 6), assignments=st.none() | st.lists(BROKER_LISTS, max_size=3))
    def grow(self, name: str, total: int, assignments: list[list[int]] | None) -> None:
        self.append(lambda: self.catalog.decide_add_partitions(name, total, assignments=assignments))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.append(lambda: self.catalog.decide_delete_topic(name))

    @rule(name=NAMES, is_unclean=st.booleans())
    def set_unclean(self, name: str, is_unclean: bool) -> None:
        value = "true" if is_unclean else "false"
        change = ConfigChange(ConfigOp.SET, "unclean.leader.election.enable", value)
        self.append(lambda: self.catalog.decide_alter_configs(name, [change]))

    @rule(name=NAMES, size_min=st.integers(1, 3))
    def set_isr_size_min(self, name: str, size_min: int) -> None:
        change = ConfigChange(ConfigOp.SET, "min.insync.replicas", str(size_min))
        self.append(lambda: self.catalog.decide_alter_configs(name, [change]))

    # -- partitions

    def pick(self, number: int) -> PartitionReplicas | None:
        partitions = list(self.cluster.partitions())
        return partitions[number % len(partitions)] if partitions else None

    @rule(number=st.integers(0, 30))
    def commit(self, number: int) -> None:
        """The leader commits a record, if it may."""
        found = self.pick(number)
        if found is None or found.leader == NO_LEADER or found.is_recovering:
            return
        if self.is_committing(found):
            self.replicas.commit(found)

    def is_committing(self, partition: PartitionReplicas) -> bool:
        counted = len(set(partition.isr) - set(partition.adding))
        isr_size_min = self.cluster.isr_size_min(partition.topic_id)
        return counted >= min(isr_size_min, len(partition.originals))

    @rule(target=requests, number=st.integers(0, 30), wanted=st.sets(BROKERS), is_recovering=st.booleans())
    def request_isr(self, number: int, wanted: set[int], is_recovering: bool) -> object:
        """A leader asks for an ISR; the request takes its time."""
        request = self.requested(number, wanted, is_recovering)
        return multiple() if request is None else request

    def requested(
        self, number: int, wanted: set[int], is_recovering: bool
    ) -> tuple[int, int, IsrChange] | None:
        found = self.pick(number)
        if found is None or found.leader == NO_LEADER:
            return None
        members = [one for one in found.replicas if one in wanted | {found.leader}]
        change = IsrChange(
            found.id,
            found.leader_epoch,
            found.partition_epoch,
            [IsrMember(one, self.epoch_of(one)) for one in members],
            is_recovering and found.is_recovering,
        )
        return found.leader, self.epoch_of(found.leader), change

    @rule(number=st.integers(0, 30), wanted=st.sets(BROKERS))
    def change_isr_at_once(self, number: int, wanted: set[int]) -> None:
        request = self.requested(number, wanted, False)
        if request is not None:
            self.change_isr(request)

    def epoch_of(self, broker_id: int) -> int:
        found = self.cluster.find_broker(broker_id)
        return found.epoch if found else NO_BROKER_EPOCH

    @rule(request=requests)
    def change_isr(self, request: tuple[int, int, IsrChange]) -> None:
        """The request arrives, maybe after other changes: then it is refused."""
        sender, epoch, change = request
        present = self.cluster.find_partition(change.partition)
        is_current = (
            present is not None
            and present.partition_epoch == change.partition_epoch
            and self.epoch_of(sender) == epoch
        )
        is_eligible = all(
            one.broker_id == sender
            or (self.cluster.can_lead(one.broker_id) and self.epoch_of(one.broker_id) == one.epoch)
            for one in change.isr
        )
        is_lonely = not change.is_recovering or len(change.isr) == 1
        if is_current and is_eligible and is_lonely:
            for one in change.isr:  # in its epoch, the leader asks only for who has fetched all there is
                self.replicas.catch_up(change.partition, one.broker_id)
        is_done = self.append(lambda: decide_change_isr(self.cluster, sender, epoch, change))
        assert is_done == (is_current and is_eligible and is_lonely)

    @rule(number=st.integers(0, 30), broker_ids=BROKER_LISTS)
    def reassign(self, number: int, broker_ids: list[int]) -> None:
        found = self.pick(number)
        if found is not None:
            self.append(lambda: decide_reassign(self.cluster, found.id, broker_ids))
            self.check_move(found)

    @rule(number=st.integers(0, 30))
    def cancel(self, number: int) -> None:
        found = self.pick(number)
        if found is not None and self.append(lambda: decide_cancel(self.cluster, found.id)):
            after = self.cluster.partition(found.id)
            assert set(after.replicas) == set(found.originals) and not after.is_moving
            self.check_move(found)

    def check_move(self, before: PartitionReplicas) -> None:
        """Administrators do not take a partition offline, nor give up its last complete replica."""
        after = self.cluster.partition(before.id)
        assert before.leader == NO_LEADER or after.leader != NO_LEADER
        assert not (before.isr or before.elr) or (after.isr or after.elr)

    @rule(broker_id=BROKERS, number=st.integers(0, 9))
    def move(self, broker_id: int, number: int) -> None:
        """One move that the ring proposes."""
        if self.cluster.find_broker(broker_id) is None:
            return
        before = state(self.catalog)
        proposals = [
            *rebalance_moves(self.cluster),
            *join_moves(self.cluster, broker_id),
            *drain_moves(self.cluster, broker_id),
        ]
        assert state(self.catalog) == before
        if number < len(proposals):
            partition, _, after = proposals[number]
            assert self.append(lambda: decide_reassign(self.cluster, partition, after))

    @rule(number=st.integers(0, 30), kind=st.sampled_from(ElectionKind))
    def elect(self, number: int, kind: ElectionKind) -> None:
        found = self.pick(number)
        if found is not None and self.append(lambda: decide_elect(self.cluster, found.id, kind)):
            after = self.cluster.partition(found.id)
            assert after.leader == found.target[0] or kind is ElectionKind.UNCLEAN
            assert after.leader != NO_LEADER

    @rule(count_max=st.integers(1, 3))
    def elect_preferred(self, count_max: int) -> None:
        before = {one.id: one for one in self.cluster.partitions()}
        assert self.append(lambda: decide_preferred(self.cluster, count_max))
        changed = [one for one in self.cluster.partitions() if one != before[one.id]]
        assert len(changed) <= count_max
        assert all(one.leader == one.replicas[0] and one.isr == before[one.id].isr for one in changed)

    @rule(number=st.integers(0, 30), place=st.integers(0, 2))
    def fail_replica(self, number: int, place: int) -> None:
        """A replica loses its records, and its broker says so."""
        found = self.pick(number)
        if found is None or place >= len(found.replicas):
            return
        broker_id = found.replicas[place]
        epoch = self.epoch_of(broker_id)
        events = decide_replica_failed(self.cluster, broker_id, epoch, found.id, found.leader_epoch)
        others = {*found.isr, *found.elr} - {broker_id}
        if not others:
            assert events == [], "the only complete replica was given up"
            return
        self.replicas.held[found.id][broker_id] = NOTHING
        self.has_failed = True
        assert self.append(lambda: events)
        self.has_failed = False
        after = self.cluster.partition(found.id)
        may_lead_on = self.cluster.may_elect_unclean(found.topic_id) and not any(
            self.cluster.can_lead(one) for one in found.replicas if one != broker_id
        )
        assert may_lead_on or broker_id not in (*after.isr, *after.elr)
        if any(map(self.cluster.can_lead, found.isr or found.elr)) and others & set(found.isr):
            assert after.leader in others

    # -- invariants

    @invariant()
    def topics_that_allow_it_have_leaders(self) -> None:
        for one in self.cluster.partitions():
            if self.cluster.may_elect_unclean(one.topic_id) and any(map(self.cluster.can_lead, one.replicas)):
                assert one.leader != NO_LEADER

    @invariant()
    def partitions_are_led_by_those_who_may(self) -> None:
        cluster = self.cluster
        for one in cluster.partitions():
            assert len(set(one.replicas)) == len(one.replicas) > 0
            assert set(one.isr) | set(one.elr) | set(one.adding) | set(one.removing) <= set(one.replicas)
            assert not set(one.isr) & set(one.elr)
            assert not any(map(cluster.is_fenced, one.isr)), "a fenced broker is in the ISR"
            assert one.leader in (NO_LEADER, *one.isr)
            assert (one.leader == NO_LEADER) == (not one.isr)
            assert one.last_leader in (NO_LEADER, *one.replicas)
            if self.is_committing(one):
                assert one.elr == (), "the leader may commit without them"
            candidates = one.isr or one.elr or (one.last_leader,)
            if any(map(cluster.can_lead, candidates)):
                assert one.leader != NO_LEADER, "a replica could lead, but nobody does"
            if len(one.replicas) == 1 and cluster.can_lead(one.replicas[0]):
                assert one.leader == one.replicas[0]

    @invariant()
    def candidates_hold_what_is_committed(self) -> None:
        for one in self.cluster.partitions():
            for broker_id in one.isr or one.elr:
                held = self.replicas.held[one.id][broker_id]
                assert held == self.replicas.committed[one.id], (one, broker_id)

    @invariant()
    def reassignments_that_can_be_complete_are(self) -> None:
        for one in self.cluster.partitions():
            if one.is_moving and one.isr and set(one.adding) <= set(one.isr):
                assert len(set(one.isr) & set(one.target)) < len(set(one.isr) - set(one.adding))

    @invariant()
    def topics_are_placed_wholly_or_not_at_all(self) -> None:
        for topic in self.catalog.topics:
            placed = [one.partition for one in self.cluster.partitions_of(topic.id)]
            assert placed == (list(range(topic.partition_count)) if self.cluster.has_brokers else [])
        known = {topic.id for topic in self.catalog.topics}
        assert {one.topic_id for one in self.cluster.partitions()} <= known

    @precondition(lambda self: len(self.events) > self.seen)
    @rule(share=st.floats(0, 1), is_snapshot=st.booleans())
    def follow(self, share: float, is_snapshot: bool) -> None:
        """Another broker follows the log event by event, or misses some and gets a snapshot."""
        upto = len(self.events) if is_snapshot else self.seen + int(share * (len(self.events) - self.seen))
        events = self.events[self.seen : upto]
        if is_snapshot:
            events = self.late.decide_catch_up(compacted(self.events))
        for event in events:
            self.late.apply(event)
        self.seen = upto
        if upto == len(self.events):
            assert state(self.late) == state(self.catalog)

    def teardown(self) -> None:
        replayed, draft = Catalog(), self.catalog.draft()
        for event in self.events:
            replayed.apply(decode(*encode(event)))
        assert state(replayed) == state(self.catalog)
        before = state(self.catalog)
        for topic in draft.topics:
            for event in draft.decide_delete_topic(topic.name, internal=True):
                draft.apply(event)
        assert list(draft.cluster.partitions()) == []
        assert state(self.catalog) == before, "a draft wrote through"


TestCluster = ClusterMachine.TestCase
TestCluster.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
