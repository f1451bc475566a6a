"""Memory that the C library keeps for itself after its blocks were freed. Never frees anything that is in use.

The first buffers of connections lie in glibc's heap between longer-lived blocks, so the pages of 5,200 connections that
have left stay with the process (145 MB, 42 MB once trimmed).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable


def _find_trim() -> Callable[[int], int] | None:
    """glibc's `malloc_trim`; other C libraries have none and need none."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return trim


_trim = _find_trim()


def trim_heap() -> None:
    """Return free pages to the system. Costs milliseconds."""
    if _trim is not None:
        _trim(0)
