"""Values of the cluster state: a registered broker and a placed partition. Immutable, no decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.core.model import Address, PartitionId

NO_LEADER = -1
KAFKA_LISTENER = "kafka"
"""The name of the address of the Kafka door in a registration."""
GOSSIP_LISTENER = "gossip"
"""The name of the address at which a broker receives gossip; its host is an IP address."""
NO_BROKER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker that belongs to the cluster. A broker that is fenced leads nothing and is in no ISR."""

    broker_id: int
    epoch: int
    """Increases with every registration of any broker; requests of an earlier one are refused."""
    incarnation_id: str
    """Names the process that registered: tells its repeated request from another process with the same id."""
    listeners: Mapping[str, Address] = field(default_factory=dict)
    rack: str = ""
    """Brokers of one rack fail together. Empty: the broker is a rack of its own."""
    session: int = 0
    """The number of the session under which it registered. When that session ends, the controller fences it."""
    is_fenced: bool = True
    is_stopping: bool = False
    """In controlled shutdown: it gives its leadership away and gets none."""
    is_draining: bool = False
    """No replicas are placed here, and the present ones are moved away."""
    is_joining: bool = False
    """It has just joined the cluster and gets its share of the partitions."""


class PartitionReplicas(NamedTuple):
    """Where a partition lives and who leads it. `replicas` is in order of preference, `adding` included."""

    topic_id: bytes
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    """In-sync replicas: each holds every committed record and is not fenced."""
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    """Replicas that left the ISR while it was below its minimum: they hold every committed record too."""
    last_leader: int = NO_LEADER
    """Who led last, while nobody does; if that broker has lost records since, a replica that had none missing."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    is_recovering: bool = False
    """The leader was elected although records may be missing, and has not confirmed its log yet."""

    @property
    def id(self) -> PartitionId:
        return PartitionId(self.topic_id, self.partition)

    @property
    def place(self) -> str:
        """The partition as errors name it."""
        return f"partition {self.partition} of topic {self.topic_id.hex()}"

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment in progress; without one, the replicas."""
        return tuple(one for one in self.replicas if one not in self.removing)

    @property
    def originals(self) -> tuple[int, ...]:
        """The replicas before the reassignment in progress."""
        return tuple(one for one in self.replicas if one not in self.adding)

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    def is_isr_sufficient(self, isr_size_min: int) -> bool:
        """Whether records are committed with this ISR. Replicas that are being added do not count."""
        counted = sum(one not in self.adding for one in self.isr)
        return counted >= min(isr_size_min, len(self.replicas) - len(self.adding))
