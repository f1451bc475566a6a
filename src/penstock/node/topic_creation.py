"""Creation and growth of topics for all doors, on demand, and for the broker's own topics.

Adds defaults to a request, and lets the catalog decide, which also places the partitions if brokers are registered. A
single node stores one replica of everything. The caller commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.core.errors import InvalidAssignment, InvalidReplication, InvalidRequest
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.assignment import default_factor
from penstock.core.ports import Clock
from penstock.node.settings import Settings


class ReplicaAssignment(NamedTuple):
    """The brokers that hold one partition."""

    partition: int
    broker_ids: Sequence[int]


class NewTopic(NamedTuple):
    """A topic to create. None means the cluster's default."""

    name: str
    partition_count: int | None = None
    overrides: Mapping[str, str | None] = {}
    replication_factor: int | None = None
    assignments: Sequence[ReplicaAssignment] = ()
    """Explicit replicas per partition, instead of the two counts."""
    is_internal: bool = False


class TopicCreation:
    """Decides the creation of topics on one node."""

    def __init__(self, settings: Settings, node_id: int, clock: Clock) -> None:
        self._default_partitions = settings.default_partitions
        self._default_factor = settings.default_replication_factor
        self._node_id = node_id
        self._clock = clock

    def decide(self, catalog: Catalog, new: NewTopic, topic_id: bytes) -> list[Event]:
        """The events that create the topic. Raises if it cannot be created.

        All decisions of one request have the same id: an append without a reply may have taken effect although the
        change was decided again since, and the client is told the id that the topic has.
        """
        count = len(new.assignments) or new.partition_count
        is_single = not catalog.cluster.has_brokers
        events = catalog.decide_create_topic(
            new.name,
            self._default_partitions if count is None else count,
            new.overrides,
            topic_id=topic_id,
            now_ms=self._clock.now_ms(),
            internal=new.is_internal,
            replication_factor=self._factor(catalog, new),
            assignments=None if is_single else _assignments(new),
        )
        if is_single:
            self._check_single(new)
        return events

    def decide_growth(
        self, catalog: Catalog, name: str, total: int, assignments: Sequence[Sequence[int]] | None
    ) -> list[Event]:
        """The events that add partitions to a topic, on the given brokers. Raises if they cannot be added."""
        if catalog.cluster.has_brokers:
            return catalog.decide_add_partitions(name, total, assignments=assignments)
        events = catalog.decide_add_partitions(name, total)
        if assignments is not None:
            added = total - catalog.topic(name).partition_count
            if len(assignments) != added:
                raise InvalidAssignment(f"{len(assignments)} partitions are assigned, but {added} are added")
            for broker_ids in assignments:
                self._check_assignment(broker_ids)
        return events

    def _factor(self, catalog: Catalog, new: NewTopic) -> int:
        """The broker's own topics get what is possible: they are needed at once, and raised when brokers join."""
        if new.replication_factor is not None:
            return new.replication_factor
        factor = default_factor(catalog.cluster, self._default_factor)
        if not new.is_internal:
            return factor
        return min(factor, max(1, sum(not one.is_draining for one in catalog.cluster.brokers)))

    def _check_single(self, new: NewTopic) -> None:
        """Raise unless the requested replicas exist on this single node."""
        if not new.assignments:
            if new.replication_factor not in (None, 1):
                raise InvalidReplication(
                    f"the replication factor is {new.replication_factor}, but a single broker stores one copy: use 1,"
                    " or -1 for the default"
                )
            return
        _check_numbering(new)
        for one in new.assignments:
            self._check_assignment(one.broker_ids)

    def _check_assignment(self, broker_ids: Sequence[int]) -> None:
        """Raise if replicas are assigned to unknown brokers."""
        if list(broker_ids) != [self._node_id]:
            raise InvalidAssignment(
                f"the assignment names brokers {list(broker_ids)}, but the only broker is {self._node_id}"
            )


def _assignments(new: NewTopic) -> list[Sequence[int]] | None:
    """The explicit replicas by partition; None if the broker chooses."""
    if not new.assignments:
        return None
    _check_numbering(new)
    return [one.broker_ids for one in sorted(new.assignments, key=lambda one: one.partition)]


def _check_numbering(new: NewTopic) -> None:
    if new.partition_count is not None or new.replication_factor is not None:
        raise InvalidRequest(
            "with explicit assignments, the number of partitions and the replication factor must both be -1"
        )
    indexes = sorted(one.partition for one in new.assignments)
    if indexes != list(range(len(indexes))):
        raise InvalidAssignment("the assigned partitions must be numbered consecutively from 0, each once")
