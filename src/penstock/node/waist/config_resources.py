"""The kinds of resources with settings (topics, brokers, loggers, groups, client metrics) and how each is described
and changed.

The catalog validates values, and `configs` checks permissions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from penstock.core.config_entry import ConfigEntry
from penstock.core.errors import InvalidConfig, InvalidRequest
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.config_changes import ConfigChange, ConfigOp
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.catalog.replica_defaults import ISR_SIZE_MIN
from penstock.core.machines.cluster.assignment import default_factor
from penstock.core.machines.cluster.values import KAFKA_LISTENER
from penstock.core.model import check_topic_name
from penstock.core.resource_config import ResourceKind
from penstock.node.broker import Broker
from penstock.node.connections.addresses import Address
from penstock.node.log_levels import check_logger_level, logger_levels, set_logger_level
from penstock.node.waist.broker_configs import FIXED, changed_for_one, fixed_entries, logger_entries

_ALL_BROKERS = ""

NewSettings = Sequence[tuple[str, str | None]]
"""Names and values as sent by a client; duplicate names and missing values are rejected."""


class ConfigResources(Protocol):
    """One kind of resource."""

    def names(self) -> list[str]:
        """The resources of this kind that have settings."""

    def entries(self, name: str) -> list[ConfigEntry]:
        """The settings of one resource."""

    def replace(self, name: str, settings: NewSettings, catalog: Catalog) -> Sequence[Event]:
        """Decide to replace all of its settings."""

    def change(self, name: str, changes: Sequence[ConfigChange], catalog: Catalog) -> Sequence[Event]:
        """Decide to change these settings and leave the others unchanged."""

    def changed(self, name: str, changes: Sequence[ConfigChange]) -> None:
        """Apply a committed change of settings that are not in the catalog."""


class TopicConfigs:
    """Settings of topics."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def names(self) -> list[str]:
        return [topic.name for topic in self._broker.catalog.topics]

    def entries(self, name: str) -> list[ConfigEntry]:
        return self._broker.catalog.describe(check_topic_name(name))

    def replace(self, name: str, settings: NewSettings, catalog: Catalog) -> Sequence[Event]:
        return catalog.decide_set_configs(check_topic_name(name), _overrides(settings))

    def change(self, name: str, changes: Sequence[ConfigChange], catalog: Catalog) -> Sequence[Event]:
        return catalog.decide_alter_configs(check_topic_name(name), changes)

    def changed(self, name: str, changes: Sequence[ConfigChange]) -> None:
        pass  # they are in the catalog


class BrokerConfigs:
    """Settings of this broker or of all brokers, which is the same. Topic defaults can be changed, the others are
    fixed."""

    def __init__(self, broker: Broker, advertised: Callable[[], Address]) -> None:
        self._broker = broker
        self._advertised = advertised

    def names(self) -> list[str]:
        return [str(self._broker.identity.node_id)]

    def entries(self, name: str) -> list[ConfigEntry]:
        self._check(name, "expected {} or empty string, but received {}", "Broker id must be an integer")
        broker = self._broker
        found = broker.catalog.describe_broker()
        if name == _ALL_BROKERS:
            return [_alone(entry) for entry in found if entry.source == "changed"]
        entries = [changed_for_one(entry) for entry in found]
        advertised = self._advertised()
        doors = broker.listeners or {KAFKA_LISTENER: advertised}
        factor = default_factor(broker.catalog.cluster, broker.settings.default_replication_factor)
        entries += fixed_entries(broker.settings, broker.data_directory, advertised, doors, factor)
        return sorted(entries, key=lambda entry: entry.name)

    def replace(self, name: str, settings: NewSettings, catalog: Catalog) -> Sequence[Event]:
        self._check_alter(name)
        _check_changeable(name for name, _ in settings)
        self._check_cluster_wide(name, [one for one, _ in settings], catalog)
        return catalog.decide_set_broker_config(_overrides(settings))

    def change(self, name: str, changes: Sequence[ConfigChange], catalog: Catalog) -> Sequence[Event]:
        self._check_alter(name)
        _check_changeable(one.name for one in changes if one.op is not ConfigOp.DELETE)
        self._check_cluster_wide(name, [one.name for one in changes], catalog)
        return catalog.decide_alter_broker_config(changes)

    def changed(self, name: str, changes: Sequence[ConfigChange]) -> None:
        pass  # they are in the catalog

    def _check_alter(self, name: str) -> None:
        self._check(name, "expected {}, but received {}", "Node id must be an integer")

    def _check_cluster_wide(self, name: str, changed: Sequence[str], catalog: Catalog) -> None:
        """Which replicas hold all committed records depends on this setting, so it must be one for all brokers."""
        if name != _ALL_BROKERS and ISR_SIZE_MIN in changed and catalog.cluster.has_brokers:
            raise InvalidConfig(f"Broker-level {ISR_SIZE_MIN} cannot be altered while ELR is enabled.")

    def _check(self, name: str, mismatch: str, not_a_number: str) -> None:
        node_id = self._broker.identity.node_id
        if name not in (_ALL_BROKERS, str(node_id)):
            _check_number(name, not_a_number)
            raise InvalidRequest(f"Unexpected broker id, {mismatch.format(node_id, name)}")


