"""A list in slices is the list that it would be in one go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.node.runtime.slices import run_unsliced
from penstock.wire.json.frames import encode_json
from penstock.wire.json.rows import UNITS_PER_YIELD, encode_list, encode_listing

ROWS = [{"name": f"n{number}", "text": "ä" * number} for number in range(200)]


@pytest.mark.parametrize("rows", [[], ROWS[:1], ROWS])
@pytest.mark.parametrize("head", [{}, {"a": 1}])
@pytest.mark.parametrize("tail", [None, {}, {"z": [1]}])
def test_an_object_with_rows_in_it(
    rows: list[Any], head: dict[str, Any], tail: dict[str, Any] | None
) -> None:
    found = run_unsliced(encode_listing(head, "rows", iter(rows), encode_json, tail))
    assert json.loads(found) == {**head, "rows": rows, **(tail or {})}
    assert list(json.loads(found)) == [*head, "rows", *(tail or {})]


def test_others_come_in_between() -> None:
    steps = list(encode_list(ROWS, encode_json))
    assert len(steps) > 2
    assert all(UNITS_PER_YIELD <= units <= 2 * UNITS_PER_YIELD for units in steps)
