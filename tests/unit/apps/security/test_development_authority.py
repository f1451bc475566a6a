"""Certificates of the development authority: names, lifetimes, purposes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock.apps.security.development_authority import AUTHORITY_DAYS, DevelopmentAuthority
from penstock.core.errors import InvalidConfig

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AUTHORITY = DevelopmentAuthority(NOW)


def test_a_server_certificate_has_the_given_hosts_and_those_of_the_machine() -> None:
    facts = AUTHORITY.issue_server(["broker1", "10.0.0.5", "localhost", "*.internal", "fe80::1"], 90).facts
    assert facts.subject == "CN=broker1"
    assert set(facts.hosts) == {
        *("broker1", "10.0.0.5", "localhost", "*.internal", "fe80::1"),
        *("127.0.0.1", "::1"),
    }
    assert len(facts.hosts) == 7


def test_lifetimes() -> None:
    facts = AUTHORITY.issue_client("alice", 90).facts
    assert facts.not_before < NOW
    assert facts.not_after == NOW + timedelta(days=90)
    assert AUTHORITY.issued.facts.not_after == NOW + timedelta(days=AUTHORITY_DAYS)
    beyond = AUTHORITY.issue_client("alice", AUTHORITY_DAYS + 1).facts
    assert beyond.not_after == AUTHORITY.issued.facts.not_after, "not longer than its authority"


def test_only_the_authority_can_issue() -> None:
    assert AUTHORITY.issued.facts.is_authority
    assert not AUTHORITY.issue_server((), 1).facts.is_authority
    assert AUTHORITY.issue_server((), 1).facts.subject == "CN=localhost"


@pytest.mark.parametrize("host", ["", "a b", "broker1:9092", "http://x", "-a", "a..b", "x" * 254, "a/b", "*"])
def test_what_is_no_host(host: str) -> None:
    with pytest.raises(InvalidConfig, match="is not a host name or address"):
        AUTHORITY.issue_server([host], 1)


def test_keys_are_not_shown() -> None:
    assert "PRIVATE" not in repr(AUTHORITY.issued)
