"""Which batches of a run are hidden: markers, and those of aborted transactions up to their marker."""

from __future__ import annotations

from penstock.core.model import NewRecord
from penstock.core.records.aborted import AbortedProducer, AbortedRun
from penstock.core.records.batch import TRANSACTIONAL, decode_header, encode_header, stamp, stamp_checksum
from penstock.core.records.build import build_batch, stamp_producer
from penstock.core.records.control import Marker, build_marker

ONE, OTHER = 1, 2


def batch(offset: int, producer_id: int) -> bytearray:
    raw = build_batch([NewRecord(None, b"x")], 1_000)
    stamp_producer(raw, producer_id, 0, 0)
    header = decode_header(raw)
    raw[: len(encode_header(header))] = encode_header(
        header._replace(attributes=header.attributes | TRANSACTIONAL)
    )
    stamp_checksum(raw)
    stamp(raw, offset, 0)
    return raw


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytearray:
    raw = build_marker(producer_id, 0, Marker(is_commit, 0), 1_000)
    stamp(raw, offset, 0)
    return raw


def hidden(aborted: list[AbortedProducer], *batches: bytearray) -> list[int]:
    run = AbortedRun(aborted)
    return [header.base_offset for one in batches if run.hides(header := decode_header(one), memoryview(one))]


def test_an_aborted_transaction_is_hidden_until_its_marker() -> None:
    found = hidden(
        [AbortedProducer(ONE, 0)],
        batch(0, ONE),
        batch(1, OTHER),
        marker(2, ONE, is_commit=False),
        batch(3, ONE),
        marker(4, OTHER, is_commit=True),
        marker(5, ONE, is_commit=True),
    )
    assert found == [0, 2, 4, 5]


def test_a_run_that_begins_within_a_transaction_hides_the_rest_of_it() -> None:
    assert hidden(
        [AbortedProducer(ONE, 3)], batch(7, ONE), marker(8, ONE, is_commit=False), batch(9, ONE)
    ) == [
        7,
        8,
    ]


def test_the_commit_before_an_abort_of_the_same_producer_is_visible() -> None:
    found = hidden(
        [AbortedProducer(ONE, 2)],
        batch(0, ONE),
        marker(1, ONE, is_commit=True),
        batch(2, ONE),
        marker(3, ONE, is_commit=False),
    )
    assert found == [1, 2, 3]
