"""Subscription regular expressions in RE2 syntax, as in Kafka: linear time and bounded memory."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from penstock.core.errors import InvalidRegex
from penstock.core.limits import TOPIC_REGEX_CHARS_MAX, TOPIC_REGEX_MEMORY_BYTES


def matching_topics(regex: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that the expression matches in full, in order. Raises InvalidRegex."""
    matches = _compile(regex).fullmatch
    return tuple(name for name in names if matches(name) is not None)


def check_regex(regex: str) -> None:
    """Raises InvalidRegex with the reason."""
    _compile(regex)


def _compile(regex: str) -> re2._Regexp:
    if len(regex) > TOPIC_REGEX_CHARS_MAX:
        raise InvalidRegex(
            f"a regular expression has at most {TOPIC_REGEX_CHARS_MAX} characters, got {len(regex)}"
        )
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = TOPIC_REGEX_MEMORY_BYTES
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "invalid syntax"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidRegex(
            f"SubscribedTopicRegex {regex!r} is not a valid regular expression: {text}"
        ) from None
