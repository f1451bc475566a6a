"""Reads the committed offsets of a group. Blocking; never joins a group.

Reads stable offsets only: the request is retried while an open transaction may still change them.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.client.errors import Pending, Refused
from penstock.client.raw.cluster import RETRIABLE, Cluster, Coordinator, TopicPartition
from penstock.wire.kafka import ApiKey, ErrorCode, error_name, messages

_ONE_GROUP_VERSION_MAX = 7
"""The last version for a single group, and the first with `require_stable`."""


class CommittedOffset(NamedTuple):
    """Committed offset of one partition, with its metadata."""

    offset: int
    metadata: str


def committed(cluster: Cluster, group: str, *, waits: bool = True) -> dict[TopicPartition, CommittedOffset]:
    """All committed offsets of a group; empty for an unknown group.

    With `waits=False`, raises Pending at once if an open transaction may still change them.
    """
    again_on = RETRIABLE if waits else RETRIABLE - {ErrorCode.UNSTABLE_OFFSET_COMMIT}
    response = cluster.ask(
        ApiKey.OFFSET_FETCH,
        messages.OffsetFetchRequest(group_id=group, topics=None, require_stable=True),
        Coordinator.of_group(group),
        version_max=_ONE_GROUP_VERSION_MAX,
        again_on=again_on,
    )
    partitions = [(topic.name, one) for topic in response.topics for one in topic.partitions]
    for code in (response.error_code, *(one.error_code for _, one in partitions)):
        if code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
            raise Pending(
                f"an open transaction may change the offsets of group {group}", code=error_name(code)
            )
        if code:
            raise Refused(
                f"cannot fetch the offsets of group {group}: {error_name(code)}", code=error_name(code)
            )
    return {
        TopicPartition(name, one.partition_index): CommittedOffset(one.committed_offset, one.metadata or "")
        for name, one in partitions
        if one.committed_offset >= 0
    }
