"""Entries of the metadata log as messages of the metadata protocol, and back. Large ones in slices; no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.core.machines.catalog.events import Event
from penstock.core.machines.catalog.events import decode as decode_event
from penstock.core.machines.catalog.events import encode as encode_event
from penstock.node.cluster.metadata_log import EVENT_UNITS, Entry, EventRecord, RecordEntry
from penstock.node.runtime.slices import Sliced, chunks
from penstock.wire.metadata.fields import decode_metadata_records, encode_metadata_records
from penstock.wire.metadata.frames import EntryPart, encode

EVENTS_PER_YIELD = 64


def encoded_events(events: Sequence[Event]) -> Sliced[bytes]:
    """The events as records, one after the other."""
    parts = []
    for some in chunks(events, EVENTS_PER_YIELD):
        parts.append(encode_metadata_records([encode_event(event) for event in some]))
        yield EVENT_UNITS * len(some)
    return b"".join(parts)


def decoded_events(records: bytes) -> Sliced[tuple[Event, ...]]:
    """Raises Malformed or TornSegment."""
    events = []
    for key, value in decode_metadata_records(records):
        events.append(decode_event(key, value))
        if len(events) % EVENTS_PER_YIELD == 0:
            yield EVENT_UNITS * EVENTS_PER_YIELD
    return tuple(events)


def encoded_entries(number: int, entries: Sequence[RecordEntry], end_index: int) -> Sliced[list[bytes]]:
    """The frames of one reply. No frame is larger than a chunk of events, whatever the size of an entry."""
    frames = []
    for at, (entry, some, ends_entry) in enumerate(parts := list(_parts(entries))):
        records = encode_metadata_records(some)
        part = EntryPart(entry.index, records, entry.is_snapshot, ends_entry, at == len(parts) - 1)
        frames.append(encode(number, part))
        yield len(some)
    return frames or [encode(number, EntryPart(end_index, b"", False, False, True))]


def _parts(
    entries: Sequence[RecordEntry],
) -> Iterator[tuple[RecordEntry, Sequence[EventRecord], bool]]:
    """Each chunk of each entry, and whether it is the entry's last."""
    for entry in entries:
        pieces = list(chunks(entry.records, EVENTS_PER_YIELD))
        for at, some in enumerate(pieces, 1):
            yield entry, some, at == len(pieces)


def decoded_entries(parts: Sequence[EntryPart]) -> Sliced[list[Entry]]:
    """The entries of one reply. Raises Malformed or TornSegment."""
    entries: list[Entry] = []
    events: list[Event] = []
    for part in parts:
        events += yield from decoded_events(part.records)
        yield EVENT_UNITS
        if part.ends_entry:
            entries.append(Entry(part.end_index, tuple(events), part.is_snapshot))
            events.clear()
    return entries
