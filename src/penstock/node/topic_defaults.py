"""The node settings that topics and groups inherit, by Kafka's names. Maps between the two vocabularies."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from penstock.core.features import TRANSACTION_VERSION
from penstock.core.resource_config import GROUP_SETTINGS
from penstock.core.topic_config import BROKER_SETTINGS
from penstock.node.settings import DEFINITIONS, Settings


def inherited_settings(settings: Settings) -> Mapping[str, str]:
    """Values of topics without their own setting."""
    values = {one.kafka: getattr(settings, one.name) for one in DEFINITIONS if one.kafka in BROKER_SETTINGS}
    if settings.flush_messages == 0:
        del values["log.flush.interval.messages"]
    return {str(name): kafka_text(value) for name, value in values.items()}


def inherited_group_settings(settings: Settings) -> Mapping[str, str]:
    """Values of groups without their own setting."""
    names = {definition.inherits for definition in GROUP_SETTINGS.values()}
    return {
        str(one.kafka): kafka_text(getattr(settings, one.name)) for one in DEFINITIONS if one.kafka in names
    }


def initial_features(settings: Settings) -> Mapping[str, int]:
    """Initial feature levels, unless changed at run time."""
    return {TRANSACTION_VERSION: settings.transaction_version}


def kafka_text(value: object) -> str:
    """Format a setting's value as Kafka's tools do."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value.value)
    return str(value)
