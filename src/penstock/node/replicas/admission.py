"""Validates a produced batch before a partition appends it: header, checksum, size, every record. Writes nothing.

A batch that would block the loop is validated in a worker: `work` returns a function that touches no broker state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.core.errors import TooLarge
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.model import Acks
from penstock.core.ports import Clock
from penstock.core.records.admission import admit, admit_now, has_fast_path, is_valid, timely
from penstock.core.records.batch import CODEC_MASK, LOG_APPEND_TIME, BatchHeader, check_produced
from penstock.core.topic_config import TopicConfig

_UNUSUAL = CODEC_MASK | LOG_APPEND_TIME
_new = tuple.__new__


class Admitted(NamedTuple):
    """A validated batch, in the form that its topic requires."""

    batch: memoryview
    header: BatchHeader
    now_ms: int


class Admission:
    """Validation for one partition under its current settings."""

    __slots__ = ("_check_replicas", "_clock", "_config", "_has_fast_path", "_name", "_needs_keys")

    def __init__(
        self, name: str, config: TopicConfig, clock: Clock, check_replicas: Callable[[], None]
    ) -> None:
        self._name = name
        self._config = config
        self._clock = clock
        self._check_replicas = check_replicas
        """Raises NotEnoughReplicas while too few replicas are in sync."""
        self._has_fast_path = has_fast_path(config)
        self._needs_keys = config.cleanup_compact

    def now(self, batch: memoryview, acks: int) -> Admitted | None:
        """Validate the batch on the loop; None if it must be validated in a worker. Stamps it in place."""
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
        """The validation as a function for a worker. The batch must not be changed meanwhile."""
        now_ms = self._clock.now_ms()

        def run() -> Admitted:
            header = self._check(batch, acks)
            return self._sized(*admit(batch, header, self._config, now_ms), now_ms)

        return run

    def _check(self, batch: memoryview, acks: int) -> BatchHeader:
        config = self._config
        if acks == Acks.ALL and config.insync_replicas_min > 1:
            self._check_replicas()
        header = check_produced(batch)
        if len(batch) > config.message_bytes_max:
            raise self._too_large(batch)
        return header

    def _sized(self, batch: memoryview, header: BatchHeader, now_ms: int) -> Admitted:
        """Checks the size again: a recompressed batch may have grown."""
        if len(batch) > self._config.message_bytes_max:
            raise self._too_large(batch)
        return Admitted(batch, header, now_ms)

    def _too_large(self, batch: memoryview) -> TooLarge:
        bytes_max = self._config.message_bytes_max
        return TooLarge(f"{self._name}: a batch of {len(batch)} bytes exceeds max.message.bytes {bytes_max}")
