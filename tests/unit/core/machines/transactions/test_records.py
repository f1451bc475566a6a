"""Transactional ids as bytes: exactly Kafka's transaction log, and nothing that is not understood passes."""

from __future__ import annotations

import pytest

from penstock.core.errors import TornSegment
from penstock.core.machines.transactions.records import decode, encode
from penstock.core.machines.transactions.values import (
    Enlisted,
    Transaction,
    TransactionForgotten,
    TransactionSaved,
    TransactionState,
)

KEY = b"\0\0" + b"\0\x03pay"
EMPTY = TransactionSaved(Transaction("pay", 7, 2, timeout_ms=60_000, changed_ms=1_000))
OPEN = TransactionSaved(
    Transaction(
        "pay",
        7,
        2,
        last_epoch=1,
        previous_producer_id=6,
        timeout_ms=60_000,
        state=TransactionState.ONGOING,
        partitions=(Enlisted("a", 0), Enlisted("a", 3), Enlisted("bc", 1)),
        started_ms=900,
        changed_ms=1_000,
        is_v2=True,
    )
)


def test_an_empty_one_has_no_partitions_and_no_tags() -> None:
    key, value = encode(EMPTY)
    assert key == KEY
    assert value == bytes.fromhex(
        "0001" "0000000000000007" "0002" "0000ea60" "00" "00" "00000000000003e8" "ffffffffffffffff" "00"
    )  # fmt: skip


def test_an_open_one_has_partitions_by_topic_and_tagged_fields() -> None:
    _, value = encode(OPEN)
    assert value == bytes.fromhex(
        "0001" "0000000000000007" "0002" "0000ea60" "01"
        "03" "02" "61" "03" "00000000" "00000003" "00" "03" "6263" "02" "00000001" "00"
        "00000000000003e8" "0000000000000384"
        "03" "00" "08" "0000000000000006" "02" "02" "0002" "904e" "02" "0001"
    )  # fmt: skip
    assert decode(KEY, value) == OPEN


def test_a_topic_id_is_a_tagged_field_of_its_topic() -> None:
    """Kafka's readers and earlier versions skip it; what they wrote has none and is found by name."""
    old, new = bytes(range(16)), bytes(range(16, 32))
    places = (Enlisted("a", 0, old), Enlisted("a", 1, new), Enlisted("bc", 1))
    saved = TransactionSaved(OPEN.transaction._replace(partitions=places))
    _, value = encode(saved)
    assert value is not None
    assert bytes.fromhex(
        "04" "0261" "02" "00000000" "01" "904e" "10" + old.hex() +
        "0261" "02" "00000001" "01" "904e" "10" + new.hex() + "03" "6263" "02" "00000001" "00"
    ) in value  # fmt: skip
    assert decode(KEY, value) == saved


def test_a_topic_id_of_another_length_is_not_understood() -> None:
    _, value = encode(TransactionSaved(OPEN.transaction._replace(partitions=(Enlisted("a", 0, b"short"),))))
    with pytest.raises(TornSegment):
        decode(KEY, value)


def test_no_value_means_forgotten() -> None:
    assert encode(TransactionForgotten("pay")) == (KEY, None)
    assert decode(KEY, None) == TransactionForgotten("pay")


def test_keys_of_another_version_are_left_alone() -> None:
    assert decode(b"\0\x05anything", b"x") is None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0\x02" + (encode(EMPTY)[1] or b"")[2:],
        (encode(EMPTY)[1] or b"")[:-1],
        (encode(EMPTY)[1] or b"") + b"\0",
        (encode(EMPTY)[1] or b"").replace(b"\x60\x00", b"\x60\x06"),
        (encode(EMPTY)[1] or b"").replace(b"\x60\x00\x00", b"\x60\x00\x01"),
        (encode(OPEN)[1] or b"").replace(b"\x61", b"\xff"),
    ],
    ids=["nothing", "version", "short", "long", "status", "empty with partitions", "no text"],
)
def test_what_makes_no_sense_is_refused(value: bytes) -> None:
    with pytest.raises(TornSegment):
        decode(KEY, value)


def test_a_record_without_a_key_is_refused() -> None:
    with pytest.raises(TornSegment):
        decode(None, b"")
