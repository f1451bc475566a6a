"""Calls between brokers for the comparison of replicas. `peer_calls` has what all calls share."""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.model import PartitionId
from penstock.node.peers.links import PeerLinks
from penstock.node.peers.peer_calls import peer_error
from penstock.wire.kafka import messages

TIMEOUT_MS = 30_000
"""Reads of a few megabytes, on a disk that may be busy."""


class WantedChecksum(NamedTuple):
    """A range of a replica; `expected`: the checksum of the majority, against which the replica differed."""

    partition: PartitionId
    leader_epoch: int
    start_offset: int
    end_offset: int
    expected: bytes | None = None


class ScrubProgress(NamedTuple):
    """What a broker has compared since its start."""

    is_running: bool
    rounds: int
    scrubbed_bytes: int
    differences: int
    repairs: int
    """Replicas of this broker that were repaired, whatever their fault was."""


async def ask_checksum(links: PeerLinks, broker_id: int, wanted: WantedChecksum) -> bytes:
    """The checksum of a range of another broker's replica. Raises CorruptBatch if its batches are damaged, or differ
    from `expected`."""
    (topic_id, partition), leader_epoch, start, end, expected = wanted
    request = messages.RangeChecksumRequest(
        topic_id=topic_id,
        partition=partition,
        leader_epoch=leader_epoch,
        start_offset=start,
        end_offset=end,
        expected=expected,
    )
    response = await links.call(broker_id, request, timeout_ms=TIMEOUT_MS)
    if response.error_code:
        raise peer_error(broker_id, response.error_code, response.error_message)
    return bytes(response.digest)


async def ask_scrub(
    links: PeerLinks, broker_id: int, *, is_started: bool, topic: str | None, timeout_ms: int
) -> ScrubProgress:
    """What another broker has compared; with `is_started` it begins a round."""
    request = messages.ScrubReplicasRequest(is_started=is_started, topic=topic)
    response = await links.call(broker_id, request, timeout_ms=timeout_ms)
    if response.error_code:
        raise peer_error(broker_id, response.error_code, response.error_message)
    return ScrubProgress(
        response.is_running,
        response.rounds,
        response.scrubbed_bytes,
        response.differences,
        response.repairs,
    )
