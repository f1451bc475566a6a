"""Every error that can be raised has a code of Kafka's, and every code leads back to an error."""

from __future__ import annotations

import pytest

from penstock.core import errors
from penstock.core.errors import BrokerError, leaves
from penstock.wire.kafka import CODES, ErrorCode, error_from_code, error_name


def test_every_leaf_of_the_tree_has_a_row() -> None:
    assert CODES.keys() == set(leaves())


def test_no_row_says_that_all_is_well_or_that_nothing_is_known() -> None:
    assert not {ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR} & set(CODES.values())


@pytest.mark.parametrize("error", [*leaves()], ids=lambda error: error.__name__)
def test_an_error_that_crosses_a_link_keeps_its_code_and_its_words(error: type[BrokerError]) -> None:
    came_back = error_from_code(CODES[error], "the words")
    assert CODES[type(came_back)] == CODES[error]
    assert "the words" in str(came_back)


@pytest.mark.parametrize("error", [*leaves()], ids=lambda error: error.__name__)
def test_the_way_back_never_promises_that_nothing_changed(error: type[BrokerError]) -> None:
    """Several errors share REQUEST_TIMED_OUT, and one of them says that nothing was changed."""
    if CODES[error] is ErrorCode.REQUEST_TIMED_OUT:
        assert type(error_from_code(CODES[error], "")) is errors.TimedOut


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, 9_999])
def test_an_unknown_code_is_an_unknown_outcome(code: int) -> None:
    assert isinstance(error_from_code(code, "broker 2"), errors.TimedOut)


def test_records_that_may_still_be_committed_are_an_unknown_outcome() -> None:
    assert isinstance(error_from_code(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ""), errors.TimedOut)


def test_names() -> None:
    assert error_name(6) == "NOT_LEADER_OR_FOLLOWER"
    assert error_name(9_999) == "error 9999"
