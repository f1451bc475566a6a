"""The definition of a setting: name, type, default, bounds, documentation, validation. Stores no value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple, Protocol

from penstock.core.errors import InvalidConfig

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_SHOWN_CHARS_MAX = 80
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL = re.compile(r"[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})?")


class Kind(StrEnum):
    """The type of a value, by Kafka's names."""

    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    SHORT = "short"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"


class Coarse(NamedTuple):
    """The broker setting in a coarser unit that provides the default; the finer setting is then unset, as in Kafka."""

    name: str
    value: str


class Setting(NamedTuple):
    """One setting. `canonical` returns the canonical form of a client's value, or None if it is invalid."""

    name: str
    inherits: str
    """The broker setting that this one inherits from; empty if there is none."""
    kind: Kind
    default: str
    allowed: str
    doc: str
    canonical: Callable[[str], str | None]
    coarse: Coarse | None = None


def find_setting(table: Mapping[str, Setting], name: str, whose: str) -> Setting:
    """The definition by name. InvalidConfig suggests a similar name."""
    definition = table.get(name)
    if definition is None:
        import difflib

        near = difflib.get_close_matches(name[:_SHOWN_CHARS_MAX], table, n=1, cutoff=0.75)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidConfig(f"{_shown(name)} is not a setting of Penstock {whose}{hint}")
    return definition


def canonical_value(definition: Setting, name: str, value: str) -> str:
    """The canonical form of the value. InvalidConfig names the setting, the value and what is allowed."""
    canonical = definition.canonical(value.strip())
    if canonical is None:
        raise InvalidConfig(f"{name}: found {_shown(value)}, allowed is {definition.allowed}")
    return canonical


def _shown(text: str) -> str:
    """A client's value for a log line: quoted, escaped and truncated."""
    return repr(text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…")


class MakeNumber(Protocol):
    """Creates settings that are integers within the same bounds."""

    def __call__(
        self, name: str, inherits: str, default: int, doc: str, coarse: Coarse | None = None
    ) -> Setting: ...


def number(kind: Kind, lowest: int, highest: int, special: int | None = None) -> MakeNumber:
    """A factory of integer settings within these bounds, plus an optional special value outside them."""

    def canonical(text: str) -> str | None:
        if _INTEGER.fullmatch(text) is None:
            return None
        value = int(text)
        return str(value) if lowest <= value <= highest or value == special else None

    allowed = f"a whole number from {lowest} to {highest}" + ("" if special is None else f", or {special}")

    def make(name: str, inherits: str, default: int, doc: str, coarse: Coarse | None = None) -> Setting:
        return Setting(name, inherits, kind, str(default), allowed, doc, canonical, coarse)

    return make


def choice(name: str, inherits: str, choices: tuple[str, ...], doc: str) -> Setting:
    """One of these choices; the first is the default."""
    allowed = " or ".join(choices)
    return Setting(
        name, inherits, Kind.STRING, choices[0], allowed, doc, lambda text: text if text in choices else None
    )


def list_of_choices(name: str, inherits: str, choices: tuple[str, ...], doc: str) -> Setting:
    """One or more of these choices, comma-separated; the first is the default."""

    def canonical(text: str) -> str | None:
        words = list(dict.fromkeys(word.strip() for word in text.split(",")))
        return ",".join(words) if all(word in choices for word in words) else None

    allowed = " or ".join(choices) + ", or both, comma-separated"
    return Setting(name, inherits, Kind.LIST, choices[0], allowed, doc, canonical)


def flag(name: str, inherits: str, doc: str, *, default: bool = False) -> Setting:
    """True or false."""

    def canonical(text: str) -> str | None:
        word = text.lower()
        return word if word in ("true", "false") else None

    return Setting(name, inherits, Kind.BOOLEAN, str(default).lower(), "true or false", doc, canonical)


def share(name: str, inherits: str, default: float, doc: str) -> Setting:
    """A number from 0 to 1."""

    def canonical(text: str) -> str | None:
        if _DECIMAL.fullmatch(text) is None or not 0 <= float(text) <= 1:
            return None
        return str(float(text))

    return Setting(name, inherits, Kind.DOUBLE, str(default), "a number from 0 to 1", doc, canonical)
