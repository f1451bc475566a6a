"""Events as one batch, and back."""

from __future__ import annotations

import pytest

from penstock.core.errors import CorruptBatch
from penstock.core.machines.catalog.events import Event, Topic, TopicRemoved, TopicSaved, encode
from penstock.core.records.batch import check
from penstock.node.cluster.event_batch import open_event_records, open_events, seal_events
from penstock.node.runtime.slices import run_unsliced


@pytest.mark.parametrize("count", [1, 2, 64, 65, 1_000])
def test_any_number_of_events_is_one_batch(count: int) -> None:
    events: list[Event] = [
        TopicSaved(Topic(number.to_bytes(16, "big"), f"t{number}", 1)) for number in range(1, count)
    ]
    events.append(TopicRemoved(bytes(15) + b"\x07"))
    batch = run_unsliced(seal_events(events, 1_000))
    header = check(batch)
    assert (header.count, header.size) == (count, len(batch))
    assert run_unsliced(open_events(batch, header)) == tuple(events)
    assert run_unsliced(open_event_records(batch, header)) == tuple(encode(event) for event in events)
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch):
        check(batch)


def test_long_work_yields() -> None:
    events = [TopicRemoved(number.to_bytes(16, "big")) for number in range(1_000)]
    assert sum(1 for _ in seal_events(events, 0)) > 10
