"""Fetch as other brokers send it, to copy partitions that this broker leads. `fetch` serves clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.model import PartitionId
from penstock.doors.kafka.call import Call
from penstock.node.waist.replicas import ReplicaFetch, ReplicaIdentity
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import messages

if TYPE_CHECKING:
    from penstock.node.waist.replicas import ReplicaRead

NO_REPLICA = -1
TOPIC_IDS_FROM = 13
"""First version of Fetch that names topics by id."""


def replica_of(request: messages.FetchRequest) -> ReplicaIdentity | None:
    """The replica that fetches; None for a client."""
    state = request.replica_state
    if state is not None and state.replica_id > NO_REPLICA:
        return ReplicaIdentity(state.replica_id, state.replica_epoch)
    if request.replica_id > NO_REPLICA:  # versions without a broker epoch, which no registered broker has
        return ReplicaIdentity(request.replica_id, NO_REPLICA)
    return None


class ReplicaReads:
    """Reads single partitions for replicas."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.replicas
        self.check = self._verbs.check

    def read(
        self,
        call: Call,
        replica: ReplicaIdentity,
        topic: messages.FetchRequest.FetchTopic,
        one: messages.FetchRequest.FetchPartition,
        bytes_max: int,
    ) -> ReplicaRead:
        """Batches up to the end of the log. Raises BrokerError if nothing can be said about the partition."""
        wanted = ReplicaFetch(
            PartitionId(topic.topic_id, one.partition),
            one.fetch_offset,
            one.current_leader_epoch,
            one.last_fetched_epoch,
            one.log_start_offset,
            bytes_max,
            one.high_watermark,
        )
        by = topic.topic_id if call.version >= TOPIC_IDS_FROM else topic.topic
        return self._verbs.read(call.session, replica, by, wanted)
