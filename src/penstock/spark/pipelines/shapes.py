"""Parses plain values (from YAML or Python) into dataclasses and collects every error. Knows nothing about pipelines.

A key of a definition is a dataclass field declared with `item`: its reader validates one value.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from penstock.spark.pipelines.problems import Problems

Shape = TypeVar("Shape")
Reader = Callable[[object, str, Problems], Any]
"""(raw value, its path, problem collector) → typed value, or None after an error."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_MS_BY_UNIT = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


def item(reader: Reader, meaning: str, **default: Any) -> Any:
    """Declare a key of a definition. Without a default it is required."""
    return dataclasses.field(metadata={"reader": reader, "meaning": meaning}, **default)


def read_shape(shape: type[Shape], raw: object, path: str, problems: Problems) -> Shape | None:
    """Parse a mapping into a dataclass of `item`s. None if it has errors."""
    if not isinstance(raw, Mapping):
        problems.add(
            path,
            f"expected a mapping, found {_described(raw)}.",
            f"Keys: {', '.join(field.name for field in _items(shape))}.",
        )
        return None
    before = len(problems.found)
    known = {field.name: field for field in _items(shape)}
    for name in raw:
        if not isinstance(name, str) or name not in known:
            problems.unknown(joined(path, name), str(name), known, "key")
    values = {}
    for name, field in known.items():
        if name in raw:
            values[name] = field.metadata["reader"](raw[name], joined(path, name), problems)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            problems.add(joined(path, name), "is missing.", f"It sets {field.metadata['meaning']}.")
    return shape(**values) if len(problems.found) == before else None


def joined(path: str, name: object) -> str:
    """The path of a key."""
    return f"{path}.{name}" if path else str(name)


def _items(shape: Any) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(shape) if "reader" in field.metadata]


def nested(shape: type) -> Reader:
    """A nested mapping."""
    return lambda raw, path, problems: read_shape(shape, raw, path, problems)


def listed(shape: type) -> Reader:
    """A list of mappings."""

    def read(raw: object, path: str, problems: Problems) -> tuple[Any, ...]:
        if not isinstance(raw, list | tuple):
            problems.add(path, f"expected a list, found {_described(raw)}.")
            return ()
        return tuple(read_shape(shape, one, f"{path}[{index}]", problems) for index, one in enumerate(raw))

    return read


def text(raw: object, path: str, problems: Problems) -> str | None:
    if isinstance(raw, str) and raw.strip():
        return raw.strip()
    problems.add(path, f"expected text, found {_described(raw)}.")
    return None


def names(raw: object, path: str, problems: Problems) -> tuple[str, ...]:
    """One name or a list of them."""
    given = [raw] if isinstance(raw, str) else raw
    if not isinstance(given, list | tuple) or not given:
        problems.add(path, f"expected a name or a list of names, found {_described(raw)}.")
        return ()
    for index, one in enumerate(given):
        text(one, f"{path}[{index}]" if len(given) > 1 else path, problems)
    if len(set(map(str, given))) != len(given):
        problems.add(path, "contains a duplicate.")
    return tuple(str(one) for one in given)


def pairs(raw: object, path: str, problems: Problems) -> dict[str, str]:
    """A mapping of names to text; numbers and booleans are converted to text."""
    if not isinstance(raw, Mapping):
        problems.add(path, f"expected a mapping of names to text, found {_described(raw)}.")
        return {}
    for name, value in raw.items():
        if isinstance(value, Mapping | list) or value is None:
            problems.add(f"{path}.{name}", f"expected text, found {_described(value)}.")
    return {
        str(name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in raw.items()
    }


def count(raw: object, path: str, problems: Problems) -> int | None:
    if isinstance(raw, int) and not isinstance(raw, bool) and raw > 0:
        return raw
    problems.add(path, f"expected an integer above 0, found {_described(raw)}.")
    return None


def restarts(raw: object, path: str, problems: Problems) -> int | None:
    """An integer from 0, or `unlimited` → None."""
    if raw == "unlimited":
        return None
    if isinstance(raw, int) and not isinstance(raw, bool) and raw >= 0:
        return raw
    problems.add(path, f"expected an integer from 0, found {_described(raw)}.", "Or write unlimited.")
    return None


def switch(raw: object, path: str, problems: Problems) -> bool | None:
    if isinstance(raw, bool):
        return raw
    problems.add(path, f"expected true or false, found {_described(raw)}.")
    return None


def one_of(*choices: str) -> Reader:
    """One of a few values."""

    def read(raw: object, path: str, problems: Problems) -> str | None:
        if raw in choices:
            return str(raw)
        problems.unknown(path, str(raw), choices, "value")
        return None

    return read


def duration(raw: object, path: str, problems: Problems) -> int | None:
    """`10s`, `5 minutes`, `1h 30m` → milliseconds."""
    content = str(raw).strip().lower()
    parts = _DURATION.findall(content)
    is_whole = isinstance(raw, str) and parts and not _DURATION.sub("", content).strip()
    if is_whole and all(unit in _MS_BY_UNIT for _, unit in parts):
        return round(sum(float(number) * _MS_BY_UNIT[unit] for number, unit in parts))
    problems.add(path, f"expected a duration, found {_described(raw)}.", "Write 500ms, 10s, 5m, 2h or 7d.")
    return None


def function(raw: object, path: str, problems: Problems) -> Any:
    """A callable (from Python) or `module:name` (from a file), which is imported later."""
    if callable(raw):
        return raw
    if isinstance(raw, str) and raw.count(":") == 1:
        return raw
    problems.add(path, f"expected a function, found {_described(raw)}.", "Write module:name.")
    return None


def _described(raw: object) -> str:
    if raw is None:
        return "nothing"
    kinds = {bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "a mapping"}
    shown = repr(raw)
    return (
        shown
        if isinstance(raw, str) and len(shown) < 60
        else f"{kinds.get(type(raw), type(raw).__name__)} ({shown[:40]})"
    )
