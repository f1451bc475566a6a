"""The record format of classic groups, compatible with Kafka's tools. Stateless.

Key version 2: the group id. Value version 3: protocol type, generation, protocol, leader, time of the state, members
with instance id, client, timeouts, subscription and assignment. A null value deletes the group.
"""

from __future__ import annotations

from penstock.core.errors import TornSegment
from penstock.core.machine import Fields, Records
from penstock.core.machines.classic_group.values import GroupRemoved, GroupSaved, SavedGroup, SavedMember
from penstock.core.machines.record_fields import FieldReader, blob, int16, int32, int64, text

GROUP_KEY = 2
_VALUE = 3


def _encode_key(group_id: str) -> bytes:
    return int16(GROUP_KEY) + text(group_id)


def _saved(event: GroupSaved) -> Fields:
    saved = event.saved
    parts = [int16(_VALUE), text(saved.protocol_type), int32(saved.generation), text(saved.protocol)]
    parts += [text(saved.leader), int64(saved.since_ms), int32(len(saved.members))]
    for member in saved.members:
        parts += [text(member.id), text(member.instance_id), text(member.client_id), text(member.client_host)]
        parts += [int32(member.rebalance_ms), int32(member.session_ms)]
        parts += [blob(member.subscription), blob(member.assignment)]
    return _encode_key(event.group_id), b"".join(parts)


def _removed(event: GroupRemoved) -> Fields:
    return _encode_key(event.group_id), None


def _decode(key: bytes, value: bytes | None) -> GroupSaved | GroupRemoved:
    reader = FieldReader(key)
    reader.int16()
    group_id = reader.text()
    reader.end()
    return (
        GroupRemoved(group_id) if value is None else GroupSaved(group_id, _decode_value(FieldReader(value)))
    )


def _decode_value(reader: FieldReader) -> SavedGroup:
    version = reader.int16()
    if version != _VALUE:
        raise TornSegment(f"group record has version {version}, this broker supports {_VALUE}")
    protocol_type, generation, protocol = reader.text(), reader.int32(), reader.text_or_none()
    leader, since_ms = reader.text_or_none(), reader.int64()
    members = tuple(_decode_member(reader) for _ in range(reader.count()))
    reader.end()
    return SavedGroup(protocol_type, generation, protocol, leader, since_ms, members)


def _decode_member(reader: FieldReader) -> SavedMember:
    return SavedMember(
        id=reader.text(),
        instance_id=reader.text_or_none(),
        client_id=reader.text(),
        client_host=reader.text(),
        rebalance_ms=reader.int32(),
        session_ms=reader.int32(),
        subscription=reader.blob(),
        assignment=reader.blob(),
    )


GROUP_RECORDS = Records({GroupSaved: _saved, GroupRemoved: _removed}, {GROUP_KEY: _decode})
