"""Routes Kafka requests to the right broker of a cluster and retries them on retriable errors.

    cluster = Cluster(read_access({"bootstrap.servers": "127.0.0.1:9092"}))
    cluster.ask(ApiKey.OFFSET_FETCH, request, Coordinator.of_group("readers"))

Blocking and not thread-safe. Caches leaders and coordinators only; never offsets or records.
"""

from __future__ import annotations

import random
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Self

from penstock.client.access import Access
from penstock.client.errors import ClientError, NotFound, Refused, TimedOut, TlsFailed, Unreachable
from penstock.client.raw.connection import BrokerConnection
from penstock.core.model import Address
from penstock.core.model import TopicPartition as TopicPartition
from penstock.wire.kafka import ApiKey, ErrorCode, KafkaMessage, KafkaRequest, ResponseT, error_name, messages

_METADATA_VERSION_MAX = 10
"""The first version with topic ids."""

NO_TOPIC_ID = bytes(16)
_COORDINATOR_VERSION_MAX = 3

MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
"""The leader or coordinator has changed: look it up again, then retry."""

RETRIABLE = MOVED | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}
"""The same request may succeed after a pause."""


class KeyKind(IntEnum):
    """Kafka's coordinator key types."""

    GROUP = 0
    TRANSACTION = 1


class Anyone(NamedTuple):
    """Any broker."""


class Node(NamedTuple):
    """One broker by its node id."""

    node_id: int


class Leader(NamedTuple):
    """The leader of a partition."""

    topic: str
    partition: int


class Coordinator(NamedTuple):
    """The coordinator of a group or transactional id."""

    kind: KeyKind
    key: str

    @classmethod
    def of_group(cls, group: str) -> Self:
        return cls(KeyKind.GROUP, group)

    @classmethod
    def of_transaction(cls, transactional_id: str) -> Self:
        return cls(KeyKind.TRANSACTION, transactional_id)


Target = Anyone | Node | Leader | Coordinator
ANYONE = Anyone()


@dataclass(frozen=True, slots=True)
class TopicFound:
    """A topic with its leaders by partition; -1 means that the election is in progress.

    `topic_id` has the format that Kafka's tools print; empty if the broker does not support ids. A recreated topic
    has a new id.
    """

    name: str
    is_internal: bool
    leaders: dict[int, int]
    topic_id: str = ""

    @property
    def partitions(self) -> list[int]:
        return sorted(self.leaders)


