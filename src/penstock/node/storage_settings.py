"""Settings of the node's data directory and of its upkeep. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.model import Storage
from penstock.node.definitions.definition import INT32_MAX, Kind, count, duration, setting

_DAY_MS = 86_400_000


@dataclass(frozen=True, init=False, repr=False, eq=False)
class StorageSettings:
    """Where and how this node stores logs. What topics may override is in `TopicDefaults`."""

    data_dir: str = setting(
        Kind.TEXT,
        "storage",
        "./penstock-data",
        "Directory of all topics, private to the user that runs the broker (directories 0700, files 0600). A relative"
        " path starts where the broker was started.",
        aliases=("log_dir", "storage.dir", "storage.path"),
        kafka="log.dirs",
    )
    storage: Storage = setting(
        Kind.CHOICE,
        "storage",
        Storage.DISK,
        "Keep the log on disk, or in memory only: then a restart forgets everything.",
        choices=Storage,
        aliases=("storage.type",),
    )
    retention_check_ms: int = duration(
        "storage",
        30_000,
        "How often retention is looked at.",
        low=1,
        kafka="log.retention.check.interval.ms",
    )
    compaction_check_ms: int = duration(
        "storage",
        15_000,
        "How often compacted topics are looked at.",
        low=1,
        kafka="log.cleaner.backoff.ms",
    )
    checkpoint_interval_ms: int = duration(
        "storage",
        5_000,
        "How often recovery points are written; the work of a start after a crash grows with it.",
        low=1,
        kafka="log.flush.offset.checkpoint.interval.ms",
    )
    producer_expiry_ms: int = duration(
        "storage",
        _DAY_MS,
        "How long the sequence numbers of a silent producer are remembered.",
        low=1,
        high=INT32_MAX,
        kafka="producer.id.expiration.ms",
    )
    open_files_max: int = count(
        "storage", 4_096, "Files of the log held open at once; the least used are closed first.", low=16
    )
    flush_threads: int = count("storage", 4, "Threads that wait for fdatasync.", low=1, high=256)
