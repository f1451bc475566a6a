"""Faults to plant: each takes a valid history and breaks one promise in it. Never breaks more than it says.

Some bend what the history holds; where that would break two promises, a few operations on a fresh key are added.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from checker import findings as kinds
from checker.history import (
    FAIL,
    INFO,
    INVOKE,
    NEMESIS,
    OK,
    POLL,
    POSITION_LOST,
    SEND,
    SUBSCRIBE,
    TXN,
    Event,
    merge,
    operations,
)
from checker.versions import Versions

FRESH_KEY, OTHER_KEY = 1000, 1001
FRESH_VALUE = 10_000_000
FRESH_PROCESS = 5_000_000

Plant = Callable[[list[Event]], list[Event]]


class Script:
    """Events in a row, after (or before) those of a history."""

    def __init__(self, at_ns: int) -> None:
        self.at_ns = at_ns
        self.events: list[Event] = []

    def add(self, process: int, type_: str, f: str, value: Any, **more: Any) -> None:
        self.at_ns += 1
        self.events.append(Event(FRESH_PROCESS + process, self.at_ns, type_, f, value, **more))

    def done(self, process: int, f: str, value: Any, type_: str = OK) -> None:
        """An invocation and its completion with nothing between."""
        self.add(process, INVOKE, f, invoked(value))
        self.add(process, type_, f, value)


def invoked(mops: list[Any]) -> list[Any]:
    """What the invocation of these completed micro-operations said."""
    return [[SEND, mop[1], mop[2][1]] if mop[0] == SEND else [POLL] for mop in mops]


def _after(events: list[Event]) -> Script:
    return Script(events[-1].time_ns)


def _sent(key: int, offset: int, value: int) -> list[Any]:
    return [SEND, key, [offset, FRESH_VALUE + value]]


def _read(key: int, *pairs: tuple[int, int]) -> list[Any]:
    return [POLL, {key: [[offset, FRESH_VALUE + value] for offset, value in pairs]}]


def _last_poll_of(events: list[Event], key: int) -> list[list[int]]:
    """The pairs of the last poll that read a key; bending them bends the history."""
    for event in reversed(events):
        for mop in event.value or () if event.type == OK and event.f == POLL else ():
            if key in mop[1]:
                pairs: list[list[int]] = mop[1][key]
                return pairs
    raise AssertionError(f"nobody reads key {key}")


def _read_key(events: list[Event]) -> int:
    """A key that the final readers read."""
    return min(Versions(operations(events)).read_ok)


def _end_of(events: list[Event], key: int) -> int:
    return max(Versions(operations(events)).of(key).by_offset) + 1


def inconsistent_offsets(events: list[Event]) -> list[Event]:
    """One reader is shown another record, of an unknown send, at an offset where all others see the true one."""
    pairs = _last_poll_of(events, key := _read_key(events))
    early = Script(-10)
    early.done(0, SEND, [[SEND, key, [None, FRESH_VALUE]]], INFO)
    pairs[-1][1] = FRESH_VALUE
    return merge([early.events, events])


def duplicate(events: list[Event]) -> list[Event]:
    """A send is acknowledged with an offset far from where its record is read."""
    key = _read_key(events)
    far = _end_of(events, key) + 5
    for event in events:
        for mop in event.value or () if event.type == OK else ():
            if isinstance(mop, list) and mop[0] == SEND and mop[1] == key:
                mop[2][0] = far
                return events
    raise AssertionError("nobody sends")


def phantom(events: list[Event]) -> list[Event]:
    key = _read_key(events)
    _last_poll_of(events, key).append([_end_of(events, key), FRESH_VALUE])
    return events


def g1a(events: list[Event]) -> list[Event]:
    """A send fails, and its record is read."""
    key = _read_key(events)
    _last_poll_of(events, key).append([_end_of(events, key), FRESH_VALUE])
    early = Script(-10)
    early.done(0, SEND, [[SEND, key, [None, FRESH_VALUE]]], FAIL)
    return merge([early.events, events])


def precommitted_read(events: list[Event]) -> list[Event]:
    script = _after(events)
    script.done(0, TXN, [_sent(FRESH_KEY, 0, 0), _read(FRESH_KEY, (0, 0))])
    return merge([events, script.events])


def lost_write(events: list[Event]) -> list[Event]:
    """Of an unknown transaction one record is read and the other is gone; two readers read around the gap."""
    script = _after(events)
    script.done(0, SEND, [_sent(FRESH_KEY, 0, 0)])
    script.done(1, TXN, [_sent(FRESH_KEY, 1, 1), _sent(OTHER_KEY, 0, 2)], INFO)
    script.done(2, SEND, [_sent(FRESH_KEY, 3, 3)])
    script.done(3, POLL, [_read(FRESH_KEY, (0, 0))])
    script.done(4, POLL, [_read(FRESH_KEY, (3, 3))])
    script.done(4, POLL, [_read(OTHER_KEY, (0, 2))])
    return merge([events, script.events])


def _bent_poll(events: list[Event], reads: list[list[int]]) -> list[Event]:
    """Three records, read whole by one process and bent by another: lists of values, one list per poll."""
    script = _after(events)
    script.done(0, SEND, [_sent(FRESH_KEY, offset, offset) for offset in range(4)])
    script.done(1, POLL, [_read(FRESH_KEY, *((offset, offset) for offset in range(4)))])
    for values in reads:
        script.done(2, POLL, [_read(FRESH_KEY, *((value, value) for value in values))])
    return merge([events, script.events])


def int_poll_skip(events: list[Event]) -> list[Event]:
    return _bent_poll(events, [[0, 2]])


def int_nonmonotonic_poll(events: list[Event]) -> list[Event]:
    return _bent_poll(events, [[0, 1, 1, 2]])


def poll_skip(events: list[Event]) -> list[Event]:
    return _bent_poll(events, [[0], [2, 3]])


def nonmonotonic_poll(events: list[Event]) -> list[Event]:
    return _bent_poll(events, [[0, 1], [1, 2]])


def subscribed_poll_skip(events: list[Event]) -> list[Event]:
    """The same skip in a history with groups, where a member may lose and regain a key."""
    script = Script(-10)
    script.add(9, INVOKE, SUBSCRIBE, [FRESH_KEY])
    script.add(9, OK, SUBSCRIBE, [FRESH_KEY])
    return merge([script.events, poll_skip(events)])


def int_send_skip(events: list[Event]) -> list[Event]:
    script = _after(events)
    script.add(0, INVOKE, SEND, [[SEND, FRESH_KEY, FRESH_VALUE], [SEND, FRESH_KEY, FRESH_VALUE + 2]])
    script.done(1, SEND, [_sent(FRESH_KEY, 1, 1)])
    script.add(0, OK, SEND, [_sent(FRESH_KEY, 0, 0), _sent(FRESH_KEY, 2, 2)])
    script.done(2, POLL, [_read(FRESH_KEY, (0, 0), (1, 1), (2, 2))])
    return merge([events, script.events])


def int_nonmonotonic_send(events: list[Event]) -> list[Event]:
    script = _after(events)
    script.done(0, SEND, [_sent(FRESH_KEY, 1, 0), _sent(FRESH_KEY, 0, 1)])
    script.done(1, POLL, [_read(FRESH_KEY, (0, 1), (1, 0))])
    return merge([events, script.events])


def nonmonotonic_send(events: list[Event]) -> list[Event]:
    script = _after(events)
    script.done(0, SEND, [_sent(FRESH_KEY, 1, 0)])
    script.done(0, SEND, [_sent(FRESH_KEY, 0, 1)])
    script.done(1, POLL, [_read(FRESH_KEY, (0, 1), (1, 0))])
    return merge([events, script.events])


def unseen(events: list[Event]) -> list[Event]:
    script = _after(events)
    script.done(0, SEND, [_sent(FRESH_KEY, 0, 0)])
    return merge([events, script.events])


def g1c(events: list[Event]) -> list[Event]:
    """Two transactions at once, each of which read what the other wrote."""
    script = _after(events)
    one = [_sent(FRESH_KEY, 0, 0), _read(OTHER_KEY, (0, 1))]
    two = [_sent(OTHER_KEY, 0, 1), _read(FRESH_KEY, (0, 0))]
    script.add(0, INVOKE, TXN, invoked(one))
    script.add(1, INVOKE, TXN, invoked(two))
    script.add(0, OK, TXN, one)
    script.add(1, OK, TXN, two)
    return merge([events, script.events])


def _read_before_sent(events: list[Event], reader: int, writer: int) -> list[Event]:
    script = _after(events)
    script.done(reader, POLL, [_read(FRESH_KEY, (0, 0))])
    script.done(writer, SEND, [_sent(FRESH_KEY, 0, 0)])
    return merge([events, script.events])


def g1c_process(events: list[Event]) -> list[Event]:
    return _read_before_sent(events, 0, 0)


def g1c_realtime(events: list[Event]) -> list[Event]:
    return _read_before_sent(events, 0, 1)


def g0(events: list[Event]) -> list[Event]:
    """Two transactions at once that lie in one order in one key and in the other order in another."""
    script = _after(events)
    one = [_sent(FRESH_KEY, 0, 0), _sent(OTHER_KEY, 1, 1)]
    two = [_sent(FRESH_KEY, 1, 2), _sent(OTHER_KEY, 0, 3)]
    script.add(0, INVOKE, TXN, invoked(one))
    script.add(1, INVOKE, TXN, invoked(two))
    script.add(0, OK, TXN, one)
    script.add(1, OK, TXN, two)
    script.done(2, POLL, [_read(FRESH_KEY, (0, 0), (1, 2))])
    script.done(2, POLL, [_read(OTHER_KEY, (0, 3), (1, 1))])
    return merge([events, script.events])


def _swapped_sends(events: list[Event], one: int, two: int) -> list[Event]:
    """The later send lies before the earlier one. In one process, two keys keep single sends in order."""
    script = _after(events)
    script.done(one, SEND, [_sent(FRESH_KEY, 1, 0)])
    script.done(two, SEND, [_sent(FRESH_KEY, 0, 1)])
    script.done(2, POLL, [_read(FRESH_KEY, (0, 1), (1, 0))])
    return merge([events, script.events])


def g0_realtime(events: list[Event]) -> list[Event]:
    return _swapped_sends(events, 0, 1)


def g0_process(events: list[Event]) -> list[Event]:
    """A process sends to one key and then to another; a second process's transaction turns the order around."""
    script = _after(events)
    other = [_sent(FRESH_KEY, 0, 1), _sent(OTHER_KEY, 1, 2)]
    script.add(1, INVOKE, TXN, invoked(other))
    script.done(0, SEND, [_sent(FRESH_KEY, 1, 0)])
    script.done(0, SEND, [_sent(OTHER_KEY, 0, 3)])
    script.add(1, OK, TXN, other)
    script.done(2, POLL, [_read(FRESH_KEY, (0, 1), (1, 0))])
    script.done(2, POLL, [_read(OTHER_KEY, (0, 3), (1, 2))])
    return merge([events, script.events])


