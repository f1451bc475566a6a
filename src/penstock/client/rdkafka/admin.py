"""Admin: manages topics, settings and consumer groups. Never reads or writes records.

with Admin() as admin:
    admin.create_topic("orders", partitions=3, configs={"retention.ms": "604800000"})
    print(sum(row.lag for row in admin.lag("billing")))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, Unpack

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.admin import TopicMetadata as LibraryTopic

from penstock.client.descriptions import (
    BrokerDescription,
    ClusterBrokers,
    Config,
    Group,
    GroupDescription,
    Lag,
    Member,
    Partition,
    Topic,
    TopicDescription,
)
from penstock.client.errors import AlreadyThere, ClientError, IllegalState, NotFound
from penstock.client.messages import Position
from penstock.client.options import ConnectionOptions, resolve_options
from penstock.client.rdkafka.library import LibraryErrors, configure, create, wait_reachable
from penstock.client.rdkafka.translation import cause, translate

BROKER_DECIDES = -1
"""Number of partitions or replicas that selects the broker's default."""


class Admin:
    """Manages topics and groups. Thread-safe."""

    def __init__(self, **options: Unpack[ConnectionOptions]) -> None:
        self._options = resolve_options(ConnectionOptions, options, "Admin")
        wait_reachable(self._options)
        self._library_errors = LibraryErrors()
        self._client: AdminClient | None = create(
            AdminClient, configure(self._options, {}, self._library_errors)
        )

    def describe_cluster(self) -> ClusterBrokers:
        """The brokers of the cluster."""
        try:
            found = self._opened().list_topics(timeout=self._options["request_s_max"])
        except KafkaException as error:
            raise self._explained(error, "cluster") from error
        brokers = [BrokerDescription(one.id, str(one.host), one.port) for one in found.brokers.values()]
        return ClusterBrokers(found.cluster_id or "", sorted(brokers, key=lambda one: one.id))

    # -- topics

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        configs: Mapping[str, str] | None = None,
        *,
        replicas: int | None = None,
        if_not_exists: bool = False,
    ) -> bool:
        """Create a topic, with the broker's defaults for omitted settings. Returns whether it was created.

        Raises AlreadyThere, unless `if_not_exists`.
        """
        topic = NewTopic(
            name, partitions or BROKER_DECIDES, replicas or BROKER_DECIDES, config=dict(configs or {})
        )
        try:
            self._settle(self._request("create_topics", [topic])[name], name)
        except AlreadyThere:
            if not if_not_exists:
                raise
            return False
        return True

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Raises NotFound."""
        self._settle(self._request("delete_topics", [name])[name], name)

    def topics(self, *, internal: bool = False) -> list[Topic]:
        """All topics, sorted by name; with `internal` also the broker's internal topics."""
        return [
            Topic(
                name,
                len(found.partitions),
                max((len(p.replicas) for p in found.partitions.values()), default=0),
            )
            for name, found in sorted(self._metadata().items())
            if internal or not name.startswith("__")
        ]

    def describe_topic(self, name: str, *, all_configs: bool = False) -> TopicDescription:
        """Partitions with their offsets, and the overridden settings or `all_configs`. Raises NotFound."""
        found = self._topic(name).partitions
        starts, ends = (
            self._spans(name, found, OffsetSpec.earliest()),
            self._spans(name, found, OffsetSpec.latest()),
        )
        partitions = [
            Partition(
                partition=number,
                leader=found[number].leader,
                replicas=list(found[number].replicas),
                in_sync=list(found[number].isrs),
                start_offset=starts[number],
                end_offset=ends[number],
                records=ends[number] - starts[number],
            )
            for number in sorted(found)
        ]
        configs = self.configs(name)
        return TopicDescription(name, partitions, [one for one in configs if all_configs or one.is_set])

    def configs(self, topic: str) -> list[Config]:
        """All settings of a topic, sorted by name, with their sources. Raises NotFound."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self._settle(self._request("describe_configs", [resource])[resource], topic)
        return [
            Config(key, str(entry.value), ConfigSource(entry.source).name.lower().replace("_", " "))
            for key, entry in sorted(entries.items())
        ]

    def set_configs(self, topic: str, configs: Mapping[str, str], unset: Iterable[str] = ()) -> None:
        """Set some settings and reset others to the default, in one change. Raises NotFound, Refused."""
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in configs.items()
        ]
        entries += [ConfigEntry(key, "", incremental_operation=AlterConfigOpType.DELETE) for key in unset]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self._settle(self._request("incremental_alter_configs", [resource])[resource], topic)

    def add_partitions(self, topic: str, total: int) -> None:
        """Increase the partition count to `total`; keys may map to other partitions. Raises NotFound, Refused."""
        self._settle(self._request("create_partitions", [NewPartitions(topic, total)])[topic], topic)

    # -- groups

    def groups(self) -> list[Group]:
        """All groups, sorted by name."""
        found = self._settle(self._request("list_consumer_groups"), "groups").valid
        groups = [Group(one.group_id, one.type.name.lower(), one.state.name.lower()) for one in found]
        return sorted(groups, key=lambda one: one.group)

    def describe_group(self, group: str) -> GroupDescription:
        """One group with its members. Raises NotFound."""
        found = self._settle(self._request("describe_consumer_groups", [group])[group], group)
        if found.state.name == "DEAD":
            raise _no_group(group)
        members = [
            Member(
                one.member_id,
                one.client_id,
                one.host,
                [f"{place.topic}-{place.partition}" for place in _sorted(one)],
            )
            for one in found.members
        ]
        kind, state = found.type.name.lower(), found.state.name.lower()
        return GroupDescription(group, kind, state, found.partition_assignor, members)

    def committed(self, group: str) -> list[Position]:
        """All committed offsets of a group. Raises NotFound."""
        request = [ConsumerGroupTopicPartitions(group)]
        (future,) = self._request("list_consumer_group_offsets", request).values()
        places = self._settle(future, group).topic_partitions
        found = sorted(Position(one.topic, one.partition, one.offset) for one in places if one.offset >= 0)
        if not found:
            self.describe_group(group)
        return found

    def lag(self, group: str) -> list[Lag]:
        """Lag of a group per partition, for all topics with committed offsets. Raises NotFound."""
        committed = {(one.topic, one.partition): one.offset for one in self.committed(group)}
        rows = []
        for topic in sorted({topic for topic, _ in committed}):
            partitions = self._topic(topic).partitions
            starts = self._spans(topic, partitions, OffsetSpec.earliest())
            for number, end in sorted(self._spans(topic, partitions, OffsetSpec.latest()).items()):
                own = committed.get((topic, number))
                at = own if own is not None else starts[number]
                rows.append(Lag(topic, number, own, end, max(0, end - at)))
        return rows

    def move_group(self, group: str, places: Sequence[Position]) -> None:
        """Reset the offsets of a group. Raises Refused while it has members."""
        wanted = [TopicPartition(one.topic, one.partition, one.offset) for one in places]
        (future,) = self._request(
            "alter_consumer_group_offsets", [ConsumerGroupTopicPartitions(group, wanted)]
        ).values()
        for one in self._settle(future, group).topic_partitions:
            if one.error is not None:
                raise translate(one.error, group)

    def delete_group(self, group: str) -> None:
        """Delete a group and its offsets. Raises Refused while it has members, NotFound."""
        self._settle(self._request("delete_consumer_groups", [group])[group], group)

    # -- requests

    def close(self) -> None:
        self._client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> AdminClient:
        if self._client is None:
            raise IllegalState("The admin client is closed.")
        return self._client

    def _request(self, call: str, *arguments: Any) -> Any:
        method: Callable[..., Any] = getattr(self._opened(), call)
        return method(*arguments, request_timeout=self._options["request_s_max"])

    def _settle(self, future: Future[Any], about: str) -> Any:
        try:
            return future.result()
        except KafkaException as error:
            raise self._explained(error, about) from error

    def _explained(self, error: KafkaException, about: str) -> ClientError:
        return self._library_errors.explain(translate(cause(error), about))

    def _metadata(self) -> dict[str, LibraryTopic]:
        """Metadata of all topics: requesting a single name may auto-create it on some brokers."""
        try:
            return self._opened().list_topics(timeout=self._options["request_s_max"]).topics
        except KafkaException as error:
            raise self._explained(error, "topics") from error

    def _topic(self, name: str) -> LibraryTopic:
        found = self._metadata().get(name)
        if found is None:
            raise NotFound(f"There is no topic {name}.")
        if found.error is not None:
            raise translate(found.error, name)
        return found

    def _spans(self, topic: str, partitions: Iterable[int], spec: OffsetSpec) -> dict[int, int]:
        request = {TopicPartition(topic, number): spec for number in sorted(partitions)}
        futures = self._request("list_offsets", request)
        return {place.partition: self._settle(future, topic).offset for place, future in futures.items()}


def _no_group(group: str) -> NotFound:
    return NotFound(f"There is no group {group}.")


def _sorted(member: Any) -> list[TopicPartition]:
    return sorted(member.assignment.topic_partitions, key=lambda one: (one.topic, one.partition))
