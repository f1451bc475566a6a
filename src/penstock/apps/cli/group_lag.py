"""The lag of many groups at once, from few requests: one per group, and one per broker for all end offsets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from penstock.client.errors import ClientError, Refused
from penstock.client.raw.cluster import Cluster, Node, TopicPartition
from penstock.client.raw.committed_offsets import committed
from penstock.client.raw.offsets import EARLIEST, LATEST, known_offsets
from penstock.wire.kafka import ApiKey, error_name, messages

GROUP_MS_MAX = 2_000
"""Time for the offsets of one group: an overview of many must not wait long for a coordinator that is gone."""


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group in a list."""

    group: str
    kind: str
    state: str


@dataclass(frozen=True, slots=True)
class GroupLagSummary:
    """A group and how far it is behind; None if an open transaction or a missing broker hides that."""

    group: str
    kind: str
    state: str
    topics: list[str]
    partitions: int
    lag: int | None


def listed_groups(cluster: Cluster) -> list[GroupEntry]:
    """The groups of all brokers, sorted by name. Raises ClientError if one does not answer."""
    found = []
    for node_id in sorted(cluster.brokers()):
        answer = cluster.ask_once(ApiKey.LIST_GROUPS, messages.ListGroupsRequest(), Node(node_id))
        if answer.error_code:
            raise Refused(f"cannot list the groups of broker {node_id}: {error_name(answer.error_code)}")
        found += [
            GroupEntry(one.group_id, (one.group_type or "classic").lower(), one.group_state.lower())
            for one in answer.groups
        ]
    return sorted(found, key=lambda one: one.group)


def lag_summaries(cluster: Cluster, groups: Iterable[GroupEntry]) -> list[GroupLagSummary]:
    """The total lag of each group, in every partition of the topics in which it has committed offsets."""
    listed = list(groups)
    with Cluster(replace(cluster.access, call_ms_max=GROUP_MS_MAX)) as impatient:
        commits = {one.group: _committed(impatient, one.group) for one in listed}
    names = {place.topic for offsets in commits.values() for place in offsets or ()}
    leaders = {
        TopicPartition(name, number): leader
        for name, topic in cluster.topics(names).items()
        for number, leader in topic.leaders.items()
    }
    starts, ends = (known_offsets(cluster, leaders, at) for at in (EARLIEST, LATEST))
    return [_summary(one, commits[one.group], leaders, starts, ends) for one in listed]


def _committed(cluster: Cluster, group: str) -> dict[TopicPartition, int] | None:
    try:
        return {place: one.offset for place, one in committed(cluster, group, waits=False).items()}
    except ClientError:  # an open transaction, a coordinator that is gone, a group of somebody else
        return None


def _summary(
    one: GroupEntry,
    offsets: dict[TopicPartition, int] | None,
    known: Iterable[TopicPartition],
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> GroupLagSummary:
    topics = {place.topic for place in offsets or ()}
    places = [place for place in known if place.topic in topics]
    lag: int | None = 0
    for place in places:
        at = (offsets or {}).get(place, starts.get(place))
        if lag is None or at is None or place not in ends:
            lag = None
        else:
            lag += max(0, ends[place] - at)
    return GroupLagSummary(
        one.group, one.kind, one.state, sorted(topics), len(places), None if offsets is None else lag
    )
