"""The node's own state across restarts: identity, recovery points, clean-shutdown marker.

A recovery point is read or absent; it is never guessed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.core.cluster_id import make_cluster_id
from penstock.core.errors import TornSegment, WrongCluster
from penstock.core.log import checksummed_file as checked
from penstock.core.machines.cluster.values import NO_BROKER_EPOCH
from penstock.core.ports import Files, Rng

logger = logging.getLogger("penstock.checkpoint")

IDENTITY_FILE = "node.json"
RECOVERY_FILE = "recovery-points.json"
CLEAN_FILE = "clean-stop.json"
REGISTRATION_FILE = "registration.json"
FILE_NAMES = (IDENTITY_FILE, RECOVERY_FILE, CLEAN_FILE, REGISTRATION_FILE)
FORMAT = 1
RUN_EPOCH_KEY = "leader_epoch"
"""Key of the run epoch in format 1."""
MEMBER_KEY = "is_member"
"""Present and true in the directory of a broker whose metadata log is shared with others."""


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


def stored_cluster_id(files: Files) -> str:
    """The cluster id in the identity file; empty if there is none yet."""
    content = checked.read(files, IDENTITY_FILE)
    return "" if content is None else str(content["cluster_id"])


def load_identity(
    files: Files, rng: Rng, node_id: int, *, was_clean: bool, shared_cluster_id: str | None = None
) -> Identity:
    """Load or create the identity. After an unclean shutdown the run epoch is incremented, so that readers can detect
    a truncation.

    `shared_cluster_id`: the cluster that the metadata log belongs to, if several brokers share it.
    """
    content = checked.read(files, IDENTITY_FILE)
    is_member = shared_cluster_id is not None
    if content is None:
        identity = Identity(shared_cluster_id or make_cluster_id(rng), node_id, 0)
    elif content["format"] != FORMAT:
        raise TornSegment(
            f"the data directory has format {content['format']}, this Penstock reads format {FORMAT}"
        )
    elif content["node_id"] != node_id:
        raise TornSegment(f"the data directory belongs to node {content['node_id']}, not to node {node_id}")
    else:
        _check_kind(content, shared_cluster_id)
        identity = Identity(content["cluster_id"], node_id, content[RUN_EPOCH_KEY] + (0 if was_clean else 1))
    if content is None or not was_clean:
        content = {"cluster_id": identity.cluster_id, "node_id": node_id, RUN_EPOCH_KEY: identity.run_epoch}
        content |= {MEMBER_KEY: True} if is_member else {}
        checked.write(files, IDENTITY_FILE, {"format": FORMAT, **content})
    return identity


def _check_kind(content: Any, shared_cluster_id: str | None) -> None:
    """The topics of a single broker are in its own metadata log, those of a cluster in the shared one: with the other
    log, all of them would be unknown."""
    found, is_member = content["cluster_id"], bool(content.get(MEMBER_KEY))
    if is_member and shared_cluster_id is None:
        raise WrongCluster(
            f"the data directory belongs to a broker of cluster {found}: start it with --metadata or --cluster"
        )
    if not is_member and shared_cluster_id is not None:
        raise WrongCluster(
            "the data directory belongs to a single broker with its own metadata log: start it without --metadata and"
            " --cluster, or give this broker an empty --data-dir"
        )
    if shared_cluster_id not in (None, found):
        raise WrongCluster(
            f"the data directory belongs to cluster {found}, but the metadata log to cluster {shared_cluster_id}: check"
            " --metadata and --data-dir"
        )


class Registration(NamedTuple):
    """How the last run of a cluster's broker was registered."""

    broker_epoch: int = NO_BROKER_EPOCH
    session: int = 0
    boot_id: str = ""
    """The run of the operating system."""
    was_clean: bool = False
    """Whether it shut down cleanly; known once there are attempts."""
    attempts: Sequence[str] = ()
    """The incarnations that have started since, and may have registered, but have not become active."""

    def complete_epoch(self, boot_id: str) -> int:
        """Its broker epoch, if none of its records can be missing; else NO_BROKER_EPOCH.

        A killed process loses nothing while the operating system runs on: its writes are in the page cache.
        """
        is_complete = self.was_clean or (boot_id and self.boot_id == boot_id)
        return self.broker_epoch if is_complete else NO_BROKER_EPOCH


def save_registration(files: Files, registration: Registration) -> None:
    """Blocks until the file is synced."""
    checked.write(files, REGISTRATION_FILE, registration._asdict())


def load_registration(files: Files) -> Registration:
    """That of the last run that wrote to this directory; empty values if there was none."""
    content = checked.read(files, REGISTRATION_FILE)
    return Registration() if content is None else Registration(**content)


def begin_attempt(files: Files, incarnation_id: str) -> Registration:
    """Note that this process is about to register, and how the last active run ended: if this one dies between its
    registration and `save_registration`, the next one still knows that no record is missing. To be called before
    the marker of a clean shutdown is removed."""
    found = load_registration(files)
    was_clean = found.was_clean if found.attempts else _has_clean_marker(files)
    begun = found._replace(was_clean=was_clean, attempts=[*found.attempts, incarnation_id])
    save_registration(files, begun)
    return begun


def take_clean_marker(files: Files) -> bool:
    """Whether the last run shut down cleanly. Removes the marker before this run writes anything."""
    was_clean = _has_clean_marker(files)
    if files.exists(CLEAN_FILE):
        files.remove(CLEAN_FILE)
        files.sync_dir("")
    return was_clean


def _has_clean_marker(files: Files) -> bool:
    try:
        return checked.read(files, CLEAN_FILE) is not None
    except TornSegment:
        return False


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
