"""What coordinators keep in their topics, and what members tell them about themselves.

Our own records are read or known for torn; what a member sent is read or refused.
"""

from __future__ import annotations

from random import Random
from typing import Any

from fuzz.stored import fields, record
from fuzz.target import Target
from penstock.core.errors import InconsistentProtocol, TornSegment
from penstock.core.machines.classic_group.records import GROUP_RECORDS
from penstock.core.machines.classic_group.values import GroupRemoved, GroupSaved, SavedGroup, SavedMember
from penstock.core.machines.consumer_group.protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from penstock.core.machines.consumer_group.records import CONSUMER_GROUP_RECORDS
from penstock.core.machines.offsets.offsets import Committed, OffsetCommitted, OffsetRemoved
from penstock.core.machines.offsets.records import OFFSET_RECORDS
from penstock.core.machines.record_fields import blob, int16, int32, int64, text
from penstock.core.machines.subscriptions.events import SUBSCRIPTION_RECORDS
from penstock.core.machines.transactions import records as transaction_records
from penstock.core.model import TopicPartition

KINDS = (GROUP_RECORDS | OFFSET_RECORDS | CONSUMER_GROUP_RECORDS, SUBSCRIPTION_RECORDS)


def make_event(rng: Random) -> bytes:
    """A record of a classic group or an offset; or only the key of any kind, with something behind it."""
    if rng.random() < 0.5:
        key = int16(rng.choice([version for kind in KINDS for version in kind._decoders]))
        key += b"".join(rng.sample((text("g"), text("m"), int32(0), int64(3)), rng.randint(1, 3)))
        return record(
            key, int16(0) + rng.randbytes(rng.choice((0, 4, 8, 30))) + bytes(rng.choice((0, 8, 40)))
        )
    member = SavedMember("m", rng.choice((None, "i")), "c", "h", 5, 6, rng.randbytes(9), rng.randbytes(4))
    saved = SavedGroup("consumer", 3, "range", rng.choice((None, "m")), 9, (member,) * rng.randint(0, 3))
    place = TopicPartition("orders", rng.randint(0, 9))
    committed = Committed(rng.getrandbits(40), 2, "note", 7, rng.choice((-1, 99)))
    event = rng.choice(
        (
            GroupSaved("g", saved),
            GroupRemoved("g"),
            OffsetCommitted("g", place, committed),
            OffsetRemoved("g", place),
        )
    )
    return record(*KINDS[0].encode(event))


def read_event(content: bytes) -> str:
    """As every kind of record; what is understood is written back to what is understood the same."""
    words = []
    for kind in KINDS:
        try:
            event = kind.decode(*fields(content))
        except TornSegment:
            words.append("torn")
            continue
        words.append(type(event).__name__)
        assert event is None or kind.decode(*kind.encode(event)) == event
    return " / ".join(words)


def make_transaction(rng: Random) -> bytes:
    """The key of a transaction, and a value that may be the start of one."""
    value = int16(1) + b"\0" * rng.choice((0, 10, 30, 60)) + rng.randbytes(rng.choice((0, 5, 20)))
    return record(int16(0) + text("t"), value)


def read_transaction(content: bytes) -> str:
    try:
        event: Any = transaction_records.decode(*fields(content))
    except TornSegment:
        return "torn"
    assert event is None or transaction_records.decode(*transaction_records.encode(event)) == event
    return type(event).__name__


def make_metadata(rng: Random) -> bytes:
    """A member's subscription or its assignment."""
    if rng.random() < 0.5:
        return encode_assignment(rng.randint(0, 3), {"orders": [0, 1], "bills": [5]})
    topics = [rng.choice(("a", "orders", "größe")) for _ in range(rng.randint(0, 3))]
    return (
        int16(rng.randint(0, 3)) + int32(len(topics)) + b"".join(map(text, topics)) + blob(b"user") + int32(0)
    )


def read_metadata(content: bytes) -> str:
    words = []
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(content)
            words.append("read")
        except InconsistentProtocol:
            words.append("refused")
    return " / ".join(words)


TARGETS = (
    Target("coordinator-event", make_event, read_event),
    Target("transaction", make_transaction, read_transaction),
    Target("member-metadata", make_metadata, read_metadata),
)
