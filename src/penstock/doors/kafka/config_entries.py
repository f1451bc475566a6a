"""Encodes config entries for DescribeConfigs and CreateTopics: value, source, type, synonyms."""

from __future__ import annotations

from typing import Any

from penstock.core.config_entry import ConfigEntry, Source
from penstock.core.setting import Kind
from penstock.wire.kafka import messages

_SOURCES: dict[Source, int] = {
    "topic": 1,
    "broker": 2,
    "changed": 3,
    "configured": 4,
    "default": 5,
    "logger": 6,
    "client-metrics": 7,
    "group": 8,
}
"""Kafka's config sources."""
_TYPES: dict[Kind | None, int] = {
    None: 0,
    Kind.BOOLEAN: 1,
    Kind.STRING: 2,
    Kind.INT: 3,
    Kind.SHORT: 4,
    Kind.LONG: 5,
    Kind.DOUBLE: 6,
    Kind.LIST: 7,
}


def described(
    entry: ConfigEntry, *, synonyms: bool, documentation: bool
) -> messages.DescribeConfigsResponse.DescribeConfigsResourceResult:
    """One entry of a DescribeConfigs response."""
    return messages.DescribeConfigsResponse.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=_SOURCES[entry.source],
        is_sensitive=False,
        synonyms=[
            messages.DescribeConfigsResponse.DescribeConfigsSynonym(
                name=one.name, value=one.value, source=_SOURCES[one.source]
            )
            for one in (entry.synonyms if synonyms else ())
        ],
        config_type=_TYPES[entry.type],
        documentation=entry.doc if documentation else None,
    )


class CreatedConfigs:
    """The settings of new topics in CreateTopics responses; topics with equal settings share one list."""

    def __init__(self) -> None:
        self._made: dict[int, list[Any]] = {}

    def of(self, entries: list[ConfigEntry]) -> list[messages.CreateTopicsResponse.CreatableTopicConfigs]:
        made = self._made.get(id(entries))
        if made is None:
            made = self._made[id(entries)] = [
                messages.CreateTopicsResponse.CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=False,
                    config_source=_SOURCES[entry.source],
                    is_sensitive=False,
                )
                for entry in entries
            ]
        return made
