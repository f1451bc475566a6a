"""Replicas after everything is healed: all of them are in sync again, and their logs are the same, byte by byte."""

from __future__ import annotations

import hashlib
from pathlib import Path

from checker.sight import View
from checker.site import Site
from conditions import until


def replica_problems(site: Site, topics: list[str]) -> list[str]:
    """What is wrong for so long that it will not come right by itself."""
    found: list[str] = []

    def is_right() -> bool:
        view = site.sight.view()
        found[:] = ["the cluster does not answer"] if view is None else _problems(site, view, topics)
        return not found

    try:
        until(is_right, "never")
    except AssertionError:
        return found
    return []


def _problems(site: Site, view: View, topics: list[str]) -> list[str]:
    found = []
    for (topic, index), one in sorted(view.partitions.items()):
        if topic not in topics:
            continue
        if set(one.replicas) != one.isr:
            found.append(f"{topic}-{index}: replicas {one.replicas}, in sync only {sorted(one.isr)}")
            continue
        logs = {
            broker.node_id: log_digest(site.partition_dir(broker, topic, one.topic_id, index))
            for broker in site.brokers
            if broker.node_id in one.replicas
        }
        if len(set(logs.values())) > 1:
            found.append(f"{topic}-{index}: replicas differ (bytes and hash of the log): {logs}")
    return found


def log_digest(directory: Path) -> tuple[int, str]:
    """Size and hash of the segments, whatever their boundaries are."""
    size, digest = 0, hashlib.sha256()
    for path in sorted(directory.glob("*.log")):
        content = path.read_bytes()
        size += len(content)
        digest.update(content)
    return size, digest.hexdigest()[:16]
