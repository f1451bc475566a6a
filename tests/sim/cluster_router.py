"""The connections of one client to a simulated cluster: finds leaders and coordinators as Kafka clients do.

Whatever another try may cure is a `Trouble`; everything else that a broker answers is an error of the run.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.core.model import Address
from penstock.wire.kafka import ApiKey, ErrorCode, messages
from sim.kafka_client import KafkaClient, KafkaError, Place

CONNECT_S_MAX = 1.0
ANSWER_S_MAX = 3.0
_METADATA, _FIND = 12, 4
GROUP_KEY, TRANSACTION_KEY = 0, 1

PASSING = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""Codes after which a client looks for the leader again. A broker may not have heard of a new topic yet."""


class Trouble(Exception):
    """It did not work this time, or nobody knows whether it did. Says why, for the log of the run."""

    def __init__(self, why: object, code: int | None = None) -> None:
        super().__init__(str(why))
        self.code = code


@contextmanager
def troubles() -> Iterator[None]:
    """Failures of the network, and errors that pass, as Trouble."""
    try:
        yield
    except (OSError, TimeoutError) as error:
        raise Trouble(str(error) or type(error).__name__) from error
    except KafkaError as error:
        if error.code not in PASSING:
            raise
        raise Trouble(error, error.code) from error


class Router:
    """One client's knowledge of the cluster, renewed whenever it turns out to be wrong."""

    def __init__(self, bootstrap: Sequence[Address], chance: random.Random) -> None:
        self._bootstrap = list(bootstrap)
        self._chance = chance
        self._connections: dict[Address, KafkaClient] = {}
        self._leaders: dict[Place, Address] = {}
        self._epochs: dict[Place, int] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}

    async def anyone(self) -> KafkaClient:
        """Some broker of the bootstrap list."""
        return await self._to(self._chance.choice(self._bootstrap))

    async def leader(self, place: Place) -> KafkaClient:
        """The leader of a partition, as far as is known."""
        if place not in self._leaders:
            await self.refresh()
        if place not in self._leaders:
            raise Trouble(f"{place} has no leader")
        return await self._to(self._leaders[place])

    async def coordinator(self, key: str, kind: int = GROUP_KEY) -> KafkaClient:
        """The coordinator of a group or a transactional id, as far as is known."""
        address = self._coordinators.get((kind, key))
        if address is None:
            client = await self.anyone()
            body = messages.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            with troubles():
                answer = await client.call(ApiKey.FIND_COORDINATOR, _FIND, body, answer_s_max=ANSWER_S_MAX)
                found = answer.coordinators[0]
                if found.error_code:
                    raise KafkaError(found.error_code, found.error_message)
            address = self._coordinators[kind, key] = Address(found.host, found.port)
        return await self._to(address)

    async def refresh(self) -> Any:
        """Ask some broker for all leaders; returns its answer."""
        client = await self.anyone()
        body = messages.MetadataRequest(topics=None, allow_auto_topic_creation=False)
        with troubles():
            answer = await client.call(ApiKey.METADATA, _METADATA, body, answer_s_max=ANSWER_S_MAX)
        addresses = {one.node_id: Address(one.host, one.port) for one in answer.brokers}
        self._leaders = {
            Place(bytes(topic.topic_id), one.partition_index): addresses[one.leader_id]
            for topic in answer.topics
            for one in topic.partitions
            if one.leader_id in addresses
        }
        self._epochs = {
            Place(bytes(topic.topic_id), one.partition_index): one.leader_epoch
            for topic in answer.topics
            for one in topic.partitions
        }
        return answer

    def epoch_of(self, place: Place) -> int:
        """The leader epoch of a partition, as far as is known."""
        return self._epochs.get(place, -1)

    def forget(self) -> None:
        """What is known may be wrong."""
        self._leaders.clear()
        self._coordinators.clear()

    def close(self) -> None:
        for client in self._connections.values():
            client.close()

    async def _to(self, address: Address) -> KafkaClient:
        client = self._connections.get(address)
        if client is None or client.is_broken:
            with troubles():
                async with asyncio.timeout(CONNECT_S_MAX):
                    client = await KafkaClient.connect(*address)
            self._connections[address] = client
        return client
