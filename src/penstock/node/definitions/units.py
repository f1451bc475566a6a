"""Parses and formats sizes and durations (`64k`, `1 GiB`, `500ms`, `7d`). Rejects unknown units."""

from __future__ import annotations

import re

_NUMBER_WITH_UNIT = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]+))?\s*([A-Za-z]*)")

BYTES_BY_UNIT = {
    "": 1,
    "b": 1,
    "k": 2**10,
    "kib": 2**10,
    "m": 2**20,
    "mib": 2**20,
    "g": 2**30,
    "gib": 2**30,
    "t": 2**40,
    "tib": 2**40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}
"""A bare letter and the `i` units count in 1024s, `kB` `MB` `GB` `TB` in 1000s. Case does not matter."""

MS_BY_UNIT = {
    "": 1,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}

_BYTES_SHOWN = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_MS_SHOWN = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def parse_bytes(text: str) -> int:
    """`1 GiB` → 1073741824. Raises ValueError."""
    return _parse(text, BYTES_BY_UNIT)


def parse_ms(text: str) -> int:
    """`7d` → 604800000. Raises ValueError."""
    return _parse(text, MS_BY_UNIT)


def show_bytes(value: int) -> str:
    """1073741824 → `1 GiB`; values that are not whole multiples of a unit stay in bytes."""
    return _show(value, _BYTES_SHOWN, "B")


def show_ms(value: int) -> str:
    """604800000 → `7 d`; values that are not whole multiples of a unit stay in milliseconds."""
    return _show(value, _MS_SHOWN, "ms")


def _parse(text: str, units: dict[str, int]) -> int:
    match = _NUMBER_WITH_UNIT.fullmatch(text.strip().replace("_", ""))
    if match is None:
        raise ValueError(f"{text!r} is not a number with a unit")
    sign, whole, fraction, unit = match.group(1), match.group(2), match.group(3) or "", match.group(4).lower()
    if unit not in units:
        raise ValueError(f"{match.group(4)!r} is not a unit")
    scale: int = 10 ** len(fraction)
    value, rest = divmod(int(whole + fraction) * units[unit], scale)
    if rest:
        raise ValueError(f"{text!r} is not a whole number in the smallest unit")
    return -value if sign == "-" else value


def _show(value: int, units: tuple[tuple[str, int], ...], smallest: str) -> str:
    for unit, size in units:
        if value >= size and value % size == 0:
            return f"{value // size} {unit}"
    return f"{value} {smallest}"
