"""The grammar of `sub --from`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.apps.cli.positions import AtOffset, AtTime, BeforeEnd, Earliest, Latest, Start, parse_start

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Earliest()),
        ("latest", Latest()),
        ("0", AtOffset(0)),
        ("42", AtOffset(42)),
        ("-5", BeforeEnd(5)),
        ("@1700000000000", AtTime(1_700_000_000_000)),
        ("@-1h", AtTime(NOW_MS - 3_600_000)),
        ("@-90s", AtTime(NOW_MS - 90_000)),
        ("@-99999999d", AtTime(0)),
        ("@2026-01-01T00:00Z", AtTime(int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000))),
        ("@2026-01-01T01:00+01:00", AtTime(int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000))),
        ("@2026-01-01T00:00", AtTime(int(datetime(2026, 1, 1).astimezone().timestamp() * 1000))),
        ("@2026-01-01", AtTime(int(datetime(2026, 1, 1).astimezone().timestamp() * 1000))),
    ],
)
def test_understood(text: str, start: Start) -> None:
    assert type(parse_start(text, NOW_MS)) is type(start)
    assert parse_start(text, NOW_MS) == start


@pytest.mark.parametrize(
    "text", ["", "begin", "-", "--1", "-²", "1.5", "@", "@-", "@1h", "@-1x", "@2026-13-01", "@--1h", "²"]
)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: earliest, latest"):
        parse_start(text, NOW_MS)
