"""Error numbers and names, against kio's list."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KioErrorCode

from penstock.wire.kafka import ErrorCode


def test_same_numbers_and_names_as_kio() -> None:
    assert {code.value: code.name for code in ErrorCode} == {
        code.value: code.name.upper() for code in KioErrorCode
    }
