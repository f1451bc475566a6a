"""The settings of this broker as config entries, by Kafka's names. Read-only."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.config_entry import ConfigEntry, Source, Synonym
from penstock.core.setting import INT32_MAX, Kind
from penstock.core.topic_config import BROKER_SETTINGS, describe_coarse
from penstock.node.connections.addresses import Address
from penstock.node.definitions.definition import SettingDefinition, SettingKind
from penstock.node.settings import DEFINITION_OF, DEFINITIONS, Settings
from penstock.node.topic_defaults import kafka_text
from penstock.node.waist.broker_facts import Fact, broker_facts

_PROTOCOL = "PLAINTEXT"
_FACTOR = "default_replication_factor"
LISTENERS = "penstock.listeners"
"""The addresses of all doors, so that a tool that knows one Kafka address finds the others."""


def fixed_entries(
    settings: Settings,
    data_directory: str,
    advertised: Address,
    doors: Mapping[str, Address],
    factor: int = 1,
) -> list[ConfigEntry]:
    """Settings of the broker that cannot be changed at run time. `doors` are the advertised addresses of all doors,
    `factor` is the default replication factor, which may follow from the number of machines."""
    entries = [
        _node_entry(one.kafka, one, data_directory if one.name == "data_dir" else getattr(settings, one.name))
        for one in DEFINITIONS
        if one.kafka is not None and one.kafka not in BROKER_SETTINGS and one.name != _FACTOR
    ]
    entries.append(_factor_entry(factor, is_configured=settings.default_replication_factor == factor))
    own = DEFINITION_OF["node_id"]
    entries.append(_node_entry("broker.id", own, settings.node_id))
    listening = Address(settings.host, settings.port)
    entries.append(_address_entry("listeners", listening, "Where the broker listens."))
    entries.append(
        _address_entry("advertised.listeners", advertised, "Where clients are told to connect to.")
    )
    listed = ",".join(f"{name}://{address}" for name, address in doors.items())
    entries.append(
        _read_only(
            LISTENERS,
            Kind.LIST,
            "Where clients of each protocol are told to connect to.",
            [Synonym(LISTENERS, listed, "configured")],
        )
    )
    entries += [one._replace(is_read_only=True) for one in describe_coarse()]
    entries += [_fact_entry(fact) for fact in broker_facts(settings, factor)]
    return entries


def logger_entries(levels: Mapping[str, str]) -> list[ConfigEntry]:
    """Config entries of the broker's loggers and their levels."""
    return [ConfigEntry(name, level, "logger", None, "", ()) for name, level in levels.items()]


def changed_for_one(entry: ConfigEntry) -> ConfigEntry:
    """A setting changed for all brokers, shown as changed for this broker, which is the only one."""
    synonyms = tuple(one._replace(source=_for_one(one.source)) for one in entry.synonyms)
    return entry._replace(source=_for_one(entry.source), synonyms=synonyms)


def _for_one(source: Source) -> Source:
    return "broker" if source == "changed" else source


def _node_entry(name: str, definition: SettingDefinition, value: object) -> ConfigEntry:
    synonyms = [Synonym(name, kafka_text(definition.default), "default")]
    if value != definition.default:
        synonyms.insert(0, Synonym(name, kafka_text(value), "configured"))
    return _read_only(name, _kind(definition), definition.meaning, synonyms)


def _factor_entry(factor: int, *, is_configured: bool) -> ConfigEntry:
    """The factor that counts: Kafka has no value for one that the cluster chooses."""
    definition = DEFINITION_OF[_FACTOR]
    name = definition.kafka
    assert name is not None
    synonym = Synonym(name, str(factor), "configured" if is_configured else "default")
    return _read_only(name, _kind(definition), definition.meaning, [synonym])


def _address_entry(name: str, address: Address, doc: str) -> ConfigEntry:
    return _read_only(name, Kind.LIST, doc, [Synonym(name, f"{_PROTOCOL}://{address}", "configured")])


def _fact_entry(fact: Fact) -> ConfigEntry:
    if fact.value is None:
        return ConfigEntry(fact.name, None, "default", fact.kind, fact.doc, (), is_read_only=True)
    return _read_only(fact.name, fact.kind, fact.doc, [Synonym(fact.name, fact.value, "default")])


def _read_only(name: str, kind: Kind, doc: str, synonyms: list[Synonym]) -> ConfigEntry:
    first = synonyms[0]
    return ConfigEntry(name, first.value, first.source, kind, doc, tuple(synonyms), is_read_only=True)


def _kind(definition: SettingDefinition) -> Kind:
    if definition.kind is SettingKind.SWITCH:
        return Kind.BOOLEAN
    if definition.kind in (SettingKind.COUNT, SettingKind.BYTES, SettingKind.MS):
        return Kind.INT if definition.high <= INT32_MAX else Kind.LONG
    return Kind.LIST if definition.name == "data_dir" else Kind.STRING


FIXED = frozenset(entry.name for entry in fixed_entries(Settings(), "", Address("", 0), {}))
"""Names of the broker settings that cannot be changed at run time."""
