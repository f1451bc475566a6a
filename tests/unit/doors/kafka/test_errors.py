"""Every error that can be raised has a code of Kafka's."""

from __future__ import annotations

from penstock.core.errors import leaves
from penstock.doors.kafka.errors import CODES
from penstock.wire.kafka import ErrorCode


def test_every_leaf_of_the_tree_has_a_row() -> None:
    assert CODES.keys() == set(leaves())


def test_no_row_says_that_all_is_well_or_that_nothing_is_known() -> None:
    assert not {ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR} & set(CODES.values())
