"""Events of the cluster state and their record format. state.py applies them.

Each event is the full state of its key, as all events of the catalog are: compaction keeps the last one of each broker
and each partition.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.errors import TornSegment
from penstock.core.limits import LINK_KEY_BYTES
from penstock.core.machine import event_type
from penstock.core.machines.cluster.values import NO_LEADER, BrokerRegistration, PartitionReplicas
from penstock.core.machines.json_fields import JsonFields, json_value
from penstock.core.model import TOPIC_ID_BYTES, Address

CLUSTER_KEY = b"cluster"
LINK_KEY_KEY = b"link-key"
BROKER_PREFIX = b"broker/"
PARTITION_PREFIX = b"partition/"

_PORT_MAX = 65_535
_DIGITS_MAX = 10


@event_type
class ClusterSaved(NamedTuple):
    """The cluster's id, and the highest broker epoch ever assigned."""

    cluster_id: str
    broker_epoch: int

    @property
    def key(self) -> bytes:
        return CLUSTER_KEY


@event_type
class LinkKeySaved(NamedTuple):
    """The secret that brokers of the cluster prove to each other on every link."""

    link_key: bytes

    @property
    def key(self) -> bytes:
        return LINK_KEY_KEY

    def __repr__(self) -> str:
        """Events may be logged; the secret must not be."""
        return "LinkKeySaved(link_key=…)"


@event_type
class BrokerSaved(NamedTuple):
    """A broker registered or changed; carries its new state."""

    broker: BrokerRegistration

    @property
    def key(self) -> bytes:
        return _broker_key(self.broker.broker_id)


@event_type
class BrokerRemoved(NamedTuple):
    """The broker no longer belongs to the cluster."""

    broker_id: int

    @property
    def key(self) -> bytes:
        return _broker_key(self.broker_id)


@event_type
class PartitionSaved(NamedTuple):
    """A partition was placed or changed; carries its new state."""

    partition: PartitionReplicas

    @property
    def key(self) -> bytes:
        return _partition_key(self.partition.topic_id, self.partition.partition)


@event_type
class PartitionRemoved(NamedTuple):
    """The partition was deleted with its topic."""

    topic_id: bytes
    partition: int

    @property
    def key(self) -> bytes:
        return _partition_key(self.topic_id, self.partition)


ClusterEvent = ClusterSaved | LinkKeySaved | BrokerSaved | BrokerRemoved | PartitionSaved | PartitionRemoved

_RARE_FIELDS = frozenset({"elr", "last_leader", "adding", "removing", "is_recovering"})
"""Fields of a partition that are left out while they are unset."""


def _broker_key(broker_id: int) -> bytes:
    return BROKER_PREFIX + str(broker_id).encode()


def _partition_key(topic_id: bytes, index: int) -> bytes:
    return PARTITION_PREFIX + f"{topic_id.hex()}/{index}".encode()


def encode(event: ClusterEvent) -> tuple[bytes, bytes | None]:
    """Key and value of the event's record; a null value deletes the key."""
    match event:
        case ClusterSaved(cluster_id, broker_epoch):
            return event.key, json_value({"cluster_id": cluster_id, "broker_epoch": broker_epoch})
        case LinkKeySaved(link_key):
            return event.key, json_value({"link_key": link_key.hex()})
        case BrokerSaved(broker):
            return event.key, json_value(_broker_content(broker))
        case PartitionSaved(partition):
            return event.key, json_value(_partition_content(partition))
        case BrokerRemoved() | PartitionRemoved():
            return event.key, None


def _broker_content(broker: BrokerRegistration) -> dict[str, object]:
    return {
        "epoch": broker.epoch,
        "incarnation_id": broker.incarnation_id,
        "listeners": {name: list(address) for name, address in broker.listeners.items()},
        "rack": broker.rack,
        "session": broker.session,
        "is_fenced": broker.is_fenced,
        "is_stopping": broker.is_stopping,
        "is_draining": broker.is_draining,
        **({"is_joining": True} if broker.is_joining else {}),
    }


def _partition_content(partition: PartitionReplicas) -> dict[str, object]:
    """Fields that are unset most of the time are left out: there are many partitions."""
    content: dict[str, object] = {
        "replicas": partition.replicas,
        "isr": partition.isr,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
    }
    optional: dict[str, object] = {
        "elr": partition.elr,
        "adding": partition.adding,
        "removing": partition.removing,
        "is_recovering": partition.is_recovering,
    }
    content |= {name: value for name, value in optional.items() if value}
    if partition.last_leader != NO_LEADER:
        content["last_leader"] = partition.last_leader
    return content


def is_cluster_key(key: bytes) -> bool:
    """Whether the record belongs to the cluster state."""
    return key in (CLUSTER_KEY, LINK_KEY_KEY) or key.startswith((BROKER_PREFIX, PARTITION_PREFIX))


