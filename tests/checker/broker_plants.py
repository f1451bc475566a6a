"""Bugs of replication to plant into real brokers, by name, before they start. Each loses acknowledged records when the
right processes die; a checker that finds none of them proves nothing.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from penstock.core.log.log import Log
from penstock.core.machines.cluster import transition
from penstock.core.machines.cluster.election import Elected, ElectionKind, Eligibility, elect
from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas
from penstock.core.replication.tracker import ReplicaTracker
from penstock.node.replicas.replica import Replica

_NOTES_S = 1.0


def acks_before_replication() -> None:
    """A leader commits what it has flushed itself."""

    def committable(self: ReplicaTracker, flushed_offset: int, isr_size_min: int, now_s: float) -> int:
        return flushed_offset

    ReplicaTracker.committable = committable  # type: ignore[method-assign]


def elects_any_replica() -> None:
    """Any broker that lives may lead, whatever it lacks."""

    def elect_any(
        partition: PartitionReplicas, eligibility: Eligibility, kind: ElectionKind | None = None
    ) -> Elected:
        found = elect(partition, eligibility, kind)
        if found.leader != NO_LEADER and not eligibility.is_fenced(found.leader):
            return found
        alive = [one for one in partition.replicas if eligibility.can_lead(one)]
        return Elected(alive[0], is_unclean=True) if alive else found

    transition.elect = elect_any  # type: ignore[attr-defined]


def _note_of(log: Log) -> Path:
    """A file outside of the log, which must not have others."""
    home = Path(sys.argv[sys.argv.index("--data-dir") + 1]).parent / "watermarks"
    home.mkdir(exist_ok=True)
    return home / log.directory.replace("/", "-")


def truncates_to_high_watermark() -> None:
    """A broker that starts truncates its logs to the high watermark, which it writes down only now and then."""
    advance, sync_recovered = Log.advance, Replica.sync_recovered
    noted_s: dict[str, float] = {}

    def advance_and_note(self: Log, offset: int) -> None:
        advance(self, offset)
        if time.monotonic() - noted_s.get(self.directory, 0.0) > _NOTES_S:
            noted_s[self.directory] = time.monotonic()
            _note_of(self).write_text(str(self.high_watermark))

    async def cut_and_sync(self: Replica) -> None:
        noted = _note_of(self.log)
        text = noted.read_text() if noted.exists() else ""
        if text and int(text) < self.log.end_offset:
            await asyncio.to_thread(self.truncate, int(text))
        await sync_recovered(self)

    Log.advance = advance_and_note  # type: ignore[method-assign]
    Replica.sync_recovered = cut_and_sync  # type: ignore[method-assign]


BROKER_PLANTS = {
    "acks-before-replication": acks_before_replication,
    "elects-any-replica": elects_any_replica,
    "truncates-to-high-watermark": truncates_to_high_watermark,
}
