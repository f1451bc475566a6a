"""Commands whose flags are the settings of a broker. The settings loader parses them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import click

from penstock.apps.cli.failures import WrongSettings
from penstock.node.definitions.definition import SettingDefinition, SettingKind
from penstock.node.definitions.values import show_value
from penstock.node.settings import DEFINITION_OF, DEFINITIONS, SECTIONS
from penstock.node.settings_loader import LoadedSettings, SettingsError, find_settings_file, load_settings

_CLUSTER_SETTINGS = ("metadata", "cluster")

_METAVARS = {
    SettingKind.HOST: "HOST",
    SettingKind.TEXT: "DIR",
    SettingKind.URL: "URL",
    SettingKind.PORT: "PORT|off",
    SettingKind.COUNT: "N",
    SettingKind.BYTES: "SIZE",
    SettingKind.MS: "TIME",
}


class SettingOption(click.Option):
    """A flag generated from a setting. The settings loader parses it, so that all errors are reported together."""

    def __init__(self, definition: SettingDefinition) -> None:
        self.definition = definition
        default = show_value(definition, definition.default)
        text = definition.meaning + (f"  [default: {default}]" if default else "")
        if definition.kind is SettingKind.SWITCH:
            names = f"{definition.flag}/--no-{definition.flag.removeprefix('--')}"
            super().__init__([names], default=None, help=text)
        elif definition.choices is not None:
            metavar = "|".join(member.value for member in definition.choices)
            super().__init__(
                [definition.flag], metavar=metavar, help=text, shell_complete=self.complete_choice
            )
        else:
            path = click.Path() if definition.kind is SettingKind.TEXT and not definition.metavar else None
            metavar = definition.metavar or _METAVARS[definition.kind]
            super().__init__([definition.flag], type=path, metavar=metavar, help=text)

    def complete_choice(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        assert self.definition.choices is not None
        return [member.value for member in self.definition.choices if member.value.startswith(incomplete)]


class SettingsCommand(click.Command):
    """A command with a flag for every setting except those `without`, grouped by section."""

    def __init__(self, *args: Any, without: Collection[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += [SettingOption(one) for one in DEFINITIONS if one.name not in without]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = [param for param in self.get_params(ctx) if not isinstance(param, SettingOption)]
        with formatter.section("Options"):
            formatter.write_dl([row for param in own if (row := param.get_help_record(ctx)) is not None])
        for section, title in SECTIONS.items():
            rows = [
                row
                for param in self.params
                if isinstance(param, SettingOption) and param.definition.section == section
                if (row := param.get_help_record(ctx)) is not None
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def load_given(config_file: str | None, flags: Mapping[str, Any]) -> LoadedSettings:
    """The settings of the file, the environment and the flags that were given. Raises WrongSettings."""
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return load_settings(config_file, os.environ, given)
    except SettingsError as error:
        raise WrongSettings(str(error)) from error


def load_found(config_file: str | None, flags: Mapping[str, Any]) -> LoadedSettings:
    """The same; without a given file, a broker that is alone reads the one in its working directory."""
    if config_file is not None:
        return load_given(config_file, flags)
    in_cluster = any(
        flags.get(name) is not None or DEFINITION_OF[name].variable in os.environ
        for name in _CLUSTER_SETTINGS
    )
    found = find_settings_file(Path(), is_alone=not in_cluster)
    loaded = load_given(found.path, flags)
    return loaded._replace(notes=(*loaded.notes, found.note)) if found.note else loaded
