"""What the world was promised by a broker, and what it must therefore find after every crash. Never talks to one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from penstock.core.model import NewRecord, Record
from sim.kafka_client import OFFSET_MAX, Place


class Kind(Enum):
    """What a topic promises; the values are its settings."""

    PLAIN = frozenset[tuple[str, str]]()
    """Every acknowledged record, for ever."""
    SIZED = (("retention.bytes", "3000"),)
    """The oldest segments go away; what is left is dense."""
    CUT = (("retention.ms", "-1"),)
    """Records are deleted from the start on request."""
    COMPACT = (
        ("cleanup.policy", "compact"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("segment.ms", "50"),
        ("delete.retention.ms", "100"),
    )
    """The last record of every key."""
    LOOSE = (("penstock.durability", "os"),)
    """Every acknowledged record, unless the machine itself loses power."""


@dataclass(slots=True)
class Promise:
    """One partition: what is known to be in it."""

    records: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)
    """Offset to key and value: acknowledged to a producer, or shown to a reader."""
    start_acked: int = 0
    """Deleting everything before this was acknowledged."""
    start_asked: int = 0
    """Deleting everything before this was asked for, at most."""
    keys_in_doubt: Counter[bytes] = field(default_factory=Counter)
    """Keys with a tombstone under way: it may be in the log, do its work, and be gone before anyone is told."""


@dataclass(slots=True)
class TopicPromise:
    """One topic, by its id."""

    name: str
    kind: Kind
    partitions: list[Promise]
    deletion_asked: bool = False
    deletion_acked: bool = False


class Broken(AssertionError):
    """The broker broke a promise."""


class Ledger:
    """All promises. `kept` compares them with what was read after a restart."""

    def __init__(self) -> None:
        self.topics: dict[bytes, TopicPromise] = {}
        self.names_in_doubt: dict[str, tuple[Kind, int]] = {}
        """Topics whose creation was asked for and not answered: name to kind and number of partitions."""
        self.committed: Callable[[Place], int] = lambda place: OFFSET_MAX
        """Where the committed records of a partition end; whoever looks into the brokers knows that."""
        self.leader: Callable[[Place], str | None] = lambda place: None
        """The host of the leader of a partition, whether it knows that or not."""
        self.checked = 0
        """How many records were found as promised, over all checks."""

    def created(self, topic_id: bytes, name: str, kind: Kind, partitions: int) -> None:
        self.topics[topic_id] = TopicPromise(name, kind, [Promise() for _ in range(partitions)])

    def end(self, place: Place) -> int:
        """Everything up to here is known to be committed."""
        return max(self.topics[place.topic_id].partitions[place.partition].records, default=-1) + 1

    def acked(self, place: Place, base_offset: int, records: list[NewRecord]) -> None:
        """A producer was told that its records lie from this offset on."""
        for number, one in enumerate(records):
            self._promise(place, base_offset + number, one.key, one.value)

    def seen(self, place: Place, records: list[Record]) -> None:
        """A reader was shown these records."""
        for one in records:
            self._promise(place, one.offset, one.key, one.value)

    def _promise(self, place: Place, offset: int, key: bytes | None, value: bytes | None) -> None:
        records = self.topics[place.topic_id].partitions[place.partition].records
        if offset >= self.committed(place):
            raise Broken(f"{place} offset {offset} was acknowledged or shown, and nobody has committed it")
        if records.setdefault(offset, (key, value)) != (key, value):
            name = self.topics[place.topic_id].name
            raise Broken(
                f"{name} {place} offset {offset} held {_short(records[offset])}, now {_short((key, value))}"
            )

    # ---- the check

    def check_topics(self, found: dict[bytes, tuple[str, int]]) -> None:
        """Every topic that was promised is there, none that was deleted is; doubts are settled by what is found."""
        for topic_id, topic in list(self.topics.items()):
            if topic_id in found:
                if topic.deletion_acked:
                    raise Broken(f"the deleted topic {topic.name} is back")
                topic.deletion_asked = False
                if found[topic_id] != (topic.name, len(topic.partitions)):
                    raise Broken(f"topic {topic.name} is now {found[topic_id]}")
            elif not topic.deletion_asked:
                raise Broken(f"topic {topic.name} is gone")
            else:
                del self.topics[topic_id]
        for topic_id, (name, partitions) in found.items():
            if topic_id not in self.topics:
                if name not in self.names_in_doubt:
                    raise Broken(f"nobody asked for a topic {name}")
                self.created(topic_id, name, *self.names_in_doubt[name])
                if partitions != len(self.topics[topic_id].partitions):
                    raise Broken(f"topic {name} has {partitions} partitions")
        self.names_in_doubt.clear()

    def check_partition(
        self, place: Place, start: int, end: int, found: list[Record], *, lost_power: bool
    ) -> None:
        """Compare one partition, read whole from its start, with what is known of it; then know it all."""
        topic = self.topics[place.topic_id]
        promise = topic.partitions[place.partition]
        if topic.kind is Kind.LOOSE and lost_power:
            promise.records = {offset: what for offset, what in promise.records.items() if offset < end}
        self.seen(place, found)
        self._check_offsets(place, topic, start, end, found)
        self._check_start(place, topic, promise, start)
        offsets = {one.offset for one in found}
        if topic.kind is Kind.COMPACT:
            _check_compacted(place, promise, found)
        else:
            lost = sorted(offset for offset in promise.records if offset >= start and offset not in offsets)
            if lost:
                raise Broken(f"{topic.name} {place}: lost {lost}, read {start} to {end}")
        self._check_repeats(place, found)
        self.checked += len(found)

    def _check_offsets(
        self, place: Place, topic: TopicPromise, start: int, end: int, found: list[Record]
    ) -> None:
        offsets = [one.offset for one in found]
        if topic.kind is Kind.COMPACT:
            if offsets != sorted(set(offsets)) or (offsets and offsets[-1] >= end):
                raise Broken(f"{topic.name} {place}: offsets {offsets} do not ascend below {end}")
        elif offsets != list(range(start, end)):
            raise Broken(f"{topic.name} {place}: offsets {offsets} are not {start} to {end}")

    def _check_start(self, place: Place, topic: TopicPromise, promise: Promise, start: int) -> None:
        if start < promise.start_acked:
            raise Broken(
                f"{topic.name} {place}: starts at {start}, all before {promise.start_acked} was deleted"
            )
        if topic.kind is not Kind.SIZED and start > promise.start_asked:
            raise Broken(
                f"{topic.name} {place}: starts at {start}, nobody deleted beyond {promise.start_asked}"
            )
        promise.start_acked = promise.start_acked if topic.kind is Kind.SIZED else start

    def _check_repeats(self, place: Place, found: list[Record]) -> None:
        twice = [value for value, count in Counter(one.value for one in found).items() if count > 1 and value]
        if twice:
            raise Broken(f"{place}: written twice: {[value[:20] for value in twice]}")


def _short(what: tuple[bytes | None, bytes | None]) -> tuple[bytes | None, bytes | None]:
    return what[0], None if what[1] is None else what[1][:20]


def _check_compacted(place: Place, promise: Promise, found: list[Record]) -> None:
    """The last promised record of each key is there, or a later one; a deleted key may be gone altogether."""
    there = {one.key: one for one in found}
    last: dict[bytes | None, int] = {}
    for offset, (key, _) in sorted(promise.records.items()):
        last[key] = offset
    for key, offset in last.items():
        value = promise.records[offset][1]
        one = there.get(key)
        if one is None and (value is None or (key is not None and promise.keys_in_doubt[key])):
            continue
        if one is None or one.offset < offset:
            raise Broken(f"{place}: key {key!r} had its last record at {offset}, found {one}")
