"""Directories of partitions that metadata places on other brokers: set aside at start, deleted after a period.

They remain if a broker is killed between the change that moved a partition away and the end of its deletion. Never
deletes a directory under the name that a replica uses: wrong metadata must not cost data.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.core.machines.cluster.state import ClusterState
from penstock.core.model import TOPIC_ID_BYTES, PartitionId
from penstock.core.ports import Files

STRAY_MS_MAX = 24 * 3_600_000
"""How long such a directory is retained."""

_MARK = ".stray-"


def stray_directories(files: Files, root: str, cluster: ClusterState, broker_id: int) -> list[str]:
    """The directories of replicas that are placed, but not on this broker. On a single node nothing is placed."""
    if not cluster.has_brokers:
        return []
    found = []
    for topic_id, directory in _topics(files, root):
        for name in files.names(directory):
            placed = cluster.find_partition(PartitionId(topic_id, int(name))) if name.isdecimal() else None
            if placed is not None and broker_id not in placed.replicas:
                found.append(f"{directory}/{name}")
    return found


def set_aside(files: Files, directory: str, now_ms: int) -> str:
    """Rename a directory; returns its new name, which says when that was."""
    number, target = now_ms, f"{directory}{_MARK}{now_ms}"
    while files.exists(target):
        number += 1
        target = f"{directory}{_MARK}{number}"
    files.rename(directory, target)
    files.sync_dir(directory.rpartition("/")[0])
    return target


def remove_old_strays(files: Files, root: str, now_ms: int) -> list[str]:
    """Delete the directories that were set aside long ago; returns them. Blocks on the disk."""
    removed = []
    for _, directory in _topics(files, root):
        for name in files.names(directory):
            since_text = name.partition(_MARK)[2]
            if since_text.isdecimal() and now_ms - int(since_text) > STRAY_MS_MAX:
                files.remove_dir(f"{directory}/{name}")
                removed.append(f"{directory}/{name}")
    return removed


def _topics(files: Files, root: str) -> Iterator[tuple[bytes, str]]:
    for name in files.names(root):
        if len(name) == 2 * TOPIC_ID_BYTES and all(digit in "0123456789abcdef" for digit in name):
            yield bytes.fromhex(name), f"{root}/{name}"
