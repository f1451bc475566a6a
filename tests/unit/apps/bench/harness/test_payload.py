"""The payload of all messages."""

from __future__ import annotations

from penstock.apps.bench.harness.payload import payload


def test_a_payload_is_reproducible_and_contains_no_line_end() -> None:
    assert payload(1024) == payload(1024)
    assert len(payload(100)) == 100
    assert payload(1 << 16).isalnum()
