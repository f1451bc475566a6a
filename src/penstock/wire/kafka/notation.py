"""The notation of message schemas and its parser: text in, schemas out.

    api 1 Fetch 4-18 flexible 12+         number, name, versions, first flexible version (absent: never)
    request                               then `response`; one line per field, structs nested by indentation
      rack_id string 11+ ~

A field is `name type`, then in this order, each if needed:
    type?      may be null wherever it is present; `type?7`: from version 7 on; `[type]` is an array
    4-14, 7+   the versions that have it (absent: every version of the struct around it)
    #0         a tagged field, with its number
    =-1        its default (absent: 0, false, "", empty, or a struct of defaults)
    ~          ignorable: dropped without complaint in versions that lack it
A type with a capital is a struct. Its fields stand below its first mention; later mentions reuse them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

NEVER = 32_767
"""Above all API versions of Kafka: the upper end of an open range."""

FIXED: dict[str, tuple[str, int]] = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""Fixed-width types: struct format and size."""

VARIABLE = ("string", "bytes", "records")
"""Length-prefixed types."""

UUID_ZERO = bytes(16)
"""Kafka's null UUID."""

ZERO: dict[str, bool | float | str | bytes] = {
    "bool": False,
    "float64": 0.0,
    "uuid": UUID_ZERO,
    "string": "",
    "bytes": b"",
    "records": b"",
}
"""Defaults other than the number 0."""

Default = bool | int | float | str | bytes | None

_LINE = re.compile(
    r"(?P<indent> +)(?P<name>\w+) +(?:\[(?P<item>\w+)\]|(?P<type>\w+))(?P<null>\?\d*)?"
    r"(?: (?P<low>\d+)(?:(?P<on>\+)|-(?P<high>\d+))?)?"
    r"(?: #(?P<tag>\d+))?(?: =(?P<default>\S+))?(?P<ignorable> ~)?"
)


class SchemaField(NamedTuple):
    """One field of a struct."""

    name: str
    type: str
    is_array: bool
    struct: Struct | None
    version_min: int
    version_max: int
    null_from: int
    tag: int | None
    default: Default
    is_ignorable: bool

    def present(self, version: int) -> bool:
        """Whether the field is part of this version."""
        return self.version_min <= version <= self.version_max

    def nullable(self, version: int) -> bool:
        """Whether the field may be null in this version."""
        return version >= self.null_from


class Struct:
    """A named sequence of fields."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: list[SchemaField] = []


class Schema:
    """One message with all its versions. `structs` are the nested ones, outer before inner."""

    __slots__ = ("flexible_from", "name", "root", "structs", "version_max", "version_min")

    def __init__(self, name: str, versions: tuple[int, int], flexible_from: int) -> None:
        self.name = name
        self.version_min, self.version_max = versions
        self.flexible_from = flexible_from
        self.root = Struct(name)
        self.structs: dict[str, Struct] = {}

    def fields(self) -> Iterator[SchemaField]:
        """All fields at all levels, each once."""
        yield from self.root.fields
        for struct in self.structs.values():
            yield from struct.fields


def read_schema(name: str, lines: list[str], versions: tuple[int, int], flexible_from: int) -> Schema:
    """Parse the fields of one message."""
    schema = Schema(name, versions, flexible_from)
    open_structs: list[tuple[int, Struct]] = [(0, schema.root)]
    for line in filter(None, lines):
        match = _LINE.fullmatch(line)
        assert match, f"{name}: not a field: {line!r}"
        indent = len(match["indent"])
        while open_structs[-1][0] >= indent:
            open_structs.pop()
        field = _read_field(match, schema.structs)
        open_structs[-1][1].fields.append(field)
        if field.struct is not None:
            open_structs.append((indent, field.struct))
    return schema


def _read_field(match: re.Match[str], structs: dict[str, Struct]) -> SchemaField:
    kind, null = match["item"] or match["type"], match["null"]
    struct = structs.setdefault(kind, Struct(kind)) if kind[0].isupper() else None
    low = int(match["low"] or 0)
    high = NEVER if match["on"] or not match["low"] else int(match["high"] or low)
    return SchemaField(
        name=match["name"],
        type=kind,
        is_array=match["item"] is not None,
        struct=struct,
        version_min=low,
        version_max=high,
        null_from=NEVER if null is None else int(null[1:] or 0),
        tag=None if match["tag"] is None else int(match["tag"]),
        default=_read_default(kind, match["default"]),
        is_ignorable=bool(match["ignorable"]),
    )


def _read_default(kind: str, text: str | None) -> Default:
    if text is None:
        return ZERO.get(kind, 0)
    if text == "null":
        return None
    if kind == "bool":
        return text == "true"
    return int(text)