PLANTS: dict[str, Plant] = {
    kinds.INCONSISTENT_OFFSETS: inconsistent_offsets,
    kinds.DUPLICATE: duplicate,
    kinds.PHANTOM: phantom,
    kinds.G1A: g1a,
    kinds.PRECOMMITTED_READ: precommitted_read,
    kinds.LOST_WRITE: lost_write,
    kinds.INT_POLL_SKIP: int_poll_skip,
    kinds.INT_NONMONOTONIC_POLL: int_nonmonotonic_poll,
    kinds.INT_SEND_SKIP: int_send_skip,
    kinds.INT_NONMONOTONIC_SEND: int_nonmonotonic_send,
    kinds.POLL_SKIP: poll_skip,
    kinds.NONMONOTONIC_POLL: nonmonotonic_poll,
    kinds.NONMONOTONIC_SEND: nonmonotonic_send,
    kinds.UNSEEN: unseen,
    kinds.G1C: g1c,
    kinds.G1C + kinds.PROCESS: g1c_process,
    kinds.G1C + kinds.REALTIME: g1c_realtime,
}
"""Each kind that a history shows without the order of versions in the graph."""

WW_PLANTS: dict[str, Plant] = {
    kinds.G0: g0,
    kinds.G0 + kinds.PROCESS: g0_process,
    kinds.G0 + kinds.REALTIME: g0_realtime,
}
"""Cycles that need it."""


