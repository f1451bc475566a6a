"""Parses the written value of a setting and formats it back. Independent of where the value came from."""

from __future__ import annotations

import re
from typing import Any

from penstock.node.definitions.definition import SettingDefinition, SettingKind
from penstock.node.definitions.units import parse_bytes, parse_ms, show_bytes, show_ms

_SWITCH_VALUES = {
    "on": True,
    "true": True,
    "yes": True,
    "1": True,
    "off": False,
    "false": False,
    "no": False,
    "0": False,
}
OFF = "off"
"""The value of a setting that is not set or a port that is disabled; YAML parses the bare word as a boolean."""
_LOGIN = re.compile(r"(?<=://).*@")
_HOST = re.compile(r"[A-Za-z0-9._:%-]+")


def read_value(definition: SettingDefinition, raw: object) -> Any:
    """Parse a value from a file, a variable or a flag. Raises ValueError, or InvalidConfig with its own message."""
    if definition.choices is not None:
        return definition.choices(_text(raw).strip().lower())
    if definition.kind is SettingKind.SWITCH:
        return _switch(raw)
    if definition.may_be_off and _is_off(raw):
        return None
    if definition.kind in (SettingKind.TEXT, SettingKind.URL):
        return _checked(definition, _printable(raw, definition.may_be_empty))
    if definition.kind is SettingKind.HOST:
        return _host(raw, definition.may_be_empty)
    return _within(definition, _number(definition.kind, raw))


def show_value(definition: SettingDefinition, value: Any) -> str:
    """Format a value for people: `1 GiB`, `7 d`, `on`."""
    if definition.special is not None and value == definition.special:
        return str(value)
    if value is None:
        return OFF
    if definition.kind is SettingKind.URL:
        return without_login(value)
    if definition.kind is SettingKind.BYTES:
        return show_bytes(value)
    if definition.kind is SettingKind.MS:
        return show_ms(value)
    if definition.kind is SettingKind.SWITCH:
        return "on" if value else "off"
    return str(value)


def plain_value(definition: SettingDefinition, value: Any) -> str | int | bool:
    """Format a value for JSON."""
    if value is None or definition.kind is SettingKind.URL:
        return show_value(definition, value)
    return value if isinstance(value, bool | int) else str(value)


def without_login(url: str) -> str:
    """`etcd://user:password@host` → `etcd://***@host`, for everything that people see."""
    return _LOGIN.sub("***@", url)


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise ValueError("not text")
    return raw


def _printable(raw: object, may_be_empty: bool) -> str:
    text = _text(raw)
    if not text.isprintable() or not (text.strip() or may_be_empty):
        raise ValueError("empty or not printable")
    return text


def _checked(definition: SettingDefinition, text: str) -> str:
    if definition.check is not None:
        definition.check(text)
    return text


def _host(raw: object, may_be_empty: bool) -> str:
    text = _text(raw).strip()
    if not text and may_be_empty:
        return text
    if not _HOST.fullmatch(text) or text.count(":") == 1:
        raise ValueError("not a host")
    return text


def _switch(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    text = str(raw).strip().lower()
    if text not in _SWITCH_VALUES:
        raise ValueError("not a switch")
    return _SWITCH_VALUES[text]


def _is_off(raw: object) -> bool:
    return raw is False or (isinstance(raw, str) and raw.strip().lower() == OFF)


def _number(kind: SettingKind, raw: object) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    text = _text(raw)
    if kind is SettingKind.BYTES:
        return parse_bytes(text)
    if kind is SettingKind.MS:
        return parse_ms(text)
    return int(text)


def _within(definition: SettingDefinition, value: int) -> int:
    if value != definition.special and not definition.low <= value <= definition.high:
        raise ValueError("out of bounds")
    return value
