"""The error of authentication: what the client reads, and what the log gets."""

from __future__ import annotations

from penstock.core.authentication.failure import AuthFailureKind, NotAuthenticated


def test_the_reason_is_escaped_and_truncated_for_the_log() -> None:
    error = NotAuthenticated(AuthFailureKind.CREDENTIALS, "no", "user 'a\r\nFAKE LINE\x1b[31m" + "x" * 1000)
    assert str(error) == "no"
    assert error.reason.isprintable()
    assert len(error.reason) <= 300


def test_the_message_is_the_reason_if_there_is_no_other() -> None:
    assert NotAuthenticated(AuthFailureKind.STATE, "too late").reason == "too late"