def position_lost(events: list[Event]) -> list[Event]:
    """A consumer is told that the offset it has come to is not there."""
    script = _after(events)
    script.events.append(Event(NEMESIS, script.at_ns, INFO, POSITION_LOST, [FRESH_PROCESS, "out of range"]))
    return merge([events, script.events])


def acked_before_replicated(events: list[Event]) -> list[Event]:
    """The leader acknowledges what no follower has and dies; the next leader gives the offset to another record."""
    script = _after(events)
    script.done(0, SEND, [_sent(FRESH_KEY, 0, 0)])
    script.done(0, SEND, [_sent(FRESH_KEY, 1, 1)])
    script.done(1, SEND, [_sent(FRESH_KEY, 1, 2)])
    script.done(2, POLL, [_read(FRESH_KEY, (0, 0), (1, 2))])
    return merge([events, script.events])


def uncleanly_elected(events: list[Event]) -> list[Event]:
    """A replica leads that lacks two records, which a consumer has read: it goes on behind the new end."""
    script = _after(events)
    script.done(0, SEND, [_sent(FRESH_KEY, offset, offset) for offset in range(3)])
    script.done(1, POLL, [_read(FRESH_KEY, (0, 0), (1, 1), (2, 2))])
    script.done(2, SEND, [_sent(FRESH_KEY, 1, 3)])
    script.events.append(
        Event(NEMESIS, script.at_ns, INFO, POSITION_LOST, [FRESH_PROCESS + 1, "out of range"])
    )
    script.done(3, POLL, [_read(FRESH_KEY, (0, 0), (1, 3))])
    return merge([events, script.events])


