"""`penstock config explain`: every setting with value, source, unit and meaning. Never talks to a broker."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import click

from penstock.apps.cli.name_completion import complete_setting
from penstock.apps.cli.options import config_file_option, output_option
from penstock.apps.cli.plain_output import TABLE, say_content
from penstock.apps.cli.setting_options import load_found
from penstock.apps.cli.terminal import say
from penstock.node.definitions.definition import SettingDefinition
from penstock.node.definitions.values import plain_value, show_value
from penstock.node.settings import DEFINITION_OF, DEFINITIONS, SECTIONS
from penstock.node.settings_loader import LoadedSettings


@click.group()
def config() -> None:
    """Inspect settings."""


@config.command()
@click.argument("names", nargs=-1, metavar="[SETTING]...", shell_complete=complete_setting)
@config_file_option
@output_option
def explain(names: tuple[str, ...], config_file: str | None, output: str) -> None:
    """Show settings with value, source, unit and meaning.

    All of them, or those that are named.

    Reads the same file and environment as `penstock start` does. Settings of the scope `topic default` become the
    values that topics inherit when a broker that is alone starts; topics and changes at run time go before them.

    \b
    penstock config explain
    penstock config explain port data_dir -o json
    """
    wanted = _definitions(names)
    loaded = load_found(config_file, {})
    for note in loaded.notes:
        say(f"note: {note}", err=True)
    if output != TABLE:
        say_content(explained_settings(loaded, wanted), output, indent=2)
    else:
        _show_tables(loaded, wanted)


def _definitions(names: tuple[str, ...]) -> Sequence[SettingDefinition]:
    """All settings, or the named ones; a hyphen is as good as an underscore."""
    if not names:
        return DEFINITIONS
    wanted = [name.removeprefix("--").replace("-", "_") for name in names]
    for given, name in zip(names, wanted, strict=True):
        if name not in DEFINITION_OF:
            near = difflib.get_close_matches(name, list(DEFINITION_OF), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"There is no setting {given!r}.{hint} See: penstock config explain")
    return [one for one in DEFINITIONS if one.name in wanted]


def explained_settings(
    loaded: LoadedSettings, wanted: Sequence[SettingDefinition] = DEFINITIONS
) -> list[dict[str, object]]:
    """One plain object per setting, in the order of the definition."""
    return [
        {
            "name": definition.name,
            "section": definition.section,
            "scope": definition.scope,
            "value": plain_value(definition, getattr(loaded.settings, definition.name)),
            "source": loaded.sources[definition.name],
            "default": plain_value(definition, definition.default),
            "unit": definition.unit or None,
            "allowed": definition.allowed,
            "meaning": definition.meaning,
            "flag": definition.flag,
            "variable": definition.variable,
            "kafka": definition.kafka,
        }
        for definition in wanted
    ]


def _show_tables(loaded: LoadedSettings, wanted: Sequence[SettingDefinition]) -> None:
    from penstock.apps.cli.tables import show_table

    for section, title in SECTIONS.items():
        rows = [
            (
                definition.name,
                show_value(definition, getattr(loaded.settings, definition.name)) or "(derived)",
                definition.unit,
                loaded.sources[definition.name],
                definition.scope,
                definition.meaning,
            )
            for definition in wanted
            if definition.section == section
        ]
        if not rows:
            continue
        show_table(
            ("setting", "value", "unit", "source", "scope", "meaning"), rows, title=f"{title} ({section})"
        )
