"""What a node knows about itself across restarts.

Identity, recovery points, whether it stopped clean. Never guesses a recovery point.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from typing import Any

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
"""What format 1 calls the run epoch."""


class Identity:
    """Who this node is: the cluster it belongs to, its number, and how many runs before this one ended unclean.

    That number is durable before the run writes anything. As long as one node decides by itself, every epoch that it
    gives out (of leaders, coordinators, metadata) starts from it.
    """

    def __init__(self, cluster_id: str, node_id: int, run_epoch: int) -> None:
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.run_epoch = run_epoch


def require_identity(files: Files, data_names: Sequence[str]) -> None:
    """Refuse a data directory that lost its identity: a new one would silently make it another cluster.

    The identity is durable before anything else is written, so data without one means that the file was lost.
    """
    if files.exists(IDENTITY_FILE):
        return
    found = [name for name in (*data_names, RECOVERY_FILE) if files.exists(name)]
    if found:
        raise TornSegment(
            f"{IDENTITY_FILE} is missing, but there is data ({', '.join(found)}). Without it this would become another "
            "cluster with epochs that start anew. Restore the file from a backup of the data directory; if the data is "
            "not needed, start with an empty --data-dir"
        )


def load_identity(files: Files, rng: Rng, node_id: int, *, was_clean: bool) -> Identity:
    """Read or make the identity. After an unclean stop the run epoch goes up, so that readers can notice a cut."""
    content = checked.read(files, IDENTITY_FILE)
    if content is None:
        cluster_id = base64.urlsafe_b64encode(rng.bytes(16)).decode().rstrip("=")
        identity = Identity(cluster_id, node_id, 0)
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
    """Whether the last run stopped clean. The marker is gone before this run writes anything."""
    try:
        marker = checked.read(files, CLEAN_FILE)
    except TornSegment:
        marker = None
    if files.exists(CLEAN_FILE):
        files.remove(CLEAN_FILE)
        files.sync_dir("")
    return marker is not None


def load_recovery_points(files: Files) -> dict[str, int]:
    """Partition directory to recovery point. A damaged file means that everything is proven from its start."""
    try:
        content: Any = checked.read(files, RECOVERY_FILE)
    except TornSegment as torn:
        logger.error("%s; every partition is checked from its first record", torn)
        return {}
    return {} if content is None else dict(content)


def save_recovery_points(files: Files, points: dict[str, int]) -> None:
    """Blocks on the disk."""
    checked.write(files, RECOVERY_FILE, points)


def write_clean_marker(files: Files, now_ms: int) -> None:
    checked.write(files, CLEAN_FILE, {"stopped_ms": now_ms})
