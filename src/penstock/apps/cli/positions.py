"""Start positions: the grammar of `sub --from`. Never calls a broker; `topic_offsets` resolves them to offsets."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from penstock.node.definitions.units import parse_ms

GRAMMAR = (
    "earliest, latest, an offset such as 42, -5 for five before the end, @2026-01-01T00:00, @-1h, or @ with"
    " milliseconds since 1970"
)


class Earliest(NamedTuple):
    """The oldest existing record."""


class Latest(NamedTuple):
    """Only new records."""


class AtOffset(NamedTuple):
    """The record at this offset."""

    offset: int


class BeforeEnd(NamedTuple):
    """So many offsets before the end of each partition, or its oldest record."""

    offsets: int


class AtTime(NamedTuple):
    """The first record with this timestamp or a later one."""

    timestamp_ms: int


Start = Earliest | Latest | AtOffset | BeforeEnd | AtTime


def parse_start(text: str, now_ms: int) -> Start:
    """Parse a `--from` value. A date without a zone is local time. Raises ValueError with the grammar."""
    word = text.strip()
    if word == "earliest":
        return Earliest()
    if word == "latest":
        return Latest()
    if word.isascii() and word.isdecimal():
        return AtOffset(int(word))
    if word.startswith("-") and word.isascii() and word[1:].isdecimal():
        return BeforeEnd(int(word[1:]))
    if word.startswith("@"):
        return AtTime(_moment_ms(word[1:], text, now_ms))
    raise _not_a_start(text)


def _moment_ms(moment: str, text: str, now_ms: int) -> int:
    if moment.isascii() and moment.isdecimal():
        return int(moment)
    try:
        if moment.startswith("-"):
            return _before_ms(moment[1:], now_ms)
        return int(datetime.fromisoformat(moment).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise _not_a_start(text) from error


def _before_ms(span: str, now_ms: int) -> int:
    if not span[:1].isdecimal():
        raise ValueError(span)
    return max(0, now_ms - parse_ms(span))


def _not_a_start(text: str) -> ValueError:
    return ValueError(f"{text!r} is not a valid start position; allowed: {GRAMMAR}.")
