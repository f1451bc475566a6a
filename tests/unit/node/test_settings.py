"""The definition itself: complete, consistent, and with valid defaults."""

from __future__ import annotations

import pytest

from penstock.node.definitions.definition import SettingDefinition, SettingKind
from penstock.node.definitions.values import plain_value, read_value, show_value
from penstock.node.log_choices import LogLevel
from penstock.node.settings import DEFINITIONS, SECTIONS, Settings


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.name)
def test_definition(definition: SettingDefinition) -> None:
    assert definition.section in SECTIONS
    assert definition.meaning.endswith(".")
    assert read_value(definition, plain_value(definition, definition.default)) == definition.default
    assert read_value(definition, show_value(definition, definition.default)) == definition.default
    if definition.kind in (SettingKind.BYTES, SettingKind.MS):
        unit = {SettingKind.BYTES: "bytes", SettingKind.MS: "ms"}[definition.kind]
        assert unit in definition.name.split("_"), "the name carries its unit"


def test_every_setting_is_defined_once_in_the_section_of_its_owner() -> None:
    names = [definition.name for definition in DEFINITIONS]
    sections = [base for base in Settings.__mro__ if base not in (Settings, object)]
    assert len(sections) > 1 and "__annotations__" not in vars(Settings)
    assert names == [name for section in reversed(sections) for name in vars(section)["__annotations__"]]
    taken = names + [alias for definition in DEFINITIONS for alias in definition.aliases]
    assert len(taken) == len(set(taken))
    kafka = [definition.kafka for definition in DEFINITIONS if definition.kafka]
    assert len(kafka) == len(set(kafka))


def test_bounds_are_inclusive_and_held() -> None:
    for definition in DEFINITIONS:
        if definition.kind not in (SettingKind.COUNT, SettingKind.BYTES, SettingKind.MS):
            continue
        assert read_value(definition, definition.low) == definition.low
        assert read_value(definition, definition.high) == definition.high
        for beyond in (definition.low - 1, definition.high + 1):
            if beyond != definition.special:
                with pytest.raises(ValueError):
                    read_value(definition, beyond)


def test_safe_by_default() -> None:
    settings = Settings()
    assert settings.host == "127.0.0.1"
    assert settings.durability.value == "fsync"
    assert settings.storage.value == "disk"


def test_other_words_for_levels() -> None:
    assert LogLevel("warn") is LogLevel.WARNING
    assert LogLevel("information") is LogLevel.INFO
