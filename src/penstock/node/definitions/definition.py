"""The definition of a setting: name, kind, default, bounds, meaning. Holds no values; the sections list the
settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from enum import Enum, StrEnum
from typing import Any, NamedTuple

from penstock.core.topic_config import BROKER_SETTINGS

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
TOPIC_DEFAULT, NODE = "topic default", "node"


class SettingKind(Enum):
    """The type of a setting's value, which decides how it is parsed and shown."""

    TEXT = "text"
    URL = "url"
    HOST = "host"
    PORT = "port"
    COUNT = "count"
    BYTES = "bytes"
    MS = "ms"
    SWITCH = "switch"
    CHOICE = "choice"


class SettingDefinition(NamedTuple):
    """Everything about one setting except its value."""

    name: str
    section: str
    kind: SettingKind
    default: Any
    meaning: str
    low: int = 0
    high: int = INT64_MAX
    special: int | None = None
    choices: type[StrEnum] | None = None
    aliases: tuple[str, ...] = ()
    """Alternative keys in files, in snake case; `storage.dir` is accepted inside `storage:` only."""
    kafka: str | None = None
    may_be_empty: bool = False
    check: Callable[[str], object] | None = None
    """Parses a text further. Raises InvalidConfig, whose message is shown and repeats no password."""
    metavar: str = ""
    """What the help of a flag shows instead of the kind's word."""

    @property
    def unit(self) -> str:
        """The unit of a stored value; empty if there is none."""
        return {SettingKind.BYTES: "bytes", SettingKind.MS: "ms"}.get(self.kind, "")

    @property
    def scope(self) -> str:
        """Who owns the setting. A topic default belongs to the cluster: the node only contributes its value at
        start."""
        return TOPIC_DEFAULT if self.kafka in BROKER_SETTINGS else NODE

    @property
    def may_be_off(self) -> bool:
        return self.kind is SettingKind.PORT or self.default is None

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return "PENSTOCK_" + self.name.upper()

    @property
    def allowed(self) -> str:
        """A phrase that describes the accepted values."""
        if self.choices is not None:
            return " or ".join(member.value for member in self.choices)
        if self.kind is SettingKind.SWITCH:
            return "on or off"
        if self.kind in (SettingKind.TEXT, SettingKind.URL):
            noun = "a URL" if self.kind is SettingKind.URL else "printable text"
            return noun + ("" if self.may_be_empty else ", or off" if self.may_be_off else ", not empty")
        if self.kind is SettingKind.HOST:
            return "a host name or address without a port" + (", or nothing" if self.may_be_empty else "")
        if self.kind is SettingKind.PORT:
            return f"a port from {self.low} to {self.high}, 0 for a free one, or off"
        return self._allowed_number()

    def _allowed_number(self) -> str:
        noun = {
            SettingKind.COUNT: "a whole number",
            SettingKind.BYTES: "a size such as 65536, 64k or 1 GiB,",
            SettingKind.MS: "a time such as 500ms, 30s or 7d,",
        }[self.kind]
        bounds = f"at least {self.low}" if self.high == INT64_MAX else f"from {self.low} to {self.high}"
        unit = f" {self.unit}" if self.unit else ""
        special = f", or {self.special}" if self.special is not None else ""
        return f"{noun} {bounds}{unit}{special}"


def define_setting(kind: SettingKind, section: str, default: Any, meaning: str, **more: Any) -> Any:
    """A dataclass field that carries its definition; the name is filled in from the class."""
    return field(default=default, metadata={"kind": kind, "section": section, "meaning": meaning, **more})


def count_setting(section: str, default: int, meaning: str, **more: Any) -> Any:
    return define_setting(SettingKind.COUNT, section, default, meaning, **more)


def port_setting(default: int, protocol: str) -> Any:
    meaning = f"Port of the {protocol} protocol; 0 picks a free port, off disables it."
    return define_setting(SettingKind.PORT, "server", default, meaning, high=65535)


def size_setting(section: str, default: int, meaning: str, **more: Any) -> Any:
    return define_setting(SettingKind.BYTES, section, default, meaning, **more)


def duration_setting(section: str, default: int, meaning: str, **more: Any) -> Any:
    return define_setting(SettingKind.MS, section, default, meaning, **more)
