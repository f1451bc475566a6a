"""The bytes that every runner carries. Never differs between them."""

from __future__ import annotations

import random
import string

_LETTERS = (string.ascii_letters + string.digits).encode()


def payload(size: int) -> bytes:
    """`size` bytes that hardly compress and hold no line end, so that lines may be counted around them."""
    return bytes(random.Random(size).choices(_LETTERS, k=size))
