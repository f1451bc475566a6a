"""Settings of the node's data directory and of its upkeep. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.model import Storage
from penstock.node.definitions.definition import (
    INT32_MAX,
    SettingKind,
    count_setting,
    define_setting,
    duration_setting,
)

_DAY_MS = 86_400_000


@dataclass(frozen=True, init=False, repr=False, eq=False)
class StorageSettings:
    """Where and how this node stores logs. What topics may override is in `TopicDefaults`."""

    data_dir: str = define_setting(
        SettingKind.TEXT,
        "storage",
        "./penstock-data",
        "Directory of all data, accessible only to the user that runs the broker (directories 0700, files 0600). A"
        " relative path is resolved against the working directory of the broker.",
        aliases=("log_dir", "storage.dir", "storage.path"),
        kafka="log.dirs",
    )
    storage: Storage = define_setting(
        SettingKind.CHOICE,
        "storage",
        Storage.DISK,
        "Store the log on disk, or in memory only; in memory it is lost when the broker stops.",
        choices=Storage,
        aliases=("storage.type",),
    )
    retention_check_ms: int = duration_setting(
        "storage",
        30_000,
        "How often retention is checked.",
        low=1,
        kafka="log.retention.check.interval.ms",
    )
    compaction_check_ms: int = duration_setting(
        "storage",
        15_000,
        "How often compacted topics are checked for compaction.",
        low=1,
        kafka="log.cleaner.backoff.ms",
    )
    checkpoint_interval_ms: int = duration_setting(
        "storage",
        5_000,
        "How often recovery points are written; a longer interval makes recovery after a crash slower.",
        low=1,
        kafka="log.flush.offset.checkpoint.interval.ms",
    )
    producer_expiry_ms: int = duration_setting(
        "storage",
        _DAY_MS,
        "How long the sequence numbers of an idle producer are retained.",
        low=1,
        high=INT32_MAX,
        kafka="producer.id.expiration.ms",
    )
    open_files_max: int = count_setting(
        "storage",
        4_096,
        "Maximum number of open log files; idle files that were opened first are closed first.",
        low=16,
    )
    flush_threads: int = count_setting("storage", 4, "Threads that wait for fdatasync.", low=1, high=256)
