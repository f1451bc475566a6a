"""Topic names with wildcards: `orders-*` and `log.?`. Topic names never contain these characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.apps.cli.failures import ObjectNotFound

if TYPE_CHECKING:
    from confluent_kafka import Consumer

WILDCARDS = {"*": ".*", "?": "."}
_INTERNAL = "__"


def is_pattern(word: str) -> bool:
    return any(wildcard in word for wildcard in WILDCARDS)


def pattern_regex(pattern: str) -> str:
    """As client libraries take it: a leading `^` makes a subscription a regular expression."""
    return "^" + "".join(WILDCARDS.get(char) or re.escape(char) for char in pattern) + "$"


def topics_matching(words: Sequence[str], known: Iterable[str]) -> list[str]:
    """The names among the words, and what matches the patterns, each once. Raises ObjectNotFound.

    Internal topics match only a pattern that starts with two underscores.
    """
    names = sorted(known)
    found: list[str] = []
    for word in words:
        if not is_pattern(word):
            found.append(word)
            continue
        regex = re.compile(pattern_regex(word))
        with_internal = word.startswith(_INTERNAL)
        matches = [
            name for name in names if regex.match(name) and (with_internal or not name.startswith(_INTERNAL))
        ]
        if not matches:
            raise ObjectNotFound(f"No topic matches {word!r}. See `penstock topic list`.")
        found += matches
    return list(dict.fromkeys(found))


def expand_topics(consumer: Consumer, words: Sequence[str], bootstrap: str) -> list[str]:
    """The same with the topics of the broker, which is asked only if there is a pattern."""
    from confluent_kafka import KafkaException

    from penstock.apps.cli.client import REQUEST_SECONDS_MAX, failure_of

    if not any(map(is_pattern, words)):
        return list(dict.fromkeys(words))
    try:
        known = consumer.list_topics(timeout=REQUEST_SECONDS_MAX).topics
    except KafkaException as error:
        raise failure_of(error.args[0], bootstrap) from error
    return topics_matching(words, known)
