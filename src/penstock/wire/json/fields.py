"""Reads the typed fields of one JSON object. Unknown fields are errors."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from typing import Any

from penstock.core.errors import Malformed

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_BASE64 = "_base64"
_SHOWN_CHARS_MAX = 60


class Fields:
    """A JSON object whose fields are removed as they are read."""

    __slots__ = ("_content", "_where")

    def __init__(self, content: object, where: str) -> None:
        if not isinstance(content, dict):
            raise Malformed(f"{where} must be a JSON object, not {shown(content)}")
        self._content: dict[str, Any] = content
        self._where = where

    def __contains__(self, name: str) -> bool:
        return name in self._content

    def take(self, name: str, default: object = None) -> Any:
        """The raw value."""
        return self._content.pop(name, default)

    def text(self, name: str) -> str:
        """A required string."""
        found = self.optional_text(name)
        if found is None:
            raise Malformed(f"{self._where} needs {name!r}, a string")
        return found

    def optional_text(self, name: str) -> str | None:
        found = self.take(name)
        if found is not None and not isinstance(found, str):
            raise Malformed(f"{name!r} must be a string, not {shown(found)}")
        return found

    def number(self, name: str, default: int | None = None, *, high: int = INT64_MAX, low: int = 0) -> int:
        """An integer within bounds; required if there is no default."""
        found = self.take(name, default)
        if not isinstance(found, int) or isinstance(found, bool) or not low <= found <= high:
            raise Malformed(f"{name!r} must be an integer from {low} to {high}, not {shown(found)}")
        return found

    def choice(self, name: str, *allowed: str) -> str:
        """One of the allowed strings; the first is the default."""
        found = self.take(name, allowed[0])
        if found not in allowed:
            choices = " or ".join(repr(one) for one in allowed)
            raise Malformed(f"{name!r} must be {choices}, not {shown(found)}")
        return str(found)

    def listed(self, name: str) -> list[Any]:
        """A required list, which may be empty."""
        found = self.take(name)
        if not isinstance(found, list):
            raise Malformed(f"{self._where} needs {name!r}, a list")
        return found

    def content(self, name: str) -> bytes | None:
        """Bytes, as text in `name` or base64 in `name_base64`; None if absent or null."""
        if name in self and name + _BASE64 in self:
            raise Malformed(f"{name!r} and {name + _BASE64!r} are mutually exclusive")
        text, coded = self.take(name), self.take(name + _BASE64)
        if coded is not None:
            return _from_base64(name + _BASE64, coded)
        if text is None:
            return None
        if not isinstance(text, str):
            raise Malformed(
                f"{name!r} must be a string, not {shown(text)}; send JSON as its text, and bytes as {name + _BASE64!r}"
            )
        return text.encode()

    def check_empty(self) -> None:
        for name in self._content:
            raise Malformed(f"{self._where} has no field {shown(name)}")


def _from_base64(name: str, coded: object) -> bytes:
    refusal = Malformed(f"{name!r} must be a base64 string, not  {shown(coded)}")
    if not isinstance(coded, str):
        raise refusal
    try:
        return b64decode(coded, validate=True)
    except (NotBase64, ValueError):
        raise refusal from None


def shown(value: object) -> str:
    """A client's value for an error message, truncated."""
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}…"
