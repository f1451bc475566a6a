"""An operator of a simulated cluster: moves partitions and changes his mind, elects preferred leaders, changes how many
replicas have to be in sync. Asserts nothing.

All partitions may move, also those of the coordinators. Every move that was started has to end once the faults stop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.wire.kafka import ApiKey, ErrorCode, messages
from sim.cluster_clients import Client
from sim.cluster_plan import Plan
from sim.cluster_router import ANSWER_S_MAX, Trouble, troubles
from sim.ledger import Kind

MOVES_MAX = 3
"""Partitions that one request moves."""
CANCEL_CHANCE = 0.2
_ALTER, _ELECT = 1, 2
PREFERRED = 0
MOVE_REFUSALS = frozenset(
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
ELECTION_REFUSALS = frozenset(
    {
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class Operator(Client):
    """Does one thing at a time, to random partitions."""

    plan: Plan
    unknown_losses: Callable[[], set[int]]
    """The brokers that have lost records, of which metadata does not know yet."""
    _is_finished = False

    async def work(self) -> None:
        await self._chance.choice((self._move, self._move, self._elect, self._tune))()

    async def _known(self) -> tuple[list[tuple[str, int]], list[int]]:
        """All partitions and brokers."""
        answer = await self._router.refresh()
        places = [
            (topic.name, one.partition_index)
            for topic in answer.topics
            for one in topic.partitions
            if not topic.error_code
        ]
        broker_ids = sorted(one.node_id for one in answer.brokers)
        if not places or not broker_ids:
            raise Trouble("there is nothing to operate")
        count = min(len(places), self._chance.randint(1, MOVES_MAX))
        return self._chance.sample(places, count), broker_ids

    async def _call(self, api_key: ApiKey, version: int, body: Any) -> Any:
        client = await self._router.anyone()
        with troubles():
            return await client.call(api_key, version, body, answer_s_max=ANSWER_S_MAX)

    async def _move(self) -> None:
        """To random brokers, or back to where they were."""
        places, broker_ids = await self._known()
        request = messages.AlterPartitionReassignmentsRequest
        topics = []
        for name, index in places:
            is_cancelled = self._chance.random() < CANCEL_CHANCE
            factor = self.plan.factor(self._chance, len(broker_ids))
            target = None if is_cancelled else self._chance.sample(broker_ids, factor)
            one = request.ReassignablePartition(partition_index=index, replicas=target)
            topics.append(request.ReassignableTopic(name=name, partitions=[one]))
        body = request(timeout_ms=2_000, topics=topics)
        done = await self._call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, _ALTER, body)
        codes = {one.error_code for topic in done.responses for one in topic.partitions}
        assert not done.error_code and codes <= {0, *MOVE_REFUSALS}, codes

    async def _elect(self) -> None:
        """The preferred replicas of some partitions."""
        places, _ = await self._known()
        request = messages.ElectLeadersRequest
        named = [request.TopicPartitions(topic=name, partitions=[index]) for name, index in places]
        body = request(election_type=PREFERRED, topic_partitions=named, timeout_ms=2_000)
        done = await self._call(ApiKey.ELECT_LEADERS, _ELECT, body)
        codes = {one.error_code for topic in done.replica_election_results for one in topic.partition_result}
        assert not done.error_code and codes <= {0, *ELECTION_REFUSALS}, (done.error_code, codes)

    async def _tune(self) -> None:
        """How many replicas have to be in sync."""
        await self._set_minimum(self._chance.choice(self._tunable()), self._chance.choice(self.plan.minimums))

    def _tunable(self) -> list[str]:
        return [one.name for one in self._ledger.topics.values() if one.kind is Kind.PLAIN]

    async def _set_minimum(self, name: str, minimum: int) -> None:
        """Not while a broker is missing that may not come back complete: a lower minimum can make it the only one of
        which metadata knows that it was complete."""
        if lost := self.unknown_losses():
            raise Trouble(f"{sorted(lost)} are being replaced")
        client = await self._router.anyone()
        with troubles():
            await client.alter_topic(name, "min.insync.replicas", str(minimum))

    async def finish(self) -> None:
        """A topic that has lost replicas to a move could not be written to otherwise."""
        for name in self._tunable():
            await self._set_minimum(name, 1)
        self._is_finished = True

    def is_finished(self) -> bool:
        return self._is_finished
