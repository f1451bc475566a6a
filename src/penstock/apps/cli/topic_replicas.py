"""What the replicas of a new topic protect from: warnings for its creator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client.rdkafka.admin import Admin

MIN_ISR = "min.insync.replicas"
_TWO = 2
_ONE_NEEDED = (
    "two replicas with min.insync.replicas=1: writes go on while one broker is down, but what is written then is lost"
    " if the disk of the other one fails. min.insync.replicas=2 prevents that and stops writes while either broker is"
    " down; three replicas have neither problem."
)
_BOTH_NEEDED = (
    "two replicas with min.insync.replicas=2: writes with acks=all stop while either broker is down. With three"
    " replicas they go on."
)
_SHARED = (
    "replicas of a partition share a machine or rack: they protect from the failure of a process, not of the machine."
    " Start brokers on other machines, then run `penstock cluster rebalance`."
)


def replica_warnings(admin: Admin, bootstrap: str, topic: str) -> list[str]:
    """What the creator of a topic should know about its replicas."""
    from penstock.apps.cli.cluster_source import ClusterSource

    placed = ClusterSource(bootstrap).placement(topic)
    if max(map(len, placed.replicas), default=0) < _TWO:
        return []
    values = {one.name: one.value for one in admin.configs(topic)}
    return warnings_of(placed.replicas, placed.racks, int(values.get(MIN_ISR, 1)))


def warnings_of(replicas: Iterable[Sequence[int]], racks: Mapping[int, str], isr_size_min: int) -> list[str]:
    """The same from the replicas of its partitions and the racks of brokers, as far as they have one."""
    found, partitions = [], list(replicas)
    if max(map(len, partitions), default=0) == _TWO:
        found.append(_ONE_NEEDED if isr_size_min < _TWO else _BOTH_NEEDED)
    if any(_shares_rack(one, racks) for one in partitions):
        found.append(_SHARED)
    return found


def _shares_rack(replicas: Sequence[int], racks: Mapping[int, str]) -> bool:
    known = [racks[one] for one in replicas if one in racks]
    return len(set(known)) < len(known)