def truncated_to_high_watermark(events: list[Event]) -> list[Event]:
    """A follower restarts, cuts off what it did not know to be committed, and is elected: nobody ever reads that."""
    script = _after(events)
    script.done(0, SEND, [_sent(FRESH_KEY, 0, 0)])
    script.done(0, SEND, [_sent(FRESH_KEY, 1, 1)])
    script.done(1, POLL, [_read(FRESH_KEY, (0, 0))])
    script.done(2, SEND, [_sent(FRESH_KEY, 2, 2)])
    script.done(3, POLL, [_read(FRESH_KEY, (0, 0), (2, 2))])
    return merge([events, script.events])


REPLICA_PLANTS: dict[Plant, dict[str, int]] = {
    position_lost: {kinds.OFFSET_RESET: 1},
    acked_before_replicated: {kinds.INCONSISTENT_OFFSETS: 1, kinds.UNSEEN: 1, kinds.LOST_WRITE: 1},
    uncleanly_elected: {kinds.INCONSISTENT_OFFSETS: 1, kinds.OFFSET_RESET: 1},
    truncated_to_high_watermark: {kinds.UNSEEN: 1, kinds.LOST_WRITE: 1, kinds.INT_POLL_SKIP: 1},
}
"""Faults of replication, each with everything that a history shows of it."""


def planted(plant: Plant, events: list[Event]) -> list[Event]:
    """The broken history; the given one stays whole."""
    return plant(copy.deepcopy(events))


def lose_record(events: list[Event], key: int, value: int) -> list[Event]:
    """As a broker would that forgets an acknowledged record: no reader ever gets it."""
    bent = copy.deepcopy(events)
    for event in bent:
        for mop in event.value or () if event.type != INVOKE and event.f in (POLL, TXN) else ():
            if mop[0] == POLL and len(mop) > 1 and key in mop[1]:
                mop[1][key] = [pair for pair in mop[1][key] if pair[1] != value]
    return bent
