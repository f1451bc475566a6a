"""Codec of classic consumers' embedded protocol: subscriptions and assignments. No I/O.

Subscription, versions 0 to 3: topics and user data; from 1 on owned partitions; from 2 on the generation; from 3 on the
rack. Assignment, the same versions: partitions by topic, and user data. Later versions are read as far as known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.core.errors import InconsistentProtocol, TornSegment
from penstock.core.machines.record_fields import FieldReader, int16, int32, text

VERSION_MAX = 3
_OWNED_FROM = 1

Named = Mapping[str, frozenset[int]]
"""Partitions by topic name."""


class ConsumerSubscription(NamedTuple):
    """A member's subscription and owned partitions."""

    version: int
    topics: tuple[str, ...]
    owned: Named


def decode_subscription(raw: bytes) -> ConsumerSubscription:
    """Raises InconsistentProtocol if the bytes are not a valid subscription."""
    reader = FieldReader(raw)
    try:
        version = reader.int16()
        topics = tuple(reader.text() for _ in range(reader.count()))
        _skip_user_data(reader)
        owned = _decode_partitions(reader) if version >= _OWNED_FROM else {}
    except TornSegment as error:
        raise InconsistentProtocol(f"invalid subscription in a member's metadata: {error}") from None
    return ConsumerSubscription(min(version, VERSION_MAX), topics, owned)


def decode_assignment(raw: bytes) -> Named:
    """Raises InconsistentProtocol if the bytes are not a valid assignment; empty bytes are an empty assignment."""
    if not raw:
        return {}
    reader = FieldReader(raw)
    try:
        reader.int16()
        return _decode_partitions(reader)
    except TornSegment as error:
        raise InconsistentProtocol(f"invalid assignment of a member: {error}") from None


def encode_assignment(version: int, assignment: Named) -> bytes:
    """An assignment without user data."""
    out = [int16(version), int32(len(assignment))]
    for topic in sorted(assignment):
        partitions = sorted(assignment[topic])
        out += (text(topic), int32(len(partitions)), *map(int32, partitions))
    out.append(int32(-1))
    return b"".join(out)


def _skip_user_data(reader: FieldReader) -> None:
    length = reader.int32()
    if length >= 0:
        reader.skip(length)


def _decode_partitions(reader: FieldReader) -> Named:
    found = {}
    for _ in range(reader.count()):
        topic = reader.text()
        found[topic] = frozenset(reader.int32() for _ in range(reader.count()))
    return found