class Cluster:
    """Connections to brokers, opened on first use, and a cache of leaders and coordinators."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._connections: dict[Address, BrokerConnection] = {}
        self._brokers: dict[int, Address] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._coordinators: dict[Coordinator, Address] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- requests

    def ask(
        self,
        api_key: int,
        body: KafkaRequest[ResponseT],
        target: Target = ANYONE,
        *,
        version: int | None = None,
        version_max: int | None = None,
        wait_ms: int = 0,
        again_on: frozenset[int] = RETRIABLE,
    ) -> ResponseT:
        """Send a request to its target; retry while the target is unreachable or returns a code in `again_on`.

        Uses the newest version that both sides support, up to `version_max`; `version` is for APIs that a
        broker does not list. Other error codes stay in the response for the caller to handle. After
        `access.call_ms_max` the last failure is raised: Unreachable, or TimedOut with the code.
        """
        for attempt in Attempts(self.access, f"{API_NAMES[api_key]} to {_name_of(target)}"):
            with attempt:
                response = self.ask_once(
                    api_key, body, target, version=version, version_max=version_max, wait_ms=wait_ms
                )
                codes = sorted(set(codes_in(response)) & again_on)
                if not codes:
                    return response
                if MOVED.intersection(codes):
                    self.forget(target)
                raise TimedOut(", ".join(error_name(code) for code in codes), code=error_name(codes[0]))
        raise AssertionError("attempts end with a response or an error")

    def ask_once(
        self,
        api_key: int,
        body: KafkaRequest[ResponseT],
        target: Target,
        *,
        version: int | None = None,
        version_max: int | None = None,
        wait_ms: int = 0,
    ) -> ResponseT:
        """Send a request to its target without retries: for callers with their own retry loop."""
        connection = self.connection_to(target)
        chosen = connection.version_of(api_key, version_max) if version is None else version
        try:
            return connection.call(api_key, body, version=chosen, wait_ms=wait_ms)
        except Unreachable:
            self.forget(target)
            raise

    def connection_to(self, target: Target = ANYONE) -> BrokerConnection:
        """An open connection to the target. Raises ClientError; never retries."""
        if isinstance(target, Anyone):
            return self._any_connection()
        return self._connection_at(self._address_of(target))

    def forget(self, target: Target) -> None:
        """Invalidate the cached location of a target, so that the next request looks it up."""
        if isinstance(target, Coordinator):
            self._coordinators.pop(target, None)
        elif isinstance(target, Leader):
            self._leaders.pop(TopicPartition(*target), None)
        else:
            self._brokers.clear()
        for connection in [one for one in self._connections.values() if one.is_closed]:
            self._drop(connection)

    # -- metadata

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicFound]:
        """The existing topics among `names`, or all topics. Never creates a topic."""
        wanted = None if names is None else sorted(set(names))
        if wanted == []:
            return {}
        response = self.ask(
            ApiKey.METADATA,
            self._metadata_request(wanted),
            version_max=_METADATA_VERSION_MAX,
            again_on=frozenset(),
        )
        return self._learn(response)

    def led_by(self, places: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Group partitions by leader node id; if any leader is unknown, all are refreshed in one request."""
        wanted = sorted(set(places))
        if any(self._leaders.get(place) not in self._brokers for place in wanted):
            self._refresh(sorted({place.topic for place in wanted}))
        by_leader: dict[int, list[TopicPartition]] = {}
        for place in wanted:
            node_id = self._leaders.get(place, -1)
            if node_id not in self._brokers:
                node_id = self._find_leader(Leader(*place))
            by_leader.setdefault(node_id, []).append(place)
        return by_leader

    def brokers(self) -> dict[int, Address]:
        """All brokers of the cluster by node id."""
        self._learn(self.ask(ApiKey.METADATA, self._metadata_request([]), version_max=_METADATA_VERSION_MAX))
        return dict(self._brokers)

    # -- target lookup

    def _address_of(self, target: Target) -> Address:
        if isinstance(target, Coordinator):
            return self._coordinators.get(target) or self._find_coordinator(target)
        if isinstance(target, Leader):
            node_id = self._leaders.get(TopicPartition(*target))
            if node_id is None or node_id not in self._brokers:
                node_id = self._find_leader(target)
            return self._brokers[node_id]
        assert isinstance(target, Node)
        if target.node_id not in self._brokers:
            self._refresh([])
        if target.node_id not in self._brokers:
            raise Unreachable(f"broker {target.node_id} is not in the cluster at {self.access.bootstrap}")
        return self._brokers[target.node_id]

    def _find_leader(self, target: Leader) -> int:
        found = self._refresh([target.topic]).get(target.topic)
        if found is None or target.partition not in found.leaders:
            what = (
                f"topic {target.topic}"
                if found is None
                else f"partition {target.partition} of {target.topic}"
            )
            raise NotFound(f"there is no {what} at {self.access.bootstrap}")
        node_id = found.leaders[target.partition]
        if node_id not in self._brokers:
            raise Unreachable(f"partition {target.partition} of {target.topic} has no leader")
        return node_id

    def _find_coordinator(self, target: Coordinator) -> Address:
        connection = self._any_connection()
        version = connection.version_of(ApiKey.FIND_COORDINATOR, _COORDINATOR_VERSION_MAX)
        request = messages.FindCoordinatorRequest(key=target.key, key_type=int(target.kind))
        found = connection.call(ApiKey.FIND_COORDINATOR, request, version=version)
        if found.error_code in RETRIABLE:
            raise Unreachable(f"{_name_of(target)} is not available yet: {error_name(found.error_code)}")
        if found.error_code:
            raise Refused(f"cannot find {_name_of(target)}: {error_name(found.error_code)}")
        address = self._coordinators[target] = Address(found.host, found.port)
        return address

    def _refresh(self, topics: Sequence[str]) -> dict[str, TopicFound]:
        connection = self._any_connection()
        version = connection.version_of(ApiKey.METADATA, _METADATA_VERSION_MAX)
        return self._learn(connection.call(ApiKey.METADATA, self._metadata_request(topics), version=version))

    def _metadata_request(self, topics: Sequence[str] | None) -> messages.MetadataRequest:
        named = messages.MetadataRequest.MetadataRequestTopic
        wanted = None if topics is None else [named(name=name) for name in topics]
        return messages.MetadataRequest(topics=wanted, allow_auto_topic_creation=False)

    def _learn(self, response: messages.MetadataResponse) -> dict[str, TopicFound]:
        self._brokers = {one.node_id: Address(one.host, one.port) for one in response.brokers}
        found: dict[str, TopicFound] = {}
        for topic in response.topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                raise Refused(f"topic {topic.name}: {error_name(topic.error_code)}")
            assert topic.name is not None, "the versions in use always include the name"
            leaders = {one.partition_index: one.leader_id for one in topic.partitions}
            found[topic.name] = TopicFound(topic.name, topic.is_internal, leaders, _id_text(topic.topic_id))
            self._leaders.update(
                {TopicPartition(topic.name, number): leader for number, leader in leaders.items()}
            )
        return found

    # -- connections

    def _any_connection(self) -> BrokerConnection:
        for connection in self._connections.values():
            if not connection.is_closed and not connection.is_expired and not connection.in_flight:
                return connection
        failures: list[ClientError] = []
        for address in dict.fromkeys((*self.access.addresses, *self._brokers.values())):
            try:
                return self._connection_at(address)
            except (TlsFailed, Unreachable) as error:
                failures.append(error)
        rejected = [one for one in failures if isinstance(one, TlsFailed)]
        if rejected or len(failures) == 1:
            raise (rejected or failures)[0]
        raise Unreachable("; ".join(str(one) for one in failures))

    def _connection_at(self, address: Address) -> BrokerConnection:
        connection = self._connections.get(address)
        if connection is None or connection.is_closed or connection.is_expired or connection.in_flight:
            if connection is not None:
                self._drop(connection)
            connection = self._connections[address] = BrokerConnection(address, self.access)
        return connection

    def _drop(self, connection: BrokerConnection) -> None:
        connection.close()
        self._connections.pop(connection.address, None)