class LoggerConfigs:
    """Logger levels of this broker. They apply immediately, until the broker stops."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def names(self) -> list[str]:
        return [str(self._broker.identity.node_id)]

    def entries(self, name: str) -> list[ConfigEntry]:
        if not name:
            raise InvalidRequest("Broker id must not be empty")
        self._check(name, "Unexpected broker id, expected {} but received {}", "Broker id must be an integer")
        return logger_entries(logger_levels())

    def replace(self, name: str, settings: NewSettings, catalog: Catalog) -> Sequence[Event]:
        raise InvalidRequest("logger levels can only be changed with IncrementalAlterConfigs")

    def change(self, name: str, changes: Sequence[ConfigChange], catalog: Catalog) -> Sequence[Event]:
        self._check(name, "Unexpected node id. Expected {}, but received {}", "Node id must be an integer")
        for op, logger, level in changes:
            if op in (ConfigOp.APPEND, ConfigOp.SUBTRACT):
                raise InvalidRequest(f"{op.name} operation is not allowed for the BROKER_LOGGER resource")
            if op is ConfigOp.SET and level is None:
                raise InvalidRequest(f"{logger}: the level is missing")
            check_logger_level(logger, None if op is ConfigOp.DELETE else level)
        return ()

    def changed(self, name: str, changes: Sequence[ConfigChange]) -> None:
        for op, logger, level in changes:
            set_logger_level(logger, None if op is ConfigOp.DELETE else level)

    def _check(self, name: str, mismatch: str, not_a_number: str) -> None:
        node_id = self._broker.identity.node_id
        if name != str(node_id):
            _check_number(name, not_a_number)
            raise InvalidRequest(mismatch.format(node_id, name))


class NamedConfigs:
    """Settings of groups, or of client metrics subscriptions. A resource without settings need not exist."""

    def __init__(self, broker: Broker, kind: ResourceKind, unnamed: str, described_unnamed: str) -> None:
        self._broker = broker
        self._kind = kind
        self._unnamed = unnamed
        self._described_unnamed = described_unnamed

    def names(self) -> list[str]:
        return self._broker.catalog.resource_names(self._kind)

    def entries(self, name: str) -> list[ConfigEntry]:
        if not name:
            raise InvalidRequest(self._described_unnamed)
        return self._broker.catalog.describe_resource(self._kind, name)

    def replace(self, name: str, settings: NewSettings, catalog: Catalog) -> Sequence[Event]:
        self._check(name)
        return catalog.decide_set_resource_config(self._kind, name, _overrides(settings))

    def change(self, name: str, changes: Sequence[ConfigChange], catalog: Catalog) -> Sequence[Event]:
        self._check(name)
        return catalog.decide_alter_resource_config(self._kind, name, changes)

    def changed(self, name: str, changes: Sequence[ConfigChange]) -> None:
        pass  # they are in the catalog

    def _check(self, name: str) -> None:
        if not name:
            raise InvalidRequest(self._unnamed)


def group_configs(broker: Broker) -> NamedConfigs:
    return NamedConfigs(
        broker,
        ResourceKind.GROUP,
        "Default group resources are not allowed.",
        "Group name must not be empty",
    )


def client_metrics_configs(broker: Broker) -> NamedConfigs:
    return NamedConfigs(
        broker,
        ResourceKind.CLIENT_METRICS,
        "Default client metrics resources are not allowed.",
        "Client metrics subscription name must not be empty",
    )


def check_settings_once(names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidRequest(f"{name} is set more than once")


def _overrides(settings: NewSettings) -> dict[str, str | None]:
    check_settings_once(name for name, _ in settings)
    for name, value in settings:
        if value is None:
            raise InvalidRequest(f"Null value not supported for : {name}")
    return dict(settings)


def _alone(entry: ConfigEntry) -> ConfigEntry:
    """An entry of all brokers: only the value that was set, without its defaults."""
    return entry._replace(synonyms=entry.synonyms[:1])


def _check_number(name: str, complaint: str) -> None:
    if not name.removeprefix("-").isdecimal():
        raise InvalidRequest(f"{complaint}, but it is: {name}")


def _check_changeable(names: Iterable[str]) -> None:
    fixed = [name for name in names if name in FIXED]
    if fixed:
        raise InvalidRequest(
            f"Cannot update these configs dynamically: [{', '.join(fixed)}];"
            " change them in the broker's configuration and restart it"
        )
