"""Typed fields of a JSON value in the metadata log. Reading raises TornSegment on any error; no I/O."""

from __future__ import annotations

import json

from penstock.core.errors import TornSegment

VERSION = 1
"""The format version of values. A reader rejects a newer version instead of guessing."""


def json_value(content: dict[str, object]) -> bytes:
    """The value of a record."""
    return json.dumps({"version": VERSION, **content}, sort_keys=True).encode()


class JsonFields:
    """The fields of one value."""

    def __init__(self, key: bytes, value: bytes | None) -> None:
        self._key = key
        try:
            content = json.loads("" if value is None else str(value, "utf-8"))
        except (ValueError, RecursionError):
            raise self.torn("its value is not JSON") from None
        if not isinstance(content, dict):
            raise self.torn("its value is not an object")
        if content.get("version") != VERSION:
            raise self.torn(f"its version is {content.get('version')!r}, this broker supports {VERSION}")
        self.content = content

    def torn(self, reason: str) -> TornSegment:
        return TornSegment(f"catalog record {self._key!r} cannot be read: {reason}")

    def text(self, name: str) -> str:
        value = self.content.get(name)
        if not isinstance(value, str):
            raise self.torn(f"{name} is {value!r}, not a string")
        return value

    def whole(self, name: str, lowest: int, *, absent: int | None = None) -> int:
        """`absent` is the value for records without the field."""
        if absent is not None and name not in self.content:
            return absent
        value = self.content.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
            raise self.torn(f"{name} is {value!r}, not an integer of at least {lowest}")
        return value

    def flag(self, name: str, *, absent: bool | None = None) -> bool:
        if absent is not None and name not in self.content:
            return absent
        value = self.content.get(name)
        if not isinstance(value, bool):
            raise self.torn(f"{name} is {value!r}, not true or false")
        return value
