"""Splits DDL column lists. Does not interpret types."""

from __future__ import annotations


def split_columns(columns: str) -> list[str]:
    """`a int, b struct<c:int,d:int>` → `["a int", "b struct<c:int,d:int>"]`."""
    parts, depth, start = [], 0, 0
    for index, sign in enumerate(f"{columns},"):
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and depth == 0:
            parts.append(columns[start:index].strip())
            start = index + 1
    return [part for part in parts if part]
