"""What groups have committed: an offset and a word for each partition. Blocking; never joins a group.

Only what stands for good is told: while a transaction that changes it is open, the question waits.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.client.cluster import RETRIABLE, Cluster, Coordinator, TopicPartition
from penstock.client.connection import word
from penstock.client.errors import Pending, Refused
from penstock.wire.kafka import ApiKey, ErrorCode, messages

_ONE_GROUP_VERSION_MAX = 7
"""The last version that asks about one group, and the first that can wait for open transactions."""


class CommittedOffset(NamedTuple):
    """What a group has committed for one partition."""

    offset: int
    metadata: str


def committed(cluster: Cluster, group: str, *, waits: bool = True) -> dict[TopicPartition, CommittedOffset]:
    """Everything that a group has committed; nothing if nobody ever heard of it.

    Unless it waits, a transaction that is about to change it is a Pending at once.
    """
    again_on = RETRIABLE if waits else RETRIABLE - {ErrorCode.UNSTABLE_OFFSET_COMMIT}
    answer = cluster.ask(
        ApiKey.OFFSET_FETCH,
        messages.OffsetFetchRequest(group_id=group, topics=None, require_stable=True),
        Coordinator.of_group(group),
        version_max=_ONE_GROUP_VERSION_MAX,
        again_on=again_on,
    )
    partitions = [(topic.name, one) for topic in answer.topics for one in topic.partitions]
    for code in (answer.error_code, *(one.error_code for _, one in partitions)):
        if code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
            raise Pending(f"a transaction is about to change the offsets of group {group}", code=word(code))
        if code:
            raise Refused(f"the offsets of group {group} are not told: {word(code)}", code=word(code))
    return {
        TopicPartition(name, one.partition_index): CommittedOffset(one.committed_offset, one.metadata or "")
        for name, one in partitions
        if one.committed_offset >= 0
    }
