"""JSON objects with one long list of encoded elements, as chunks that are never joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def list_between(
    encode: Callable[[Any], bytes],
    before: Mapping[str, Any],
    name: str,
    pieces: Sequence[bytes],
    after: Mapping[str, Any],
) -> list[bytes]:
    """One object: the fields of `before`, a list, the fields of `after`. A piece is some elements with their commas."""
    parts = [encode(before)[:-1] + b',"%b":[' % name.encode()]
    for number, piece in enumerate(pieces):
        if number:
            parts.append(b",")
        parts.append(piece)
    parts.append(b"]," + encode(after)[1:])
    return parts
