"""Verbs for settings of all kinds of resources: describe, replace, change, list. The catalog validates values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple

from penstock.core.access import CLUSTER, Operation, Resource, group_resource, topic_resource
from penstock.core.config_entry import ConfigEntry as ConfigEntry
from penstock.core.errors import BrokerError
from penstock.core.machines.catalog.config_changes import ConfigChange as ConfigChange
from penstock.core.machines.catalog.config_changes import ConfigOp as ConfigOp
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.connections.addresses import Address
from penstock.node.runtime.slices import Pace
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.changes import Changes, Step
from penstock.node.waist.config_resources import (
    BrokerConfigs,
    ConfigResources,
    LoggerConfigs,
    NewSettings,
    TopicConfigs,
    client_metrics_configs,
    group_configs,
)


class ConfigKind(Enum):
    """Kinds of resources with settings."""

    TOPIC = "topic"
    BROKER = "broker"
    LOGGER = "logger"
    CLIENT_METRICS = "client-metrics"
    GROUP = "group"


class Replacement(NamedTuple):
    """Replaces all settings of a resource: settings that are not named revert to their defaults."""

    kind: ConfigKind
    name: str
    settings: NewSettings


class Alteration(NamedTuple):
    """Changes some settings of a resource; the others stay unchanged."""

    kind: ConfigKind
    name: str
    changes: Sequence[ConfigChange]


class ConfigVerbs:
    """Describes and changes settings."""

    def __init__(
        self, broker: Broker, authorization: Authorization, advertised: Callable[[], Address]
    ) -> None:
        self._authorization = authorization
        self._changes = Changes(broker)
        self._resources: dict[ConfigKind, ConfigResources] = {
            ConfigKind.TOPIC: TopicConfigs(broker),
            ConfigKind.BROKER: BrokerConfigs(broker, advertised),
            ConfigKind.LOGGER: LoggerConfigs(broker),
            ConfigKind.CLIENT_METRICS: client_metrics_configs(broker),
            ConfigKind.GROUP: group_configs(broker),
        }

    def describe(self, session: Session, kind: ConfigKind, name: str) -> list[ConfigEntry]:
        """Every setting of one resource: its value, source and synonyms."""
        self._authorization.authorize(session, Operation.DESCRIBE_CONFIGS, _resource(kind, name))
        return self._resources[kind].entries(name)

    def names(self, session: Session, kind: ConfigKind) -> list[str]:
        """The resources of a kind that have settings."""
        self._authorization.authorize(session, Operation.DESCRIBE_CONFIGS, CLUSTER)
        return self._resources[kind].names()

    async def alter_all(
        self,
        session: Session,
        wanted: Sequence[Replacement | Alteration | BrokerError],
        *,
        validate_only: bool = False,
    ) -> list[BrokerError | None]:
        """Change settings of resources, each with its own outcome. An error in place of a change is its outcome."""
        steps: list[Step | BrokerError] = []
        pace = Pace()
        for one in wanted:
            steps.append(self._step(session, one))
            await pace.spend(1)
        errors = (await self._changes.commit(steps, validate_only=validate_only)).errors
        if not validate_only:
            for one, error in zip(wanted, errors, strict=True):
                if error is None and isinstance(one, Alteration):
                    self._resources[one.kind].changed(one.name, one.changes)
                await pace.spend(1)
        return errors

    def _step(self, session: Session, wanted: Replacement | Alteration | BrokerError) -> Step | BrokerError:
        if isinstance(wanted, BrokerError):
            return wanted
        try:
            resource = _resource(wanted.kind, wanted.name)
            self._authorization.authorize(session, Operation.ALTER_CONFIGS, resource)
        except BrokerError as error:
            return error
        resources = self._resources[wanted.kind]
        if isinstance(wanted, Replacement):
            return partial(resources.replace, wanted.name, wanted.settings)
        return partial(resources.change, wanted.name, wanted.changes)


def _resource(kind: ConfigKind, name: str) -> Resource:
    """The resource to authorize: settings of brokers, loggers and client metrics belong to the cluster."""
    if kind is ConfigKind.TOPIC:
        return topic_resource(name)
    return group_resource(name) if kind is ConfigKind.GROUP else CLUSTER
