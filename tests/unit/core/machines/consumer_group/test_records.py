"""Records of consumer groups, held against bytes that Kafka 4.3's own classes wrote for the same values."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import TornSegment
from penstock.core.machines.consumer_group.events import (
    ClassicMetadata,
    ConsumerGroupMember,
    CurrentAssignment,
    CurrentAssignmentSet,
    GroupEpoch,
    GroupEpochSet,
    MemberSet,
    MemberState,
    RegexSet,
    ResolvedRegex,
    SessionRenewed,
    TargetEpochSet,
    TargetSet,
)
from penstock.core.machines.consumer_group.records import CONSUMER_GROUP_RECORDS as RECORDS

TOPIC = bytes.fromhex("0102030405064708890a0b0c0d0e0f10")
WRITTEN_BY_KAFKA: dict[str, tuple[Any, str, str]] = {
    "group": (
        GroupEpochSet("g", GroupEpoch(7, 0x1122334455667788)),
        "0003000167",
        "0000000000070100081122334455667788",
    ),
    "group without hash": (GroupEpochSet("g", GroupEpoch(7, 0)), "0003000167", "00000000000700"),
    "static member": (
        MemberSet(
            "g",
            "m",
            ConsumerGroupMember(
                instance_id="i",
                client_id="c",
                client_host="/127.0.0.1",
                topic_names=("a", "bc"),
                rebalance_ms=300_000,
                assignor="uniform",
            ),
        ),
        "000500016700016d",
        "000002690002630b2f3132372e302e302e3103026103626300000493e008756e69666f726d00",
    ),
    "member by regular expression": (
        MemberSet(
            "g",
            "m",
            ConsumerGroupMember(
                rack_id="r1", client_id="c", client_host="h", topic_regex="a.*", rebalance_ms=1000
            ),
        ),
        "000500016700016d",
        "000000037231026302680104612e2a000003e80000",
    ),
    "classic member": (
        MemberSet(
            "g",
            "m",
            ConsumerGroupMember(
                instance_id="",
                rack_id="",
                client_id="c",
                client_host="h",
                topic_names=("a",),
                topic_regex="",
                rebalance_ms=1000,
                classic=ClassicMetadata(45_000, (("range", b"\1\2\3"),)),
            ),
        ),
        "000500016700016d",
        "000001010263026802026101000003e800010012010000afc8020672616e6765040102030000",
    ),
    "target epoch": (TargetEpochSet("g", 9), "0006000167", "00000000000900"),
    "target": (
        TargetSet("g", "m", {TOPIC: frozenset({0, 1, 300})}),
        "000700016700016d",
        "0000020102030405064708890a0b0c0d0e0f100400000000000000010000012c0000",
    ),
    "current": (
        CurrentAssignmentSet(
            "g",
            "m",
            CurrentAssignment(
                5, 4, MemberState.UNREVOKED, {TOPIC: frozenset({0, 1})}, {TOPIC: frozenset({2})}
            ),
        ),
        "000800016700016d",
        "0000000000050000000401020102030405064708890a0b0c0d0e0f100300000000000000010002010203040506"
        "4708890a0b0c0d0e0f1002000000020000",
    ),
    "regular expression": (
        RegexSet("g", "a.*", ResolvedRegex(("a", "ab"), 12, 1_700_000_000_000)),
        "00100001670003612e2a",
        "0000030261036162000000000000000c0000018bcfe5680000",
    ),
}


@pytest.mark.parametrize("name", WRITTEN_BY_KAFKA)
def test_the_bytes_are_kafkas(name: str) -> None:
    event, key, value = WRITTEN_BY_KAFKA[name]
    decoded = RECORDS.decode(bytes.fromhex(key), bytes.fromhex(value))
    assert (decoded.group_id, decoded.value) == (event.group_id, event.value)
    encoded_key, encoded_value = RECORDS.encode(event)
    assert encoded_key.hex() == key
    assert encoded_value is not None and encoded_value.hex() == value


@pytest.mark.parametrize("name", WRITTEN_BY_KAFKA)
def test_no_value_means_gone(name: str) -> None:
    event, key, _ = WRITTEN_BY_KAFKA[name]
    gone = RECORDS.decode(bytes.fromhex(key), None)
    assert (type(gone), gone.group_id, gone.value) == (type(event), "g", None)
    assert RECORDS.encode(gone) == (bytes.fromhex(key), None)


@pytest.mark.parametrize("name", WRITTEN_BY_KAFKA)
def test_a_record_cut_short_is_torn(name: str) -> None:
    _, key, value = WRITTEN_BY_KAFKA[name]
    whole = bytes.fromhex(value)
    for length in range(len(whole)):
        with pytest.raises(TornSegment):
            RECORDS.decode(bytes.fromhex(key), whole[:length])


def test_what_ends_with_the_node_is_not_kept() -> None:
    assert not RECORDS.is_persisted(SessionRenewed("g", "m", 5))
    assert RECORDS.is_persisted(TargetEpochSet("g", 5))
