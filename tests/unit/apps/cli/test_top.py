"""The live view fits its terminal."""

from __future__ import annotations

import pytest

from penstock.apps.cli.top import ROWS_MAX, ROWS_MIN, table_rows


@pytest.mark.parametrize(
    ("height", "topics", "groups", "rows"),
    [
        (40, 5, 2, (5, 2)),
        (40, 100, 2, (ROWS_MAX, 2)),
        (40, 100, 100, (12, 12)),
        (40, 2, 100, (2, ROWS_MAX)),
        (10, 100, 100, (ROWS_MIN, ROWS_MIN)),
        (40, 0, 0, (0, 0)),
    ],
)
def test_topics_and_groups_share_the_height(
    height: int, topics: int, groups: int, rows: tuple[int, int]
) -> None:
    assert table_rows({"brokers": [1], "topics": [1] * topics, "groups": [1] * groups}, height) == rows


def test_an_error_has_no_tables() -> None:
    assert table_rows({"error": "No broker answers."}, 40) == (0, 0)
