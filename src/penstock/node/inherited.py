"""Which broker settings topics inherit, by Kafka's names. The one place where the two vocabularies meet."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from penstock.core.topic_config import BROKER_SETTINGS
from penstock.node.settings import DEFINITIONS, Settings


def inherited_settings(settings: Settings) -> Mapping[str, str]:
    """The values that a topic has when it says nothing itself."""
    values = {one.kafka: getattr(settings, one.name) for one in DEFINITIONS if one.kafka in BROKER_SETTINGS}
    if settings.flush_messages == 0:
        del values["log.flush.interval.messages"]
    return {str(name): kafka_text(value) for name, value in values.items()}


def kafka_text(value: object) -> str:
    """A setting's value as Kafka's tools write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value.value)
    return str(value)
