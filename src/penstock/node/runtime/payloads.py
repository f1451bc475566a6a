"""Decompresses batches for readers of records. Small batches are decompressed on the loop, others in a worker.

The results of workers are cached, so that a reader that takes a batch record by record decompresses it once. Decodes
no records.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import NamedTuple

from penstock.core.errors import BrokerError, TooLarge
from penstock.core.limits import BATCH_HEADER_BYTES, LOOP_COMPRESSED_BYTES_MAX, LOOP_DECOMPRESSED_BYTES_MAX
from penstock.core.records.batch import BatchHeader, Buffer
from penstock.core.records.compression import decompress, stored_decompressed_bytes_max
from penstock.node.runtime.workers import Workers

CACHE_BYTES_MAX = 64 * 2**20
"""Maximum bytes in the cache, plus one batch."""

CACHE_COUNT_MAX = 256

Opened = Callable[[], None]
PayloadKey = tuple[object, int]
"""Identifies a batch: its file, or whatever else holds it, and its position there. The cache keeps the key alive."""


class Payload(NamedTuple):
    """Bytes in which records begin at `begin`."""

    content: Buffer
    begin: int


class Payloads:
    """The decompressed batches of one node."""

    __slots__ = ("_cache", "_cached_bytes", "_opening")

    def __init__(self) -> None:
        self._cache: OrderedDict[PayloadKey, bytes | BrokerError] = OrderedDict()
        self._cached_bytes = 0
        self._opening: dict[PayloadKey, dict[Opened, None]] = {}

    def open(
        self,
        workers: Workers,
        place: PayloadKey,
        raw: memoryview,
        header: BatchHeader,
        batch_bytes_max: int,
        when_opened: Opened,
    ) -> Payload | None:
        """The records of a batch; None while a worker decompresses it, and then `when_opened` is called.

        Raises if it cannot be decompressed.
        """
        if not header.codec:
            return Payload(raw, BATCH_HEADER_BYTES)
        cached = self._cache.get(place)
        if cached is not None:
            self._cache.move_to_end(place)
            if isinstance(cached, BrokerError):
                raise copy(cached)  # raising the same object again would extend its traceback
            return Payload(cached, 0)
        packed = raw[BATCH_HEADER_BYTES:]
        if len(packed) <= LOOP_COMPRESSED_BYTES_MAX:
            try:
                return Payload(decompress(header.codec, packed, LOOP_DECOMPRESSED_BYTES_MAX), 0)
            except TooLarge:
                pass  # the limit of workers is higher
        waiting = self._opening.get(place)
        if waiting is None:
            self._opening[place] = waiting = {}
            bytes_max = stored_decompressed_bytes_max(max(batch_bytes_max, header.size))
            work = partial(decompress, header.codec, bytes(packed), bytes_max)
            workers.submit(work, partial(self._opened, place))
        waiting[when_opened] = None
        return None

    def _opened(self, place: PayloadKey, outcome: bytes | BaseException) -> None:
        waiting = self._opening.pop(place)
        if isinstance(outcome, BaseException) and not isinstance(outcome, BrokerError):
            raise outcome
        self._cache[place] = outcome
        self._cached_bytes += _size_of(outcome)
        while len(self._cache) > CACHE_COUNT_MAX or (
            self._cached_bytes > CACHE_BYTES_MAX and len(self._cache) > 1
        ):
            _, evicted = self._cache.popitem(last=False)
            self._cached_bytes -= _size_of(evicted)
        for when_opened in waiting:
            when_opened()


def _size_of(outcome: bytes | BrokerError) -> int:
    return 0 if isinstance(outcome, BrokerError) else len(outcome)
