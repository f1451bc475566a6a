"""Finds the broker that leads a partition, and calls it again while that is safe and the deadline allows.

A call is made again only if it changed nothing: it was not sent, or the other broker refused it because it does not
lead the partition, or has not heard of its topic yet. A broker that is called over a link never forwards the call: the
first broker looks up the leader again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.core.errors import (
    BrokerError,
    LeaderNotAvailable,
    NotLeader,
    PeerUnavailable,
    Throttled,
    TimedOut,
    UnknownTopic,
    UnknownTopicId,
)
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.cluster.values import NO_LEADER
from penstock.core.model import PartitionId
from penstock.node.peers.links import PeerLinks

RETRY_S_MIN, RETRY_S_MAX = 0.02, 0.5
"""Pause before the same broker is called again; it doubles with each further attempt."""

UNCHANGED = (NotLeader, LeaderNotAvailable, PeerUnavailable, Throttled, UnknownTopic, UnknownTopicId)
"""Errors after which a call can be made again, whatever it does."""
AWAY = (*UNCHANGED, TimedOut)
"""The same for a call that may be run twice: one that changes nothing, or whose repetition is recognised."""

T = TypeVar("T")
LeaderCall = Callable[[int, int], Awaitable[T]]
"""Calls a broker (its id, the time left in milliseconds)."""


class Leaders:
    """Who leads what, as far as this broker knows."""

    def __init__(self, links: PeerLinks, node_id: int, catalog: Catalog) -> None:
        self.links = links
        self.node_id = node_id
        self._catalog = catalog

    def find(self, partition: PartitionId, hint: BrokerError | None = None) -> int:
        """The broker that leads a partition; maybe this one. `hint`: the error of the last attempt, which may name a
        leader that this broker has not heard of. Raises UnknownTopic, LeaderNotAvailable."""
        placed = self._catalog.cluster.find_partition(partition)
        if placed is None:
            raise UnknownTopic("the topic was deleted")
        if isinstance(hint, NotLeader) and hint.leader_epoch > placed.leader_epoch and hint.leader_id >= 0:
            return hint.leader_id
        if placed.leader == NO_LEADER:
            raise LeaderNotAvailable(
                f"{self.name(partition)} has no leader at the moment: none of its brokers {list(placed.replicas)}"
                " is running"
            )
        return placed.leader

    def name(self, partition: PartitionId) -> str:
        """For messages."""
        topic = self._catalog.find_by_id(partition.topic_id)
        return f"{partition.topic_id.hex() if topic is None else topic.name}-{partition.partition}"

    def pause_s(self, attempt: int, *, is_same: bool) -> float:
        """How long to wait before the next attempt; `is_same`: it goes to the same broker as the last one."""
        return min(RETRY_S_MIN * 2 ** min(attempt, 10), RETRY_S_MAX) if is_same else 0.0

    def final_error(self, partition: PartitionId, broker_id: int, error: BrokerError) -> BrokerError:
        """What to tell the client after the last attempt. A topic that only the other broker does not know yet exists:
        the client must not be told that it does not."""
        if isinstance(error, UnknownTopic | UnknownTopicId):
            return NotLeader(f"broker {broker_id} does not know {self.name(partition)} yet")
        return error

    async def read(self, partition: PartitionId, call: LeaderCall[T], *, timeout_ms: int) -> T | None:
        """Make a call that changes nothing to the leader, again if its outcome is unknown. None: this broker leads the
        partition. Raises the error of the last attempt."""
        now_s = asyncio.get_running_loop().time
        deadline_s = now_s() + timeout_ms / 1000
        last: BrokerError | None = None
        last_id, attempt = NO_LEADER, 0
        while True:
            broker_id = self.find(partition, last)
            if broker_id == self.node_id:
                return None
            if last is not None:
                await asyncio.sleep(self.pause_s(attempt, is_same=broker_id == last_id))
                attempt += 1
            left_ms = round((deadline_s - now_s()) * 1000)
            if last is not None and left_ms <= 0:
                raise self.final_error(partition, last_id, last)
            try:
                return await call(broker_id, max(1, left_ms))
            except AWAY as error:
                if self.links.is_closed:
                    raise
                last, last_id = error, broker_id
