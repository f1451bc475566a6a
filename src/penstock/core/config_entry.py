"""Settings as DescribeConfigs shows them: value, source, and what the value would be otherwise. Lists no setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from penstock.core.setting import Kind, Setting

Source = Literal["topic", "group", "client-metrics", "logger", "broker", "changed", "configured", "default"]
"""Who gave a value: the resource itself, a change at run time for one broker or for all, the configuration, nobody."""


class Synonym(NamedTuple):
    """One place that gives a value to a setting; the first one wins."""

    name: str
    value: str
    source: Source


class ConfigEntry(NamedTuple):
    """One setting of a resource, or of the broker that it inherits from. No value: it is unset."""

    name: str
    value: str | None
    source: Source
    type: Kind | None
    """None: it has no type of its own, such as the level of a logger."""
    doc: str
    synonyms: tuple[Synonym, ...]
    is_read_only: bool = False


def inherited_synonyms(
    definition: Setting, changed: Mapping[str, str], configured: Mapping[str, str]
) -> list[Synonym]:
    """A node is configured with every value, so one that equals the default is nobody's choice."""
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
    """The entry whose value is the first synonym's; without any, `otherwise`."""
    if not synonyms:
        return ConfigEntry(name, otherwise, "default", definition.kind, definition.doc, ())
    first = synonyms[0]
    return ConfigEntry(name, first.value, first.source, definition.kind, definition.doc, tuple(synonyms))
