"""Config overrides and their changes: replace all of them, or set, delete, append and subtract some. No state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from penstock.core.errors import InvalidConfig, InvalidRequest
from penstock.core.setting import Kind, Setting


class ConfigOp(IntEnum):
    """Operations of an incremental config change; numbers as in Kafka."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One incremental change. DELETE needs no value."""

    op: ConfigOp
    name: str
    value: str | None = None


def canonical_overrides(
    overrides: Mapping[str, str | None], check: Callable[[str, str], str]
) -> dict[str, str]:
    """The overrides in canonical form. Raises InvalidConfig."""
    return {name: check(name, _present(name, overrides[name])) for name in sorted(overrides)}


def _present(name: str, value: str | None) -> str:
    if value is None:
        raise InvalidConfig(f"{name}: missing value")
    return value


def altered_overrides(
    overrides: Mapping[str, str],
    changes: Sequence[ConfigChange],
    find: Callable[[str], Setting],
    check: Callable[[str, str], str],
    inherited: Callable[[Setting], str],
) -> dict[str, str]:
    """The overrides after these changes. Each setting may appear once, so that the order does not matter."""
    altered = dict(overrides)
    seen: set[str] = set()
    for op, name, value in changes:
        if name in seen:
            raise InvalidRequest(f"{name} is changed twice in one request")
        seen.add(name)
        if op is ConfigOp.DELETE:
            # Deleting an unknown setting succeeds: mirrors delete whatever the source cluster does not have.
            altered.pop(name, None)
            continue
        definition = find(name)
        if value is None:
            raise InvalidRequest(f"{name}: missing value")
        text = value
        if op is not ConfigOp.SET:
            text = _merged(op, definition, name, altered.get(name, inherited(definition)), text)
        altered[name] = check(name, text)
    return altered


def _merged(op: ConfigOp, definition: Setting, name: str, present: str, text: str) -> str:
    """A list with items added or removed."""
    if definition.kind is not Kind.LIST:
        raise InvalidConfig(
            f"{name}: APPEND and SUBTRACT need a list, the setting is of type {definition.kind}"
        )
    words = [word.strip() for word in text.split(",")]
    if op is ConfigOp.APPEND:
        return ",".join([present, *words])
    return ",".join(word for word in present.split(",") if word not in words)
