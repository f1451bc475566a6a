"""Every leaf of the error tree has its code at the queue door."""

from __future__ import annotations

from penstock.core.errors import UnknownTopic, leaves
from penstock.doors.queue.errors import CODES, error_properties


def test_every_leaf_has_a_row_and_no_row_is_left_over() -> None:
    assert CODES.keys() == set(leaves())


def test_an_error_is_said_with_code_and_words_that_fit() -> None:
    said = dict(error_properties(UnknownTopic("no\0" + "x" * 5_000)))
    assert (said["@status"], said["@code"], said["@retriable"]) == ("error", "UNKNOWN_TOPIC", "false")
    assert said["@error"].startswith("no\\0x") and len(said["@error"]) == 1_000
