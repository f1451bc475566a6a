"""What a fuzz target is, and how bytes are broken. Never random by itself: callers seed it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

NASTY = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff",
    b"\x80\x80\x80\x80\x08",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\x80\x00\x00\x00",
    b"\x7f\xff",
    b"\xff\xfe",
    b"\x00",
    b"\x01",
    b"\x7f",
)


class Target(NamedTuple):
    """One reader of bytes.

    `make` gives a valid input. `read` reads any input and returns a word for what came of it; whatever it raises
    is a finding.
    """

    name: str
    make: Callable[[Random], bytes]
    read: Callable[[bytes], str]


def broken(content: bytes, rng: Random) -> bytes:
    """One to three blows: cut, flip, overwrite, insert, delete, repeat, or all random."""
    out = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(7):
            case 0:
                del out[at:]
            case 1 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 2:
                nasty = rng.choice(NASTY)
                out[at : at + len(nasty)] = nasty
            case 3:
                out[at:at] = rng.choice(NASTY)
            case 4:
                del out[at : at + rng.randint(1, 8)]
            case 5:
                out[at : at + 8] = rng.randbytes(rng.randint(0, 16))
            case 6:
                out[at:at] = out[at : at + rng.randint(1, 64)]
    return bytes(out)


def spliced(first: bytes, second: bytes, rng: Random) -> bytes:
    """The head of one input and the tail of another."""
    return first[: rng.randrange(len(first) + 1)] + second[rng.randrange(len(second) + 1) :]
