"""All settings of a node, assembled from the sections that its parts define. Reads no files.

`settings_loader` loads them. Flags, file keys, `penstock config explain` and docs/settings.md derive from here. A part
of the node takes the section that it needs; `Settings` inherits from all of them.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields

from penstock.node.cluster.cluster_settings import ClusterSettings
from penstock.node.connections.connection_settings import ConnectionSettings
from penstock.node.connections.server_settings import ServerSettings
from penstock.node.coordinators.group_settings import GroupSettings
from penstock.node.coordinators.subscription_settings import SubscriptionSettings
from penstock.node.coordinators.transaction_settings import TransactionSettings
from penstock.node.definitions.definition import SettingDefinition
from penstock.node.logging_settings import LoggingSettings
from penstock.node.storage_settings import StorageSettings
from penstock.node.topic_settings import TopicDefaults


@dataclass(frozen=True)
class Settings(
    LoggingSettings,
    ConnectionSettings,
    SubscriptionSettings,
    TransactionSettings,
    GroupSettings,
    TopicDefaults,
    StorageSettings,
    ClusterSettings,
    ServerSettings,
):
    """The settings of one node. Bases are listed in reverse: dataclass fields come in reverse order of the bases.

    Outside of tests every value is validated before an instance exists.
    """


SECTIONS = {
    "server": "Addresses and identity",
    "cluster": "The cluster of this broker",
    "storage": "The log on disk",
    "topics": "Topics",
    "groups": "Consumer groups and their offsets",
    "transactions": "Transactions",
    "subscriptions": "Subscriptions of the queue protocol",
    "limits": "Limits per client and overall",
    "logging": "Logging",
}
"""Sections in the order in which help and docs show them."""


def _definitions() -> tuple[SettingDefinition, ...]:
    found = []
    for entry in fields(Settings):
        assert entry.default is not MISSING, entry.name
        found.append(SettingDefinition(name=entry.name, default=entry.default, **entry.metadata))
    return tuple(found)


DEFINITIONS = _definitions()
DEFINITION_OF = {definition.name: definition for definition in DEFINITIONS}
