"""Members of a classic group on a simulated cluster: join, sync, heartbeat, read on from the committed offset, commit.

What one member was told that it has committed, no later member may find taken back. A commit without an answer could
still arrive; its sender gives up its membership, so that it would arrive in an old generation and be refused.
"""

from __future__ import annotations

from typing import Any

from penstock.wire.kafka import ApiKey, ErrorCode, messages
from sim.cluster_clients import Client
from sim.cluster_router import Trouble, troubles
from sim.kafka_client import KafkaError, Place
from sim.ledger import Broken

SESSION_MS, REBALANCE_MS = 6_000, 4_000
ANSWER_S_MAX = 8.0
_JOIN, _SYNC, _BEAT, _LEAVE, _COMMIT, _FETCH_OFFSETS = 7, 5, 4, 3, 8, 7

EXPELLED = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""Codes after which a member joins again."""


class GroupStory:
    """What the members of one group were told."""

    def __init__(self, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.committed: dict[int, int] = {}
        """Partition → the highest offset that a commit was acknowledged for."""
        self.generation = -1

    def acked(self, partition: int, offset: int) -> None:
        self.committed[partition] = max(offset, self.committed.get(partition, -1))

    def found(self, partition: int, offset: int) -> None:
        if offset < self.committed.get(partition, -1):
            where = f"{self.group}, {self.topic}-{partition}"
            raise Broken(f"{where}: {self.committed[partition]} was committed, {offset} is there")


class GroupMember(Client):
    """One member. `join` the story of its group before it runs."""

    story: GroupStory

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._member_id = ""
        self._generation = -1
        self._positions: dict[int, int] = {}
        """Those of the partitions that are assigned to it."""
        self._has_left = False

    async def work(self) -> None:
        if self._generation < 0:
            await self._enter()
            return
        await self._ask(ApiKey.HEARTBEAT, _BEAT, messages.HeartbeatRequest, generation_id=self._generation)
        if self._positions:
            await self._read_on(self._chance.choice(sorted(self._positions)))

    async def finish(self) -> None:
        """Leave, and see that what was committed is there."""
        for partition in sorted(self.story.committed):
            await self._fetch_offset(partition)
        self._has_left = True

    def is_finished(self) -> bool:
        return self._has_left

    # -- membership

    async def _enter(self) -> None:
        request = messages.JoinGroupRequest
        self._positions = {}
        joined = await self._ask(
            ApiKey.JOIN_GROUP,
            _JOIN,
            request,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=[request.JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        members = sorted(one.member_id for one in joined.members)
        assignments = self._shared_out(members) if joined.leader == joined.member_id else []
        synced = await self._ask(
            ApiKey.SYNC_GROUP,
            _SYNC,
            messages.SyncGroupRequest,
            generation_id=joined.generation_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        self._generation = joined.generation_id
        self._note_generation()
        for partition in bytes(synced.assignment):
            self._positions[partition] = max(0, await self._fetch_offset(partition))

    def _note_generation(self) -> None:
        if self._generation < self.story.generation:
            raise Broken(
                f"{self.story.group} went from generation {self.story.generation} to {self._generation}"
            )
        self.story.generation = self._generation

    def _shared_out(self, members: list[str]) -> list[Any]:
        """Every partition to one member, in turns."""
        topic = next(one for one in self._ledger.topics.values() if one.name == self.story.topic)
        every = range(len(topic.partitions))
        return [
            messages.SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=one, assignment=bytes(every[at :: len(members)])
            )
            for at, one in enumerate(members)
        ]

    async def _ask(self, api_key: ApiKey, version: int, request: Any, **fields: Any) -> Any:
        """A call of this member to its coordinator; whoever is expelled joins again."""
        client = await self._router.coordinator(self.story.group)
        body = request(group_id=self.story.group, member_id=self._member_id, group_instance_id=None, **fields)
        with troubles():
            answer = await client.call(api_key, version, body, answer_s_max=ANSWER_S_MAX)
        self._member_id = getattr(answer, "member_id", self._member_id) or self._member_id
        self._check(answer.error_code)
        return answer

    def _check(self, code: int) -> None:
        if code in EXPELLED:
            self._generation = -1
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            raise Trouble(ErrorCode(code).name, code)
        if code:
            with troubles():
                raise KafkaError(code)

    # -- records and offsets

    async def _read_on(self, partition: int) -> None:
        topic_id = next(
            topic_id for topic_id, one in self._ledger.topics.items() if one.name == self.story.topic
        )
        place, position = Place(topic_id, partition), self._positions[partition]
        with troubles():
            fetched = await (await self._router.leader(place)).fetch(place, position)
        self._ledger.seen(place, fetched.records)
        if fetched.next_offset > position:
            await self._commit(partition, fetched.next_offset)
            self._positions[partition] = fetched.next_offset

    async def _commit(self, partition: int, offset: int) -> None:
        request = messages.OffsetCommitRequest
        one = request.OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        body = request(
            group_id=self.story.group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[request.OffsetCommitRequestTopic(name=self.story.topic, partitions=[one])],
        )
        client = await self._router.coordinator(self.story.group)
        try:
            with troubles():
                answer = await client.call(ApiKey.OFFSET_COMMIT, _COMMIT, body, answer_s_max=ANSWER_S_MAX)
            self._check(answer.topics[0].partitions[0].error_code)
        except Trouble:
            self._member_id, self._generation = "", -1
            raise
        self.story.acked(partition, offset)

    async def _fetch_offset(self, partition: int) -> int:
        request = messages.OffsetFetchRequest
        topic = request.OffsetFetchRequestTopic(name=self.story.topic, partition_indexes=[partition])
        client = await self._router.coordinator(self.story.group)
        with troubles():
            answer = await client.call(
                ApiKey.OFFSET_FETCH, _FETCH_OFFSETS, request(group_id=self.story.group, topics=[topic])
            )
        self._check(answer.error_code)
        found = answer.topics[0].partitions[0]
        self._check(found.error_code)
        self.story.found(partition, found.committed_offset)
        return int(found.committed_offset)
