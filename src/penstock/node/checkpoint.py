"""The node's own state across restarts: identity, recovery points, clean-shutdown marker.

A recovery point is read or absent; it is never guessed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from penstock.core.cluster_id import make_cluster_id
from penstock.core.errors import TornSegment
from penstock.core.log import checksummed_file as checked
from penstock.core.ports import Files, Rng

logger = logging.getLogger("penstock.checkpoint")

IDENTITY_FILE = "node.json"
RECOVERY_FILE = "recovery-points.json"
CLEAN_FILE = "clean-stop.json"
FILE_NAMES = (IDENTITY_FILE, RECOVERY_FILE, CLEAN_FILE)
FORMAT = 1
RUN_EPOCH_KEY = "leader_epoch"
"""Key of the run epoch in format 1."""


class Identity:
    """Cluster id, node id, and the run epoch: how many earlier runs ended without a clean shutdown.

    The run epoch is durable before the run writes anything. On a single node every epoch that it assigns (leader,
    coordinator, metadata) starts from it.
    """

    def __init__(self, cluster_id: str, node_id: int, run_epoch: int) -> None:
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.run_epoch = run_epoch


def require_identity(files: Files, data_names: Sequence[str]) -> None:
    """Reject a data directory without its identity file: a new identity would silently make it another cluster.

    The identity is written before any data, so data without an identity means that the file was lost.
    """
    if files.exists(IDENTITY_FILE):
        return
    found = [name for name in (*data_names, RECOVERY_FILE) if files.exists(name)]
    if found:
        raise TornSegment(
            f"{IDENTITY_FILE} is missing, but there is data ({', '.join(found)}). Without it the node would start a "
            "new cluster and restart its epochs. Restore the file from a backup of the data directory; if the data is "
            "not needed, start with an empty --data-dir"
        )


def load_identity(files: Files, rng: Rng, node_id: int, *, was_clean: bool) -> Identity:
    """Load or create the identity. After an unclean shutdown the run epoch is incremented, so that readers can detect
    a truncation."""
    content = checked.read(files, IDENTITY_FILE)
    if content is None:
        identity = Identity(make_cluster_id(rng), node_id, 0)
    elif content["format"] != FORMAT:
        raise TornSegment(
            f"the data directory has format {content['format']}, this Penstock reads format {FORMAT}"
        )
    elif content["node_id"] != node_id:
        raise TornSegment(f"the data directory belongs to node {content['node_id']}, not to node {node_id}")
    else:
        identity = Identity(content["cluster_id"], node_id, content[RUN_EPOCH_KEY] + (0 if was_clean else 1))
    if content is None or not was_clean:
        content = {"cluster_id": identity.cluster_id, "node_id": node_id, RUN_EPOCH_KEY: identity.run_epoch}
        checked.write(files, IDENTITY_FILE, {"format": FORMAT, **content})
    return identity


def take_clean_marker(files: Files) -> bool:
    """Whether the last run shut down cleanly. Removes the marker before this run writes anything."""
    try:
        marker = checked.read(files, CLEAN_FILE)
    except TornSegment:
        marker = None
    if files.exists(CLEAN_FILE):
        files.remove(CLEAN_FILE)
        files.sync_dir("")
    return marker is not None


def load_recovery_points(files: Files) -> dict[str, int]:
    """Recovery points by partition directory. If the file is damaged, every log is verified from its start."""
    try:
        content: Any = checked.read(files, RECOVERY_FILE)
    except TornSegment as torn:
        logger.error("cannot read recovery points; verifying every log from its start: %s", torn)
        return {}
    return {} if content is None else dict(content)


def save_recovery_points(files: Files, points: dict[str, int]) -> None:
    """Blocks until the file is synced."""
    checked.write(files, RECOVERY_FILE, points)


def write_clean_marker(files: Files, now_ms: int) -> None:
    checked.write(files, CLEAN_FILE, {"stopped_ms": now_ms})
