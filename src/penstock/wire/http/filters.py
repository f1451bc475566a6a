"""Filters of a tail: by key, header, text in the value, or a JSON field. All conditions must match."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.core.errors import InvalidRequest
from penstock.core.model import Record

CONDITIONS_MAX = 20

FILTERS = ("key", "header", "contains", "json")
"""The query parameters that are conditions."""


class JsonCondition(NamedTuple):
    """A path in a JSON value and the expected text; None matches anything."""

    path: tuple[str, ...]
    text: str | None


class RecordFilter(NamedTuple):
    """Conditions on a record; no condition matches everything."""

    keys: tuple[bytes, ...] = ()
    headers: tuple[tuple[str, bytes | None], ...] = ()
    texts: tuple[bytes, ...] = ()
    json_conditions: tuple[JsonCondition, ...] = ()

    def passes(self, record: Record) -> bool:
        value = record.value or b""
        return (
            all(record.key == key for key in self.keys)
            and all(_has_header(record, *wanted) for wanted in self.headers)
            and all(text in value for text in self.texts)
            and (not self.json_conditions or _matches_json(value, self.json_conditions))
        )


def read_filter(query: Mapping[str, Sequence[str]]) -> RecordFilter:
    """`key=a`, `header=name` or `header=name:value`, `contains=text`, `json=user.id:42` or `json=user.id`."""
    if sum(len(query.get(name, ())) for name in FILTERS) > CONDITIONS_MAX:
        raise InvalidRequest(f"a filter has at most {CONDITIONS_MAX} conditions")
    return RecordFilter(
        keys=tuple(text.encode() for text in query.get("key", ())),
        headers=tuple(_header(text) for text in query.get("header", ())),
        texts=tuple(text.encode() for text in query.get("contains", ())),
        json_conditions=tuple(_json_condition(text) for text in query.get("json", ())),
    )


def _header(text: str) -> tuple[str, bytes | None]:
    name, colon, value = text.partition(":")
    return name, value.encode() if colon else None


def _json_condition(text: str) -> JsonCondition:
    path, colon, value = text.partition(":")
    if not path:
        raise InvalidRequest(
            "a json filter is written path:value, with a path such as user.id or items.0.name"
        )
    return JsonCondition(tuple(path.split(".")), value if colon else None)


def _has_header(record: Record, name: str, value: bytes | None) -> bool:
    return any(
        header.key == name and (value is None or (header.value or b"") == value) for header in record.headers
    )


def _matches_json(value: bytes, json_conditions: tuple[JsonCondition, ...]) -> bool:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return False
    return all(_matches(found, condition) for condition in json_conditions)


def _matches(found: Any, condition: JsonCondition) -> bool:
    for step in condition.path:
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isdecimal() and len(step) < 10 and int(step) < len(found):
            found = found[int(step)]
        else:
            return False
    if condition.text is None:
        return True
    if isinstance(found, dict | list):
        return False
    return (found if isinstance(found, str) else json.dumps(found)) == condition.text
