"""`penstock start`: loads settings, configures logging, and runs the broker in the foreground with `serve`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from penstock.apps.cli.failures import StartFailed, WrongSettings
from penstock.apps.cli.options import config_file_option
from penstock.apps.ready import ReadyInfo, StartError, remove_ready_file, write_ready_file
from penstock.node.definitions.definition import SettingDefinition, SettingKind
from penstock.node.definitions.values import show_value
from penstock.node.log_choices import LogFormat
from penstock.node.settings import DEFINITIONS, SECTIONS
from penstock.node.settings_loader import LoadedSettings, SettingsError, load_settings

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


class StartCommand(click.Command):
    """A command with a flag for every setting, grouped by section."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += [SettingOption(definition) for definition in DEFINITIONS]

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
            with formatter.section(title):
                formatter.write_dl(rows)


@click.command(cls=StartCommand)
@config_file_option
@click.option(
    "--ready-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="JSON file that is written once the broker accepts connections (host, ports of all doors, pid, data_dir) "
    "and removed when it stops.",
)
def start(config_file: str | None, ready_file: Path | None, **flags: Any) -> None:
    """Run a broker in the foreground until Ctrl-C or SIGTERM.

    Every setting can be set as a flag, as PENSTOCK_<NAME> in the environment, or in the file. Flags override the
    environment, which overrides the file. Sizes can be written as 64k or 1 GiB, durations as 500ms, 30s or 7d.
    `penstock config explain` shows where each value comes from.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        loaded = load_settings(config_file, os.environ, given)
    except SettingsError as error:
        raise WrongSettings(str(error)) from error
    try:
        code = _serve(loaded, ready_file)
    except StartError as error:
        raise StartFailed(str(error)) from error
    sys.exit(code)


def _serve(loaded: LoadedSettings, ready_file: Path | None) -> int:
    from penstock.apps.cli.banner import log_ready, show_banner
    from penstock.apps.serve import serve
    from penstock.node.logs import configure_logging

    settings = loaded.settings
    configure_logging(settings.log_level, settings.log_format, sys.stderr)
    if ready_file is not None:
        remove_ready_file(ready_file)

    def on_ready(info: ReadyInfo) -> None:
        if settings.log_format is LogFormat.JSON:
            log_ready(info)
        else:
            show_banner(info, loaded.sources)
        if ready_file is not None:
            write_ready_file(ready_file, info)

    try:
        return serve(settings, on_ready)
    finally:
        if ready_file is not None:
            remove_ready_file(ready_file)