class Attempts:
    """Attempts of one call, as `with` blocks in a loop; the caller returns from the first that succeeds.

    Retriable errors are suppressed until the deadline, with exponential backoff between attempts.
    """

    def __init__(self, access: Access, what: str) -> None:
        self._access = access
        self._what = what
        self._count = 0
        self._deadline_s = time.monotonic() + access.call_ms_max / 1000

    def __iter__(self) -> Iterator[Self]:
        while True:
            yield self

    def __enter__(self) -> None:
        self._count += 1

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if not isinstance(error, ClientError) or not error.retriable:
            return False
        pause_s = self._pause_s()
        if time.monotonic() + pause_s < self._deadline_s:
            time.sleep(pause_s)
            return True
        attempts = f"{self._count} attempts in {self._access.call_ms_max / 1000:g} s"
        raise type(error)(f"{self._what}: {error} ({attempts})", code=error.code) from error

    def _pause_s(self) -> float:
        longest_ms = min(self._access.backoff_ms_max, self._access.backoff_ms << min(self._count - 1, 20))
        return longest_ms * random.uniform(0.8, 1.2) / 1000


def codes_in(response: KafkaMessage) -> Iterator[int]:
    """All error codes of a response, at any depth."""
    for name in response.__slots__:
        value = getattr(response, name)
        if name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, KafkaMessage):
                    yield from codes_in(one)


def _id_text(topic_id: bytes) -> str:
    return "" if topic_id == NO_TOPIC_ID else urlsafe_b64encode(topic_id).decode().rstrip("=")


def id_bytes(topic_id: str) -> bytes:
    """The id of a `TopicFound` in its wire format."""
    return urlsafe_b64decode(topic_id + "==") if topic_id else NO_TOPIC_ID


def _name_of(target: Target) -> str:
    match target:
        case Node(node_id):
            return f"broker {node_id}"
        case Leader(topic, partition):
            return f"the leader of {topic} partition {partition}"
        case Coordinator(KeyKind.GROUP, key):
            return f"the coordinator of group {key}"
        case Coordinator(_, key):
            return f"the coordinator of transactional id {key}"
    return "any broker"


API_NAMES = {int(key): key.name.replace("_", " ").lower() for key in ApiKey}