def decode(key: bytes, value: bytes | None) -> ClusterEvent:
    """Decode an event. Raises TornSegment on any error."""
    if key == CLUSTER_KEY:
        fields = _Fields(key, value)
        return ClusterSaved(fields.text("cluster_id"), fields.whole("broker_epoch", 0))
    if key == LINK_KEY_KEY:
        return LinkKeySaved(_Fields(key, value).secret("link_key", LINK_KEY_BYTES))
    if key.startswith(BROKER_PREFIX):
        broker_id = _decode_number(key, key[len(BROKER_PREFIX) :])
        return BrokerRemoved(broker_id) if value is None else _decode_broker(broker_id, _Fields(key, value))
    topic_id, index = _decode_partition_key(key)
    if value is None:
        return PartitionRemoved(topic_id, index)
    return _decode_partition(topic_id, index, _Fields(key, value))


def _decode_number(key: bytes, digits: bytes) -> int:
    """A number in the one form that `encode` writes: two keys must not stand for the same broker."""
    if not digits.isdigit() or len(digits) > _DIGITS_MAX or str(int(digits)).encode() != digits:
        raise TornSegment(f"catalog record {key!r} does not contain a valid number")
    return int(digits)


def _decode_partition_key(key: bytes) -> tuple[bytes, int]:
    topic_text, _, digits = key[len(PARTITION_PREFIX) :].partition(b"/")
    try:
        topic_id = bytes.fromhex(topic_text.decode("ascii"))
    except ValueError:
        topic_id = b""
    if len(topic_id) != TOPIC_ID_BYTES or topic_id.hex().encode() != topic_text:
        raise TornSegment(f"catalog record {key!r} does not contain a valid topic id")
    return topic_id, _decode_number(key, digits)


def _decode_broker(broker_id: int, fields: _Fields) -> BrokerSaved:
    return BrokerSaved(
        BrokerRegistration(
            broker_id=broker_id,
            epoch=fields.whole("epoch", 0),
            incarnation_id=fields.text("incarnation_id"),
            listeners=fields.addresses("listeners"),
            rack=fields.text("rack"),
            session=fields.whole("session", 0),
            is_fenced=fields.flag("is_fenced"),
            is_stopping=fields.flag("is_stopping"),
            is_draining=fields.flag("is_draining"),
            is_joining=fields.flag("is_joining", absent=False),
        )
    )


def _decode_partition(topic_id: bytes, index: int, fields: _Fields) -> PartitionSaved:
    partition = PartitionReplicas(
        topic_id=topic_id,
        partition=index,
        replicas=fields.brokers("replicas"),
        isr=fields.brokers("isr"),
        leader=fields.whole("leader", NO_LEADER),
        leader_epoch=fields.whole("leader_epoch", 0),
        partition_epoch=fields.whole("partition_epoch", 0),
    )
    if not _RARE_FIELDS.isdisjoint(fields.content):
        partition = partition._replace(
            elr=fields.brokers("elr", absent=()),
            last_leader=fields.whole("last_leader", 0, absent=NO_LEADER),
            adding=fields.brokers("adding", absent=()),
            removing=fields.brokers("removing", absent=()),
            is_recovering=fields.flag("is_recovering", absent=False),
        )
    if not partition.target:
        raise fields.torn("it has no replicas")
    if partition.isr != partition.replicas or not _RARE_FIELDS.isdisjoint(fields.content):
        for name in ("isr", "elr", "adding", "removing"):
            if not set(getattr(partition, name)) <= set(partition.replicas):
                raise fields.torn(f"{name} names brokers that hold no replica")
    if partition.leader not in (NO_LEADER, *partition.isr):
        raise fields.torn(f"the leader {partition.leader} is not in the ISR")
    return PartitionSaved(partition)


class _Fields(JsonFields):
    """The fields of one value, with those that only the cluster state has."""

    def brokers(self, name: str, *, absent: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Distinct broker ids."""
        value = self.content.get(name, None if absent is None else list(absent))
        if (
            not isinstance(value, list)
            or any(type(one) is not int or one < 0 for one in value)
            or len(set(value)) != len(value)
        ):
            raise self.torn(f"{name} is {value!r}, not a list of distinct broker ids")
        return tuple(value)

    def secret(self, name: str, size: int) -> bytes:
        """So many bytes, in hexadecimal. The error does not quote the value."""
        value = self.content.get(name)
        try:
            found = bytes.fromhex(value) if isinstance(value, str) else b""
        except ValueError:
            found = b""
        if len(found) != size:
            raise self.torn(f"{name} is not {2 * size} hexadecimal digits")
        return found

    def addresses(self, name: str) -> dict[str, Address]:
        """Hosts and ports by listener name."""
        value = self.content.get(name)
        if not isinstance(value, dict):
            raise self.torn(f"{name} is {value!r}, not an object of addresses")
        for pair in value.values():
            match pair:
                case [str(), int(port)] if type(port) is int and 0 <= port <= _PORT_MAX:
                    pass
                case _:
                    raise self.torn(f"{name} contains {pair!r}, not a host and a port")
        return {listener: Address(*pair) for listener, pair in value.items()}
