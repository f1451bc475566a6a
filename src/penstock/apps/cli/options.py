"""Options shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from penstock.apps.cli.security_options import address_from_profile, security_option

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
_Command = TypeVar("_Command", bound=Callable[..., Any])

_bootstrap = click.option(
    "--bootstrap",
    envvar="PENSTOCK_BOOTSTRAP",
    default=BOOTSTRAP_DEFAULT,
    show_default=True,
    show_envvar=True,
    metavar="HOST:PORT",
    callback=address_from_profile("bootstrap"),
    help="Address of the broker; several are comma-separated.",
)


def bootstrap_option(command: _Command) -> _Command:
    """`--bootstrap`, `--profile` and the security options of a command that talks to brokers."""
    return _bootstrap(security_option(command))


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format: table or JSON.",
)

watch_option = click.option(
    "--watch", "is_watched", is_flag=True, help="Refresh every two seconds, until Ctrl-C."
)

config_file_option = click.option(
    "--config",
    "config_file",
    envvar="PENSTOCK_CONFIG",
    show_envvar=True,
    type=click.Path(),
    metavar="FILE",
    help="Settings file, YAML or JSON.",
)


def given_once(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str:
    """Reject a second value. Otherwise the last one would silently win."""
    if len(values) > 1:
        raise click.BadParameter(f"can be set only once, not {len(values)} times.", ctx=ctx, param=param)
    return values[0]


def parse_pairs(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """`("a=1", "b=2")` → `{"a": "1", "b": "2"}`. Raises click's own usage error."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{pair!r} is not of the form name=value.", param_hint=f"'{option}'")
        if key in found:
            raise click.BadParameter(f"{key!r} is set twice.", param_hint=f"'{option}'")
        found[key] = value
    return found
