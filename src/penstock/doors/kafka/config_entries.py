"""Settings as DescribeConfigs tells them: value, source, type, synonyms. Never changes one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.core.config_entry import ConfigEntry, Source
from penstock.core.machines.catalog import Catalog
from penstock.core.machines.catalog_events import Topic
from penstock.core.setting import INT32_MAX, Kind
from penstock.core.topic_config import BROKER_SETTINGS, describe_coarse
from penstock.doors.kafka.broker_facts import Fact, broker_facts
from penstock.node.addresses import Address
from penstock.node.definition import Definition
from penstock.node.definition import Kind as NodeKind
from penstock.node.inherited import kafka_text
from penstock.node.settings import DEFINITION_OF, DEFINITIONS, Settings
from penstock.wire.kafka import messages

DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, STATIC_BROKER, DEFAULT = 1, 2, 3, 4, 5
DYNAMIC_BROKER_LOGGER, CLIENT_METRICS, GROUP = 6, 7, 8
"""Kafka's numbers for where a value comes from."""

_SOURCES: dict[Source, int] = {
    "topic": DYNAMIC_TOPIC,
    "group": GROUP,
    "client-metrics": CLIENT_METRICS,
    "changed": DYNAMIC_DEFAULT_BROKER,
    "configured": STATIC_BROKER,
    "default": DEFAULT,
}
_TYPES = {
    Kind.BOOLEAN: 1,
    Kind.STRING: 2,
    Kind.INT: 3,
    Kind.SHORT: 4,
    Kind.LONG: 5,
    Kind.DOUBLE: 6,
    Kind.LIST: 7,
}
_UNKNOWN_TYPE = 0

_PROTOCOL = "PLAINTEXT"


class Given(NamedTuple):
    """One place that gives a value to a setting; the first of several wins."""

    name: str
    value: str
    source: int


class Entry(NamedTuple):
    """One setting of one resource. No value: it is unset."""

    name: str
    type: int
    documentation: str
    is_read_only: bool
    value: str | None
    source: int
    given: tuple[Given, ...]


def inherited_entries(
    found: list[ConfigEntry], changed_as: int = DYNAMIC_DEFAULT_BROKER, *, is_read_only: bool = False
) -> list[Entry]:
    """Settings that live in the catalog. `changed_as`: the source of what was changed for the broker at run time."""
    sources = _SOURCES | {"changed": changed_as}
    return [
        Entry(
            one.name,
            _TYPES[one.type],
            one.doc,
            is_read_only,
            one.value,
            sources[one.source],
            tuple(Given(synonym.name, synonym.value, sources[synonym.source]) for synonym in one.synonyms),
        )
        for one in found
    ]


def fixed_entries(settings: Settings, data_directory: str, advertised: Address) -> list[Entry]:
    """Settings of the broker that stay as they are while it runs."""
    entries = [
        _node_entry(one.kafka, one, data_directory if one.name == "data_dir" else getattr(settings, one.name))
        for one in DEFINITIONS
        if one.kafka is not None and one.kafka not in BROKER_SETTINGS
    ]
    own = DEFINITION_OF["node_id"]
    entries.append(_node_entry("broker.id", own, settings.node_id))
    listening = Address(settings.host, settings.port)
    entries.append(_address_entry("listeners", listening, "Where the broker listens."))
    entries.append(
        _address_entry("advertised.listeners", advertised, "Where clients are told to connect to.")
    )
    entries += inherited_entries(describe_coarse(), is_read_only=True)
    entries += [_fact_entry(fact) for fact in broker_facts(settings)]
    return entries


def logger_entries(levels: Mapping[str, str]) -> list[Entry]:
    """Loggers of the broker and their levels."""
    return [
        Entry(name, _UNKNOWN_TYPE, "", False, level, DYNAMIC_BROKER_LOGGER, ())
        for name, level in levels.items()
    ]


def _node_entry(name: str, definition: Definition, value: object) -> Entry:
    given = [Given(name, kafka_text(definition.default), DEFAULT)]
    if value != definition.default:
        given.insert(0, Given(name, kafka_text(value), STATIC_BROKER))
    return _read_only(name, _kind(definition), definition.meaning, given)


def _address_entry(name: str, address: Address, documentation: str) -> Entry:
    given = Given(name, f"{_PROTOCOL}://{address}", STATIC_BROKER)
    return _read_only(name, Kind.LIST, documentation, [given])


def _fact_entry(fact: Fact) -> Entry:
    if fact.value is None:
        return Entry(fact.name, _TYPES[fact.kind], fact.doc, True, None, DEFAULT, ())
    return _read_only(fact.name, fact.kind, fact.doc, [Given(fact.name, fact.value, DEFAULT)])


def _read_only(name: str, kind: Kind, documentation: str, given: list[Given]) -> Entry:
    return Entry(name, _TYPES[kind], documentation, True, given[0].value, given[0].source, tuple(given))


def _kind(definition: Definition) -> Kind:
    if definition.kind is NodeKind.SWITCH:
        return Kind.BOOLEAN
    if definition.kind in (NodeKind.COUNT, NodeKind.BYTES, NodeKind.MS):
        return Kind.INT if definition.high <= INT32_MAX else Kind.LONG
    return Kind.LIST if definition.name == "data_dir" else Kind.STRING


FIXED = frozenset(entry.name for entry in fixed_entries(Settings(), "", Address("", 0)))
"""The names of the broker settings that no request can change."""


def described(
    entry: Entry, *, synonyms: bool, documentation: bool
) -> messages.DescribeConfigsResponse.DescribeConfigsResourceResult:
    """One line of an answer to DescribeConfigs."""
    given = entry.given if synonyms else ()
    return messages.DescribeConfigsResponse.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=False,
        synonyms=[
            messages.DescribeConfigsResponse.DescribeConfigsSynonym(
                name=one.name, value=one.value, source=one.source
            )
            for one in given
        ],
        config_type=entry.type,
        documentation=entry.documentation if documentation else None,
    )


class CreatedConfigs:
    """The settings of new topics, as CreateTopics answers with them; topics that are set alike share one list."""

    def __init__(self) -> None:
        self._made: dict[tuple[tuple[str, str], ...], list[Any]] = {}

    def of(self, topic: Topic, catalog: Catalog) -> list[messages.CreateTopicsResponse.CreatableTopicConfigs]:
        key = tuple(sorted(topic.overrides.items()))
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = [
                messages.CreateTopicsResponse.CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=False,
                    config_source=entry.source,
                    is_sensitive=False,
                )
                for entry in inherited_entries(catalog.describe(topic.name))
            ]
        return made
