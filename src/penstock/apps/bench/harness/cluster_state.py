"""What a cluster says about itself over Kafka's Metadata: brokers, leaders, in-sync replicas of partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.apps.bench.harness.frames import METADATA_VERSION, frame_of
from penstock.apps.bench.harness.link import Address, UnexpectedResponse
from penstock.apps.bench.harness.loader import Loader
from penstock.wire.kafka import ApiKey, messages

POLL_S = 0.02
WHOLE_S_MAX = 120.0
STABLE_S = 1.0
"""A cluster counts as whole if it was for this long: brokers that were paused are fenced a moment after they resume."""
_STATE = frame_of(
    ApiKey.METADATA, METADATA_VERSION, messages.MetadataRequest(topics=None, allow_auto_topic_creation=False)
)


@dataclass(frozen=True, slots=True)
class SeenPartition:
    """One partition, as one broker sees it."""

    topic: str
    index: int
    leader: int
    replicas: frozenset[int]
    in_sync: frozenset[int]


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """Brokers that are not fenced, and all partitions."""

    brokers: frozenset[int]
    partitions: tuple[SeenPartition, ...]

    def of(self, topic: str) -> list[SeenPartition]:
        """The partitions of a topic, in order."""
        return sorted((one for one in self.partitions if one.topic == topic), key=lambda one: one.index)

    def is_whole(self, brokers: int) -> bool:
        """Whether all brokers are there, and all replicas in sync."""
        return len(self.brokers) == brokers and all(
            one.leader in one.in_sync and one.in_sync == one.replicas for one in self.partitions
        )


def read_state(address: Address) -> SeenCluster:
    """Raises OSError and UnexpectedResponse."""
    with Loader(address) as loader:
        body = loader.call(_STATE)
    return SeenCluster(
        frozenset(one.node_id for one in body.brokers),
        tuple(
            SeenPartition(
                topic.name, one.partition_index, one.leader_id, frozenset(one.replica_nodes), frozenset(one.isr_nodes)
            )
            for topic in body.topics
            for one in topic.partitions
        ),
    )  # fmt: skip


def await_state(
    address: Address, is_reached: Callable[[SeenCluster], bool], seconds_max: float = WHOLE_S_MAX
) -> SeenCluster:
    """The first state that is as wanted. Raises UnexpectedResponse after `seconds_max`."""
    deadline = time.monotonic() + seconds_max
    seen: object = "no response"
    while time.monotonic() < deadline:
        try:
            state = read_state(address)
        except (OSError, UnexpectedResponse) as error:
            seen = error
        else:
            if is_reached(state):
                return state
            seen = state
        time.sleep(POLL_S)
    raise UnexpectedResponse(f"{address[0]}:{address[1]} after {seconds_max:.0f} s: {seen}"[:400])


def await_whole(addresses: Sequence[Address], seconds_max: float = WHOLE_S_MAX) -> None:
    """Wait until every broker sees all of them, and all replicas in sync, for a moment. Raises UnexpectedResponse."""
    deadline = time.monotonic() + seconds_max
    since_s: float | None = None
    while since_s is None or time.monotonic() - since_s < STABLE_S:
        missing = [found for one in addresses if (found := _what_misses(one, len(addresses)))]
        if missing:
            since_s = None
        elif since_s is None:
            since_s = time.monotonic()
        if missing and time.monotonic() > deadline:
            raise UnexpectedResponse(f"not whole after {seconds_max:.0f} s: {missing}"[:400])
        time.sleep(POLL_S)


def _what_misses(address: Address, brokers: int) -> str:
    """Why the cluster is not whole, as this broker sees it; empty if it is."""
    try:
        state = read_state(address)
    except (OSError, UnexpectedResponse) as error:
        return f"{address[1]}: {error}"
    if state.is_whole(brokers):
        return ""
    behind = [one for one in state.partitions if one.in_sync != one.replicas or one.leader not in one.in_sync]
    return f"{address[1]}: brokers {sorted(state.brokers)}, not in sync {behind[:2]}"
