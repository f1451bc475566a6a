"""A catalog of several brokers for tests: decides, passes events through their bytes, applies. Never a host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event, decode, encode
from penstock.core.machines.cluster.brokers import RegistrationRequest, decide_fence, decide_unfence
from penstock.core.machines.cluster.partition_state import IsrChange, IsrMember, decide_change_isr
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.machines.cluster.values import NO_BROKER_EPOCH, PartitionReplicas
from penstock.core.model import Address, PartitionId

CLUSTER_ID = "test-cluster"


def topic_id(name: str) -> bytes:
    """The id that a topic of this name gets."""
    return name.encode().rjust(16, b"-")


def request(broker_id: int, run: int = 1, **fields: Any) -> RegistrationRequest:
    """The registration of a broker's nth process."""
    listeners = {"PLAINTEXT": Address(f"host-{broker_id}", 9092)}
    made = RegistrationRequest(CLUSTER_ID, broker_id, f"broker {broker_id} run {run}", listeners)
    return made._replace(**fields)


class ClusterPlay:
    """Brokers 1 to `count`, registered and unfenced."""

    def __init__(self, count: int = 0) -> None:
        self.catalog = Catalog()
        self.start(*range(1, count + 1))

    @property
    def cluster(self) -> ClusterState:
        return self.catalog.cluster

    def run(self, events: Sequence[Event]) -> Sequence[Event]:
        for event in events:
            assert decode(*encode(event)) == event
            self.catalog.apply(event)
        return events

    def epoch(self, broker_id: int) -> int:
        return self.cluster.broker(broker_id).epoch

    def register(self, broker_id: int, run: int = 1, **fields: Any) -> None:
        self.run(self.catalog.decide_register_broker(request(broker_id, run, **fields)))

    def start(self, *broker_ids: int) -> None:
        """Register and unfence."""
        for broker_id in broker_ids:
            self.register(broker_id)
            self.unfence(broker_id)

    def unfence(self, broker_id: int) -> Sequence[Event]:
        return self.run(decide_unfence(self.cluster, broker_id, self.epoch(broker_id)))

    def fence(self, broker_id: int) -> Sequence[Event]:
        return self.run(decide_fence(self.cluster, broker_id, self.epoch(broker_id)))

    def restart(self, broker_id: int, run: int, *, is_clean: bool) -> None:
        """Fence, register as another process, unfence."""
        self.fence(broker_id)
        previous = self.epoch(broker_id) if is_clean else NO_BROKER_EPOCH
        self.register(broker_id, run, previous_epoch=previous)
        self.unfence(broker_id)

    def create(self, name: str, *assignments: Sequence[int], isr_size_min: int = 1) -> None:
        """A topic with explicit replicas."""
        self.run(
            self.catalog.decide_create_topic(
                name,
                len(assignments),
                {"min.insync.replicas": str(isr_size_min)},
                topic_id=topic_id(name),
                now_ms=0,
                assignments=assignments,
            )
        )

    def partition(self, name: str, index: int = 0) -> PartitionReplicas:
        return self.cluster.partition(PartitionId(topic_id(name), index))

    def wanted_isr(self, name: str, *broker_ids: int, index: int = 0) -> IsrChange:
        """The request of the leader for this ISR, based on the present state."""
        present = self.partition(name, index)
        members = [IsrMember(one, self.epoch(one)) for one in broker_ids]
        return IsrChange(present.id, present.leader_epoch, present.partition_epoch, members)

    def set_isr(self, name: str, *broker_ids: int, index: int = 0) -> PartitionReplicas:
        leader = self.partition(name, index).leader
        change = self.wanted_isr(name, *broker_ids, index=index)
        self.run(decide_change_isr(self.cluster, leader, self.epoch(leader), change))
        return self.partition(name, index)
