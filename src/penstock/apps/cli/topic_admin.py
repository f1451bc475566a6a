"""Topics through the Kafka admin client, as plain values. Never prints and never asks a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any

import click
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from penstock.apps.cli.client import (
    REQUEST_SECONDS_MAX,
    cluster_metadata,
    connect_admin,
    failure,
    topic_metadata,
)
from penstock.apps.cli.failures import RefusedByBroker

BROKER_DECIDES = -1
"""Number of partitions or replicas that means: what the broker has as its default."""


@dataclass(frozen=True, slots=True)
class PartitionShown:
    """One partition as `describe` shows it."""

    partition: int
    leader: int
    replicas: list[int]
    in_sync: list[int]
    start_offset: int
    end_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class ConfigShown:
    """One setting of a topic and who set it."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class TopicShown:
    """One topic as `describe` shows it."""

    topic: str
    partitions: list[PartitionShown]
    configs: list[ConfigShown]

    def plain(self) -> dict[str, Any]:
        """The same for JSON."""
        return asdict(self)


class TopicAdmin:
    """Calls of one command; every error comes out as a sentence with its exit code."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.client = connect_admin(bootstrap)

    def create(
        self,
        names: Sequence[str],
        partitions: int | None,
        configs: Mapping[str, str],
        *,
        if_not_exists: bool,
    ) -> set[str]:
        """Create them all; returns those that were not there before."""
        count = partitions if partitions is not None else BROKER_DECIDES
        wanted = [NewTopic(name, count, BROKER_DECIDES, config=dict(configs)) for name in names]
        created = set()
        for name, future in self._ask(self.client.create_topics, wanted).items():
            try:
                self._settle(future, name)
                created.add(name)
            except _Exists:
                if not if_not_exists:
                    raise
        return created

    def all_topics(self) -> list[tuple[str, int, int]]:
        """Name, partitions and replicas of every topic, by name."""
        topics = cluster_metadata(self.client, self.bootstrap).topics
        return [
            (
                name,
                len(found.partitions),
                max((len(p.replicas) for p in found.partitions.values()), default=0),
            )
            for name, found in sorted(topics.items())
        ]

    def describe(self, name: str, *, all_configs: bool) -> TopicShown:
        """Partitions with their offsets, and settings: all of them, or those that differ from the default."""
        found = topic_metadata(self.client, name, self.bootstrap)
        numbers = sorted(found.partitions)
        starts = self._offsets(name, numbers, OffsetSpec.earliest())
        ends = self._offsets(name, numbers, OffsetSpec.latest())
        partitions = [
            PartitionShown(
                partition=number,
                leader=found.partitions[number].leader,
                replicas=list(found.partitions[number].replicas),
                in_sync=list(found.partitions[number].isrs),
                start_offset=starts[number],
                end_offset=ends[number],
                records=ends[number] - starts[number],
            )
            for number in numbers
        ]
        return TopicShown(name, partitions, self._configs(name, all_configs=all_configs))

    def alter(self, name: str, configs: Mapping[str, str], unset: Sequence[str]) -> None:
        """Set some settings and put others back, as one change."""
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in configs.items()
        ]
        entries += [ConfigEntry(key, "", incremental_operation=AlterConfigOpType.DELETE) for key in unset]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        self._settle(self._ask(self.client.incremental_alter_configs, [resource])[resource], name)

    def delete(self, names: Sequence[str]) -> None:
        """Delete them all; the first that cannot be deleted is reported after all were tried."""
        futures = self._ask(self.client.delete_topics, list(names))
        problems = [error for name, future in futures.items() if (error := self._problem(future, name))]
        if problems:
            raise problems[0]

    def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to so many partitions."""
        self._settle(self._ask(self.client.create_partitions, [NewPartitions(name, total)])[name], name)

    def _offsets(self, name: str, numbers: Sequence[int], spec: OffsetSpec) -> dict[int, int]:
        asked = {TopicPartition(name, number): spec for number in numbers}
        futures = self._ask(self.client.list_offsets, asked)
        return {place.partition: self._settle(future, name).offset for place, future in futures.items()}

    def _configs(self, name: str, *, all_configs: bool) -> list[ConfigShown]:
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = self._settle(self._ask(self.client.describe_configs, [resource])[resource], name)
        shown = []
        for key, entry in sorted(entries.items()):
            source = ConfigSource(entry.source)
            if all_configs or source is ConfigSource.DYNAMIC_TOPIC_CONFIG:
                shown.append(ConfigShown(key, str(entry.value), source.name.lower().replace("_", " ")))
        return shown

    def _ask(self, call: Callable[..., dict[Any, Future[Any]]], argument: Any) -> dict[Any, Future[Any]]:
        return call(argument, request_timeout=REQUEST_SECONDS_MAX)

    def _settle(self, future: Future[Any], name: str) -> Any:
        try:
            return future.result()
        except KafkaException as error:
            cause = error.args[0]
            translated = failure(cause, self.bootstrap, name)
            if cause.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise _Exists(translated.message) from error
            raise translated from error

    def _problem(self, future: Future[Any], name: str) -> click.ClickException | None:
        try:
            self._settle(future, name)
        except click.ClickException as error:
            return error
        return None


class _Exists(RefusedByBroker):
    """The topic is there already, which some callers do not mind."""
