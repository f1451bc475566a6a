"""The events of one append as one record batch: how the metadata log is stored, whatever holds it.

Large ones are encoded and decoded in slices. A batch has a checksum and is stored whole or not at all, so an append
cannot be torn.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.machines.catalog.events import Event, decode, encode
from penstock.core.model import NewRecord
from penstock.core.records.batch import BatchHeader, Buffer
from penstock.core.records.build import open_batch, seal_batch
from penstock.core.records.payload import encode_records
from penstock.node.cluster.metadata_log import EVENT_UNITS, EventRecord
from penstock.node.runtime.slices import Sliced, chunks


def seal_events(events: Sequence[Event], now_ms: int) -> Sliced[bytearray]:
    """One batch with one record per event, however many there are."""
    payload, count = bytearray(), 0
    for some in chunks(events):
        payload += encode_records([NewRecord(*encode(event)) for event in some], now_ms, count)
        count += len(some)
        yield EVENT_UNITS * len(some)
    return seal_batch(payload, count, now_ms, now_ms)


def open_events(batch: Buffer, header: BatchHeader) -> Sliced[tuple[Event, ...]]:
    """The events of a batch whose checksum was verified."""
    events: list[Event] = []
    for some in chunks(open_batch(batch, header)):
        events += (decode(one.key, one.value) for one in some)
        yield EVENT_UNITS * len(some)
    return tuple(events)


def open_event_records(batch: Buffer, header: BatchHeader) -> Sliced[tuple[EventRecord, ...]]:
    """Keys and values of the events of a batch, which are not decoded."""
    records: list[EventRecord] = []
    for some in chunks(open_batch(batch, header)):
        records += ((one.key or b"", one.value) for one in some)
        yield len(some)
    return tuple(records)
