"""Query parameters: parsed by the same table that /openapi.json shows. Unknown ones are rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.core.errors import InvalidRequest
from penstock.wire.http.filters import FILTERS

_DIGITS_MAX = 19
OFFSET_MAX = 2**63 - 1
EARLIEST = "earliest"
LATEST = "latest"


class Number(NamedTuple):
    """An integer within bounds."""

    low: int
    high: int

    def read(self, name: str, text: str) -> int:
        digits = text.removeprefix("-")
        is_number = digits.isdecimal() and digits.isascii() and len(digits) <= _DIGITS_MAX
        if not is_number or not self.low <= int(text) <= self.high:
            raise InvalidRequest(f"{name} must be a whole number from {self.low} to {self.high}")
        return int(text)

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


class Choice(NamedTuple):
    """One of several values."""

    choices: tuple[str, ...]

    def read(self, name: str, text: str) -> str:
        if text not in self.choices:
            raise InvalidRequest(f"{name} must be {' or '.join(self.choices)}")
        return text

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.choices)}


class Offset(NamedTuple):
    """An offset, `earliest` or `latest`."""

    def read(self, name: str, text: str) -> int | str:
        if text in (EARLIEST, LATEST):
            return text
        try:
            return Number(0, OFFSET_MAX).read(name, text)
        except InvalidRequest as error:
            raise InvalidRequest(f"{error}, or {EARLIEST} or {LATEST}") from None

    def schema(self) -> dict[str, Any]:
        choices = {"type": "string", "enum": [EARLIEST, LATEST]}
        return {"oneOf": [{"type": "integer", "minimum": 0, "maximum": OFFSET_MAX}, choices]}


class Field(NamedTuple):
    """One query parameter."""

    name: str
    kind: Number | Choice | Offset
    default: Any
    meaning: str


def read_query(
    query: Mapping[str, Sequence[str]], fields: Sequence[Field], has_filter: bool = False
) -> dict[str, Any]:
    """The value of every parameter, or its default. Unknown and repeated parameters are rejected."""
    known = {field.name: field for field in fields}
    values = {field.name: field.default for field in fields}
    for name, texts in query.items():
        if has_filter and name in FILTERS:
            continue
        if name not in known:
            choices = ", ".join((*known, *(FILTERS if has_filter else ()))) or "none"
            raise InvalidRequest(f"unknown query parameter {name[:100]!r}; supported: {choices}")
        if len(texts) > 1:
            raise InvalidRequest(f"the query parameter {name} is repeated")
        values[name] = known[name].kind.read(name, texts[0])
    return values
