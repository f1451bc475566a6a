"""The message payload, the same bytes for every broker."""

from __future__ import annotations

import random
import string

_LETTERS = (string.ascii_letters + string.digits).encode()


def payload(size: int) -> bytes:
    """`size` bytes that hardly compress and contain no line end: the NATS driver counts messages by their lines."""
    return bytes(random.Random(size).choices(_LETTERS, k=size))
