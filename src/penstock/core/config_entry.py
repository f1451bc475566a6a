"""Settings as DescribeConfigs returns them: value, source and synonyms. Defines no setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from penstock.core.setting import Kind, Setting

Source = Literal["topic", "group", "client-metrics", "logger", "broker", "changed", "configured", "default"]
"""Where a value comes from: the resource, a dynamic broker or cluster setting, the configuration, or the default."""


class Synonym(NamedTuple):
    """One source of a setting's value; the first synonym takes effect."""

    name: str
    value: str
    source: Source


class ConfigEntry(NamedTuple):
    """One setting of a resource, or the broker setting that it inherits from. A value of None means unset."""

    name: str
    value: str | None
    source: Source
    type: Kind | None
    """None for entries without a type, such as a logger's level."""
    doc: str
    synonyms: tuple[Synonym, ...]
    is_read_only: bool = False


def inherited_synonyms(
    definition: Setting, changed: Mapping[str, str], configured: Mapping[str, str]
) -> list[Synonym]:
    """A node is configured with every value, so a value that equals the default is reported as the default."""
    name, synonyms = definition.inherits, []
    if name in changed:
        synonyms.append(Synonym(name, changed[name], "changed"))
    if configured.get(name, definition.default) != definition.default:
        synonyms.append(Synonym(name, configured[name], "configured"))
    if definition.coarse is None and name:
        synonyms.append(Synonym(name, definition.default, "default"))
    elif definition.coarse is not None and synonyms:
        synonyms.append(Synonym(*definition.coarse, "default"))
    return synonyms


def entry_of(name: str, definition: Setting, synonyms: list[Synonym], otherwise: str | None) -> ConfigEntry:
    """The entry with the first synonym's value, or `otherwise` if there are no synonyms."""
    if not synonyms:
        return ConfigEntry(name, otherwise, "default", definition.kind, definition.doc, ())
    first = synonyms[0]
    return ConfigEntry(name, first.value, first.source, definition.kind, definition.doc, tuple(synonyms))
