"""One member of a classic group over the real wire, as kafka-python behaves: join, sync, heartbeat. Never judges.

Until its troubles end, it is a process on a machine that is far too busy: it stalls before and after every call, loses
its connection with calls under way, and asks again.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from penstock.wire.kafka import ApiKey, ErrorCode, messages
from sim import node
from sim.kafka_client import KafkaClient
from sim.loop import SimLoop

GROUP, TOPIC = "g", "t"
PARTITIONS = 4
SESSION_MS, REBALANCE_MS, BEAT_S = 10_000, 30_000, 0.3
STALLS_S = (0.0, 0.0, 0.01, 0.05, 0.2, 0.8, 2.0)
"""How long a process without a CPU stands still. Two in a row are still far shorter than a session."""
LOSS_CHANCE = 0.08
BACKOFF_S = 0.1
_FIND, _JOIN, _SYNC, _BEAT = 3, 7, 5, 4


class SimMember:
    """`holds` is what it was assigned and has not given up; `history` is what it was answered, with times."""

    def __init__(self, loop: SimLoop, name: str, history: list[str], *, instance: str | None = None) -> None:
        self.name = name
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.holds: frozenset[int] = frozenset()
        self.has_trouble = True
        self.times_forgotten = 0
        """How often the broker did not know it."""
        self._loop = loop
        self._random: random.Random = loop.random_for(f"member/{name}")
        self._history = history
        self._client: KafkaClient | None = None

    async def run(self) -> None:
        while True:
            try:
                await self._join_and_sync()
                await self._stay()
            except ConnectionError:
                self._note("lost its connection")
                await asyncio.sleep(BACKOFF_S)

    # -- calls

    async def _call(self, api_key: ApiKey, version: int, body: Any, answer_s_max: float = 20.0) -> Any:
        await self._stall()
        client = await self._connected()
        if self.has_trouble and self._random.random() < LOSS_CHANCE:
            self._loop.call_later(self._random.choice(STALLS_S), client.close)
        answer = await client.call(api_key, version, body, answer_s_max=answer_s_max)
        await self._stall()
        code = ErrorCode(answer.error_code)
        self._note(
            f"{api_key.name} of {body.generation_id if api_key is not ApiKey.JOIN_GROUP else self.member_id!r}"
            f" was answered {code.name}"
        )
        return answer

    async def _stall(self) -> None:
        if self.has_trouble:
            await asyncio.sleep(self._random.choice(STALLS_S))

    async def _connected(self) -> KafkaClient:
        if self._client is None or self._client.is_broken:
            self._client = await KafkaClient.connect(node.NAME, node.PORT)
            request = messages.FindCoordinatorRequest
            answer = await self._client.call(ApiKey.FIND_COORDINATOR, _FIND, request(key=GROUP, key_type=0))
            if answer.error_code:
                self._client.close()
                raise ConnectionError("there is no coordinator yet")
        return self._client

    def _note(self, text: str) -> None:
        self._history.append(f"{self._loop.time():9.3f} {self.name} {text}")

    # -- life

    async def _join_and_sync(self) -> None:
        """Until the broker has given it an assignment."""
        while True:
            joined = await self._join()
            if joined is None:
                continue
            members = sorted(one.member_id for one in joined.members)
            synced = await self._sync(_shared_out(members) if joined.leader == self.member_id else {})
            if synced is not None:
                self.holds = frozenset(synced)
                self._note(f"holds {sorted(self.holds)} in generation {self.generation}")
                return

    async def _join(self) -> Any:
        request = messages.JoinGroupRequest
        self.holds = frozenset()
        answer = await self._call(
            ApiKey.JOIN_GROUP,
            _JOIN,
            request(
                group_id=GROUP, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS,
                member_id=self.member_id, group_instance_id=self.instance, protocol_type="consumer",
                protocols=[request.JoinGroupRequestProtocol(name="range", metadata=b"")],
            ),
            REBALANCE_MS / 1_000 + 5,
        )  # fmt: skip
        match ErrorCode(answer.error_code):
            case ErrorCode.NONE:
                self.member_id, self.generation = answer.member_id, answer.generation_id
                return answer
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._forget()
            case _:
                await asyncio.sleep(BACKOFF_S)
        return None

    async def _sync(self, assignments: dict[str, bytes]) -> bytes | None:
        request = messages.SyncGroupRequest
        each = [
            request.SyncGroupRequestAssignment(member_id=one, assignment=share)
            for one, share in assignments.items()
        ]
        answer = await self._call(
            ApiKey.SYNC_GROUP,
            _SYNC,
            request(
                group_id=GROUP, generation_id=self.generation, member_id=self.member_id,
                group_instance_id=self.instance, protocol_type="consumer", protocol_name="range", assignments=each,
            ),
            REBALANCE_MS / 1_000 + 5,
        )  # fmt: skip
        if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget()
        return None if answer.error_code else bytes(answer.assignment)

    async def _stay(self) -> None:
        """Heartbeats until it has to join again. A lost connection is made again; the membership stays."""
        request = messages.HeartbeatRequest
        while True:
            await asyncio.sleep(BEAT_S)
            body = request(
                group_id=GROUP, generation_id=self.generation, member_id=self.member_id,
                group_instance_id=self.instance,
            )  # fmt: skip
            try:
                answer = await self._call(ApiKey.HEARTBEAT, _BEAT, body)
            except ConnectionError:
                continue
            if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._forget()
            if answer.error_code:
                return

    def _forget(self) -> None:
        self.member_id, self.times_forgotten = "", self.times_forgotten + 1


def _shared_out(members: list[str]) -> dict[str, bytes]:
    """Every partition to one member, in turns."""
    return {one: bytes(range(at, PARTITIONS, len(members))) for at, one in enumerate(members)}
