"""Paths into JSON values."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.apps.cli.field_path import parse_path

VALUE = {"user": {"name": "alice", "odd key": 1}, "items": [{"id": 1}, {"id": 2}], "none": None}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".", [VALUE]),
        (".user.name", ["alice"]),
        ('.user["odd key"]', [1]),
        ('.user."odd key"', [1]),
        (".items[0].id", [1]),
        (".items[-1].id", [2]),
        (".items[].id", [1, 2]),
        (".user[]", ["alice", 1]),
        (".nothing.at.all", [None]),
        (".items[9]", [None]),
        (".user[]?"[:-1], ["alice", 1]),
        (".none[]", []),
    ],
)
def test_selects(path: str, found: list[Any]) -> None:
    assert parse_path(path).select(VALUE) == found


def test_tells_whether_it_selects_one_value() -> None:
    assert parse_path(".a[0]").is_single and not parse_path(".a[]").is_single


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a.b",
        ".a b",
        ".a | length",
        ".[",
        ".a[x]",
        ".a;",
        "..",
        ".a()",
        ".a[0",
        "." + "a." * 70 + "a",
        ".a\n.b",
    ],
)
def test_anything_else_is_refused_with_the_grammar(path: str) -> None:
    with pytest.raises(ValueError, match="is not a path; allowed"):
        parse_path(path)
