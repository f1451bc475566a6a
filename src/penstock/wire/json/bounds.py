"""Bounds the number of values in a JSON text before it is decoded."""

from __future__ import annotations

from penstock.core.errors import TooLarge

_STARTS = b",[{"
"""Every value but the first follows one of these."""


def check_values(content: bytes, values_max: int, what: str) -> None:
    """Raise TooLarge if decoding would create more values. Invalid JSON may pass."""
    if _starts(content) <= values_max:
        return
    plain = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') <= 4 * values_max:  # each value is at most one string, plus one for its name
        outside = b"".join(plain.split(b'"')[::2])
        if _starts(outside) <= values_max:
            return
    raise TooLarge(f"{what} has more than {values_max} JSON values; send several smaller requests")


def _starts(content: bytes) -> int:
    """Counts by deleting them, which takes the same time however many there are."""
    return len(content) - len(content.translate(None, _STARTS))
