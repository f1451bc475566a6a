"""The records of groups and offsets, byte for byte as Kafka's own tools expect them in `__consumer_offsets`."""

from __future__ import annotations

from penstock.core.machines.classic_group.records import GROUP_RECORDS
from penstock.core.machines.classic_group.values import GroupRemoved, GroupSaved, SavedGroup, SavedMember
from penstock.core.machines.offsets.offsets import Committed, OffsetCommitted, OffsetPended, OffsetRemoved
from penstock.core.machines.offsets.records import OFFSET_RECORDS
from penstock.core.model import TopicPartition


def packed(text: str) -> bytes:
    """Hex, in which words in quotes stand for themselves."""
    return b"".join(word[1:-1].encode() if word[0] == "'" else bytes.fromhex(word) for word in text.split())


OFFSET_KEY = packed("0001 0001 'g' 0006 'orders' 00000002")


def test_a_committed_offset_has_key_version_1_and_value_version_3() -> None:
    event = OffsetCommitted("g", TopicPartition("orders", 2), Committed(258, 7, "hi", 1_000))
    value = packed("0003 0000000000000102 00000007 0002 'hi' 00000000000003e8")
    assert OFFSET_RECORDS.encode(event) == (OFFSET_KEY, value)
    assert OFFSET_RECORDS.decode(OFFSET_KEY, value) == event


def test_an_offset_with_a_retention_of_its_own_has_value_version_1() -> None:
    event = OffsetCommitted("g", TopicPartition("orders", 2), Committed(258, -1, "hi", 1_000, 2_000))
    value = packed("0001 0000000000000102 0002 'hi' 00000000000003e8 00000000000007d0")
    assert OFFSET_RECORDS.encode(event) == (OFFSET_KEY, value)
    assert OFFSET_RECORDS.decode(OFFSET_KEY, value) == event


def test_a_key_without_a_value_removes_the_offset_also_in_the_oldest_key_version() -> None:
    removed = OffsetRemoved("g", TopicPartition("orders", 2))
    assert OFFSET_RECORDS.encode(removed) == (OFFSET_KEY, None)
    assert OFFSET_RECORDS.decode(b"\0\0" + OFFSET_KEY[2:], None) == removed


def test_a_group_has_key_version_2_and_value_version_3() -> None:
    member = SavedMember("m-1", None, "c", "/h", 300, 45, b"\x01", b"\x02\x03")
    static = SavedMember("s-1", "s", "c", "/h", 300, 45, b"", b"")
    event = GroupSaved("g", SavedGroup("consumer", 5, "range", "m-1", 1_000, (member, static)))
    key = packed("0002 0001 'g'")
    value = packed(
        "0003 0008 'consumer' 00000005 0005 'range' 0003 'm-1' 00000000000003e8 00000002"
        " 0003 'm-1' ffff 0001 'c' 0002 '/h' 0000012c 0000002d 00000001 01 00000002 0203"
        " 0003 's-1' 0001 's' 0001 'c' 0002 '/h' 0000012c 0000002d 00000000 00000000"
    )
    assert GROUP_RECORDS.encode(event) == (key, value)
    assert GROUP_RECORDS.decode(key, value) == event
    assert GROUP_RECORDS.decode(key, None) == GroupRemoved("g")


def test_an_empty_group_has_neither_protocol_nor_leader() -> None:
    _, value = GROUP_RECORDS.encode(GroupSaved("g", SavedGroup("consumer", 6, None, None, 1_000, ())))
    assert value == packed("0003 0008 'consumer' 00000006 ffff ffff 00000000000003e8 00000000")


def test_what_waits_for_a_transaction_hides_behind_a_key_version_that_kafka_does_not_use() -> None:
    event = OffsetPended("g", 9, 1, TopicPartition("orders", 2), Committed(258, 7, "", 1_000))
    key, value = OFFSET_RECORDS.encode(event)
    assert key[:2] == (30_000).to_bytes(2, "big")
    assert OFFSET_RECORDS.decode(key, value) == event


def test_key_versions_of_others_are_none_of_ours_and_both_kinds_are_read_together() -> None:
    records = OFFSET_RECORDS | GROUP_RECORDS
    assert records.decode(packed("0003 0001 'g'"), b"") is None
    assert records.decode(OFFSET_KEY, None) == OffsetRemoved("g", TopicPartition("orders", 2))
    assert records.decode(packed("0002 0001 'g'"), None) == GroupRemoved("g")
