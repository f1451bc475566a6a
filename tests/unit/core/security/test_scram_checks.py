"""Credentials that may be stored, and those that are refused."""

from __future__ import annotations

from penstock.core.security.scram_checks import SCRAM_MECHANISMS, check_user


def test_mechanisms_have_kafkas_numbers_and_sasl_names() -> None:
    assert SCRAM_MECHANISMS == {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


def test_user_names_that_mislead_are_refused() -> None:
    for name in ("", "*", "ANONYMOUS", " alice", "al\nice", "é" * 128):
        assert check_user(name) is not None, name
    for name in ("alice", "CN=alice,O=example", "é" * 127):
        assert check_user(name) is None, name
