"""What a produced batch passes before a partition appends it: header, checksum, size, every record. Never writes.

A batch that would hold up the loop is admitted in a worker: `work` makes a function that touches no broker state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.core.errors import NotEnoughReplicas, TooLarge
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.model import Acks
from penstock.core.ports import Clock
from penstock.core.records.admission import admit, admit_now, has_fast_path, is_valid, timely
from penstock.core.records.batch import CODEC_MASK, LOG_APPEND_TIME, BatchHeader, check_produced
from penstock.core.topic_config import TopicConfig

REPLICAS = 1
"""How many copies of a partition there are in sync: this one."""


_UNUSUAL = CODEC_MASK | LOG_APPEND_TIME
_new = tuple.__new__


class Admitted(NamedTuple):
    """A batch that may be appended, as its topic wants it."""

    batch: memoryview
    header: BatchHeader
    now_ms: int


class Admission:
    """The checks of one partition under its present settings."""

    __slots__ = ("_clock", "_config", "_has_fast_path", "_name", "_needs_keys")

    def __init__(self, name: str, config: TopicConfig, clock: Clock) -> None:
        self._name = name
        self._config = config
        self._clock = clock
        self._has_fast_path = has_fast_path(config)
        self._needs_keys = config.cleanup_compact

    def now(self, batch: memoryview, acks: int) -> Admitted | None:
        """Admit the batch on the loop; None when it is to be admitted in a worker. Stamps it in place."""
        header = self._check(batch, acks)
        now_ms = self._clock.now_ms()
        if self._has_fast_path and not header.attributes & _UNUSUAL:
            oldest_ms, newest_ms = timely(now_ms, self._config)
            if is_valid(
                batch,
                BATCH_HEADER_BYTES,
                header.count,
                header.base_timestamp_ms,
                oldest_ms,
                newest_ms,
                self._needs_keys,
                header.max_timestamp_ms,
            ):
                return _new(Admitted, (batch, header, now_ms))
        admitted = admit_now(batch, header, self._config, now_ms)
        if admitted is None:
            return None
        return self._sized(admitted[0], admitted[1], now_ms)

    def work(self, batch: memoryview, acks: int) -> Callable[[], Admitted]:
        """What a worker has to do for this batch, which nobody else may change meanwhile."""
        now_ms = self._clock.now_ms()

        def run() -> Admitted:
            header = self._check(batch, acks)
            return self._sized(*admit(batch, header, self._config, now_ms), now_ms)

        return run

    def _check(self, batch: memoryview, acks: int) -> BatchHeader:
        config = self._config
        if acks == Acks.ALL and config.insync_replicas_min > REPLICAS:
            raise NotEnoughReplicas(
                f"{self._name}: min.insync.replicas is {config.insync_replicas_min}, this node keeps {REPLICAS} replica"
            )
        header = check_produced(batch)
        if len(batch) > config.message_bytes_max:
            raise self._too_large(batch)
        return header

    def _sized(self, batch: memoryview, header: BatchHeader, now_ms: int) -> Admitted:
        """A batch that was compressed again may have grown."""
        if len(batch) > self._config.message_bytes_max:
            raise self._too_large(batch)
        return Admitted(batch, header, now_ms)

    def _too_large(self, batch: memoryview) -> TooLarge:
        bytes_max = self._config.message_bytes_max
        return TooLarge(f"{self._name}: a batch of {len(batch)} bytes is over max.message.bytes {bytes_max}")
