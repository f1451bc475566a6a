"""Generates the docs pages for settings, commands, options and metrics from their definitions.

`make docs` runs it.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from penstock.apps.cli.main import EXIT_CODES, HELP_COLUMNS, cli
from penstock.apps.cli.output_schemas import SCHEMAS
from penstock.client.options import (
    ConnectionOptions,
    ConsumerOptions,
    Option,
    ProducerOptions,
    SecurityOptions,
    definitions,
    describe_type,
)
from penstock.node.definitions.definition import SettingDefinition
from penstock.node.definitions.values import show_value
from penstock.node.file_shapes import (
    CLIENT_KEYS,
    FOUND_NAME,
    FSYNC_ON_WRITE,
    HEARTBEAT_INTERVAL,
    SHAPES,
    FileShape,
)
from penstock.node.metrics.families import FAMILIES
from penstock.node.settings import DEFINITIONS, SECTIONS
from penstock.node.settings_loader import FOREIGN_VARIABLES

SCHEMA_COLUMNS = 100


def settings_page() -> str:
    """Every setting: default, limits, meaning and aliases."""
    lines = [
        "# Settings",
        "One table per section, generated from the `*_settings.py` modules of `penstock/node` by `make docs`. A",
        "setting is a key in a YAML or JSON file (`data_dir`, also `data-dir` or `dataDir`, at the top level or",
        "inside its section), an environment variable `PENSTOCK_DATA_DIR` or a flag `--data-dir`. Flags override",
        "variables, variables override the file, and the file overrides the default. Sizes: `65536`, `64k`,",
        "`1 GiB` (powers of 1024), `1 MB` (powers of 1000). Times: `500ms`, `30s`, `5m`, `2h`, `7d`, `1w`. With an",
        "unknown key or a value out of range the broker does not start: it reports the allowed values and exits",
        "with code 2. `penstock config explain` shows the effective values and their sources.",
        "",
        "Topics without their own value inherit the settings with scope `topic default`. These belong to the",
        "cluster and are stored in its metadata: a single broker stores its settings at every start, brokers that",
        "share metadata read them from there. Topic settings (`penstock topic`) and changes at run time",
        "(AlterConfigs for all brokers, as `kafka-configs` sends it) take precedence. All other settings belong",
        "to the node.",
    ]
    for section, title in SECTIONS.items():
        lines += [
            "",
            f"## {title}: `{section}`",
            "| setting | default | allowed | scope | meaning | other names |",
            "|---|---|---|---|---|---|",
        ]
        lines += [_row(definition) for definition in DEFINITIONS if definition.section == section]
    lines += ["", "## Names of other brokers"]
    lines += ["These names are accepted as well; Penstock's own names take precedence.", ""]
    lines += [f"- `{variable}`: `{name}`" for variable, name in FOREIGN_VARIABLES.items()]
    lines += [
        "- `bufferSizes: [receive, send]` in a file: `socket_receive_bytes` and `socket_send_bytes`",
        f"- `{HEARTBEAT_INTERVAL}` in a file: `subscription_heartbeat_ms`; a bare number counts seconds",
        f"- `{FSYNC_ON_WRITE}` in a file: `durability`, `fsync` if it is on and `os` if it is off",
        *(f"- `{key}` in a file: accepted, without effect; {why}" for key, why in CLIENT_KEYS.items()),
        "",
        "Keys may be written with dots (`server.port: 9999`). `server.port` is the port of the Kafka protocol,",
        "except in the files of brokers that speak another protocol, which are recognised by their shape:",
        "",
        *(_shape_line(shape) for shape in SHAPES),
        "",
        "A file that names one of Penstock's own ports (`text_port`, …) is always read as one of Penstock's. The",
        "start banner says which file was read and what `server.port` means in it.",
        "",
        f"Without `--config` and `PENSTOCK_CONFIG`, a single broker reads `{FOUND_NAME}` in its working directory if",
        "it has one of these shapes and every key is known; another file of that name is not read, and the broker",
        "says why. Brokers of a cluster look for no file.",
    ]
    return "\n".join(lines) + "\n"


def _shape_line(shape: FileShape) -> str:
    more = f"; its data directory is `{shape.data_dir}` unless it says otherwise" if shape.data_dir else ""
    return f"- `{shape.port_setting}` if {shape.recognised_by}{more}"


def _row(definition: SettingDefinition) -> str:
    default = show_value(definition, definition.default)
    others = [f"`{alias}`" for alias in definition.aliases]
    if definition.kafka is not None:
        others.append(f"Kafka `{definition.kafka}`")
    cells = (
        f"`{definition.name}`",
        f"`{default}`" if default else "",
        definition.allowed,
        definition.scope,
        definition.meaning,
        ", ".join(others),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def cli_page() -> str:
    """The help of every command, as on the terminal."""
    lines = [
        "# Command line",
        "The help of every command, generated by `make docs`. `broker` is an alias for `penstock`.",
        "",
        "```text",
        EXIT_CODES.removeprefix("\b\n"),
        "```",
    ]
    for path, command, context in _commands(cli, None, "penstock"):
        lines += ["", f"## `{path}`", "```text", command.get_help(context).rstrip(), "```"]
    return "\n".join(lines) + "\n"


def client_options_page() -> str:
    """Every option of the Python clients: default, type, bounds and meaning."""
    lines = [
        "# Options of the Python clients",
        'Generated from `penstock/client/options.py` by `make docs`. Options are keywords: `Producer(acks="leader")`.',
        "The asyncio clients take the same ones. An invalid name or value raises `BadArgument` before anything",
        "is sent. An option with a variable is set by a keyword, else by the environment variable, else by the",
        "profile. Commands have the security options as flags (`--tls-ca`), except those that are secrets; Spark has",
        "them under the same names.",
    ]
    listed: set[str] = set()
    for title, kind in _OPTIONS.items():
        own = {name: found for name, found in definitions(kind).items() if name not in listed}
        listed |= own.keys()
        lines += ["", f"## {title}", "| option | default | allowed | meaning |", "|---|---|---|---|"]
        lines += [_option_row(name, hint, option) for name, (hint, option) in own.items()]
    return "\n".join(lines) + "\n"


_OPTIONS: dict[str, type] = {
    "Security of every client": SecurityOptions,
    "Every client": ConnectionOptions,
    "Producer": ProducerOptions,
    "Consumer": ConsumerOptions,
}


def _option_row(name: str, hint: object, option: Option) -> str:
    bounds = [
        f"{word} {bound:.12g}"
        for word, bound in (("from", option.least), ("to", option.most))
        if bound is not None
    ]
    allowed = " ".join([describe_type(hint), *bounds])
    variable = f" (`{option.variable}`)" if option.variable else ""
    return f"| `{name}` | `{option.default!r}` | {allowed} | {option.meaning}{variable} |"


def _commands(
    command: click.Command, parent: click.Context | None, name: str
) -> Iterator[tuple[str, click.Command, click.Context]]:
    context = click.Context(
        command,
        parent=parent,
        info_name=name,
        terminal_width=HELP_COLUMNS,
        max_content_width=HELP_COLUMNS,
        help_option_names=["-h", "--help"],
    )
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for child_name in command.list_commands(context):
            child = command.get_command(context, child_name)
            assert child is not None, child_name
            yield from _commands(child, context, child_name)


def metrics_page() -> str:
    """Every metric: name, kind, labels and meaning."""
    lines = [
        "# Metrics",
        "The metrics of `GET /metrics` on the HTTP port, in Prometheus' text format. Generated from",
        "`penstock/node/metrics/families.py` by `make docs`. Values are read at the time of the request; counters",
        "start at 0 with the process, and those of a topic also when the topic is recreated.",
        "",
        "| metric | kind | labels | meaning |",
        "|---|---|---|---|",
    ]
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        lines.append(f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} |")
    return "\n".join(lines) + "\n"


def cli_output_page() -> str:
    """The schema of every command's machine-readable output."""
    lines = [
        "# Output of commands",
        "The schemas of `-o json` and `-o yaml`, generated from `penstock/apps/cli/output_schemas.py` by `make docs`.",
        "They are stable: fields may be added; none changes its meaning or is removed. `-o` may stand before or after",
        "the command. Errors go to stderr as text, with the exit codes of [the command line](cli.md).",
        "",
        "- `string?` may be null; `name?:` may be absent; `any` is any value",
        "- `...` stands for further fields, which are not stable; `*` for any name",
        "- `LINES OF` means one object per line in JSON, and one document each in YAML",
        "- `|` separates two forms",
    ]
    for command, (schema, remark) in SCHEMAS.items():
        lines += ["", f"## `penstock {command}`", *([f"{remark[0].upper()}{remark[1:]}."] if remark else [])]
        lines += ["```text", *textwrap.wrap(schema, SCHEMA_COLUMNS, break_long_words=False), "```"]
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "cli.md": cli_page,
    "cli-output.md": cli_output_page,
    "client-options.md": client_options_page,
    "metrics.md": metrics_page,
}


def write_pages(directory: Path) -> None:
    """Write every page that derives from the code."""
    for name, page in PAGES.items():
        (directory / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
