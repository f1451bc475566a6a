"""Options shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from penstock.apps.cli.plain_output import OUTPUTS
from penstock.apps.cli.security_options import address_from_profile, security_option

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
GLOBAL_PREFIX = "global_"
"""Options before the command have the same names with this prefix."""
_Command = TypeVar("_Command", bound=Callable[..., Any])
_profile_address = address_from_profile("bootstrap")


def or_global(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """The value of the command's own option; if it is not given, that of the same option before the command."""
    given = _given_before(ctx, param)
    return value if given is None else given


def _given_before(ctx: click.Context, param: click.Parameter) -> Any:
    assert param.name is not None
    if ctx.get_parameter_source(param.name) is click.core.ParameterSource.COMMANDLINE:
        return None
    return ctx.find_root().params.get(GLOBAL_PREFIX + param.name)


def _bootstrap_address(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Like `or_global`; if it is not given there either, the address of the profile is used."""
    given = _given_before(ctx, param)
    return _profile_address(ctx, param, value) if given is None else given


_bootstrap = click.option(
    "--bootstrap",
    envvar="PENSTOCK_BOOTSTRAP",
    default=BOOTSTRAP_DEFAULT,
    show_default=True,
    show_envvar=True,
    metavar="HOST:PORT",
    callback=_bootstrap_address,
    help="Address of the broker; several are comma-separated.",
)


def bootstrap_option(command: _Command) -> _Command:
    """`--bootstrap`, `--profile` and the security options of a command that talks to brokers."""
    return _bootstrap(security_option(command))


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(OUTPUTS),
    default="table",
    show_default=True,
    callback=or_global,
    help="Output format.",
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


def given_once(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Reject a second value. Otherwise the last one would silently win."""
    if len(values) > 1:
        raise click.BadParameter(f"can be set only once, not {len(values)} times.", ctx=ctx, param=param)
    return values[0] if values else None


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
