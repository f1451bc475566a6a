"""`penstock config explain`: every setting with value, source, unit and meaning. Never talks to a broker."""

from __future__ import annotations

import json

import click

from penstock.apps.cli.options import config_file_option, output_option
from penstock.apps.cli.setting_options import load_found
from penstock.apps.cli.terminal import say
from penstock.node.definitions.values import plain_value, show_value
from penstock.node.settings import DEFINITIONS, SECTIONS
from penstock.node.settings_loader import LoadedSettings


@click.group()
def config() -> None:
    """Inspect settings."""


@config.command()
@config_file_option
@output_option
def explain(config_file: str | None, output: str) -> None:
    """Show every setting with its value, source, unit and meaning.

    Reads the same file and environment as `penstock start` does. Settings of the scope `topic default` become the
    values that topics inherit when a broker that is alone starts; topics and changes at run time go before them.
    """
    loaded = load_found(config_file, {})
    for note in loaded.notes:
        say(f"note: {note}", err=True)
    if output == "json":
        say(json.dumps(explained_settings(loaded), indent=2))
    else:
        _show_tables(loaded)


def explained_settings(loaded: LoadedSettings) -> list[dict[str, object]]:
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
        for definition in DEFINITIONS
    ]


def _show_tables(loaded: LoadedSettings) -> None:
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
            for definition in DEFINITIONS
            if definition.section == section
        ]
        show_table(
            ("setting", "value", "unit", "source", "scope", "meaning"), rows, title=f"{title} ({section})"
        )
