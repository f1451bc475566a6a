"""An operator of a simulated cluster who moves partitions about, and changes his mind. Asserts nothing.

All partitions may move, also those of the coordinators. Every move that was started has to end once the faults stop.
"""

from __future__ import annotations

from penstock.wire.kafka import ApiKey, ErrorCode, messages
from sim.cluster_clients import Client
from sim.cluster_router import ANSWER_S_MAX, Trouble, troubles

MOVES_MAX = 3
"""Partitions that one request moves."""
CANCEL_CHANCE = 0.2
_ALTER, _METADATA = 1, 12
REFUSALS = frozenset(
    {
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""A topic may be deleted meanwhile, a move may be over, and the only complete copy may be out of reach."""


class Mover(Client):
    """Moves a few random partitions at a time to random brokers, or cancels their moves."""

    async def work(self) -> None:
        answer = await self._router.refresh()
        places = [
            (topic.name, one.partition_index)
            for topic in answer.topics
            for one in topic.partitions
            if not topic.error_code
        ]
        broker_ids = sorted(one.node_id for one in answer.brokers)
        if not places or not broker_ids:
            raise Trouble("there is nothing to move")
        request = messages.AlterPartitionReassignmentsRequest
        topics = []
        for name, index in self._chance.sample(places, min(len(places), self._chance.randint(1, MOVES_MAX))):
            is_cancelled = self._chance.random() < CANCEL_CHANCE
            target = None if is_cancelled else [self._chance.choice(broker_ids)]
            one = request.ReassignablePartition(partition_index=index, replicas=target)
            topics.append(request.ReassignableTopic(name=name, partitions=[one]))
        client = await self._router.anyone()
        with troubles():
            done = await client.call(
                ApiKey.ALTER_PARTITION_REASSIGNMENTS,
                _ALTER,
                request(timeout_ms=2_000, topics=topics),
                answer_s_max=ANSWER_S_MAX,
            )
        codes = {one.error_code for topic in done.responses for one in topic.partitions}
        assert not done.error_code and codes <= {0, *REFUSALS}, codes
