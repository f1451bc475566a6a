"""The vocabulary of client errors: one tree, documented in its own first lines."""

from __future__ import annotations

import pytest

from penstock.client import errors
from penstock.client.errors import BadArgument, ClientError, Refused, TimedOut

EVERY = [found for found in vars(errors).values() if isinstance(found, type)]


def test_one_tree_and_every_leaf_is_in_the_picture() -> None:
    assert all(issubclass(found, ClientError) for found in EVERY)
    assert errors.__doc__ is not None
    assert [found.__name__ for found in EVERY if found.__name__ not in errors.__doc__] == []


@pytest.mark.parametrize("found", EVERY)
def test_what_every_error_carries(found: type[ClientError]) -> None:
    plain = found("it is so")
    assert (str(plain), plain.message, plain.code, plain.retriable) == (
        "it is so",
        "it is so",
        "",
        found.retriable,
    )
    assert found("it is so", retriable=not found.retriable).retriable is not found.retriable


def test_kinds() -> None:
    assert TimedOut("").retriable
    assert not Refused("", code="POLICY_VIOLATION").retriable
    assert issubclass(BadArgument, ValueError)
