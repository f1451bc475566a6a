"""Connection options of commands: `--profile` and the security options, on every command that talks to a broker.

They are kept in click's context, not passed as arguments: a command names only its addresses. Secrets are not accepted
as arguments, which other users of the machine can see: they come from files, the environment, a prompt or a profile.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import click

from penstock.client.errors import ClientError
from penstock.client.profiles import PROFILE_VARIABLE, load_profiles

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from penstock.client.access import Security
    from penstock.client.options import Option

_GIVEN = "penstock.security.given"
_RESOLVED = "penstock.security.resolved"
_Command = TypeVar("_Command", bound=Callable[..., Any])

PASSWORD_PROMPT = "ask_password"


def complete_profile(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion of profile names."""
    from click.shell_completion import CompletionItem

    try:
        names = sorted(load_profiles().profiles)
    except ClientError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keep a value of the command line. That of the command itself goes before that of `penstock`."""
    if value is None:
        return
    assert param.name is not None
    given = ctx.meta.setdefault(_GIVEN, {})
    if param.name == PASSWORD_PROMPT:
        if value and not ctx.resilient_parsing:
            given["password"] = click.prompt("Password", hide_input=True, err=True)
    else:
        given[param.name] = value
    ctx.meta.pop(_RESOLVED, None)


def profile_option(command: _Command) -> _Command:
    """`--profile NAME`."""
    decorate = click.option(
        "--profile",
        metavar="NAME",
        is_eager=True,
        expose_value=False,
        callback=_keep,
        shell_complete=complete_profile,
        help="Profile with address and security of the brokers; `penstock profile add --help` lists the security "
        f"options, which can be given here as well.  [env var: {PROFILE_VARIABLE}]",
    )
    return decorate(command)


def security_option(command: _Command) -> _Command:
    """`--profile` and all security options, unless the command has them already. Only the former is in its help."""
    taken = {name for param in getattr(command, "__click_params__", ()) for name in param.opts}
    if "--profile" in taken:
        return command
    for option in reversed(list(security_parameters(hidden=True))):
        if not taken & set(option.opts):
            command = _added(command, option)
    return profile_option(command)


def _added(command: _Command, option: click.Option) -> _Command:
    if not hasattr(command, "__click_params__"):
        command.__click_params__ = []  # type: ignore[attr-defined]
    command.__click_params__.append(option)  # type: ignore[attr-defined]
    return command


def security_parameters(*, hidden: bool) -> list[click.Option]:
    """One option per security option; secrets are replaced by a prompt for the password."""
    from penstock.client.options import SecurityOptions, definitions

    found = [
        _parameter(name, hint, option, hidden=hidden)
        for name, (hint, option) in definitions(SecurityOptions).items()
        if not option.is_secret
    ]
    prompt = click.Option(
        ["--ask-password", PASSWORD_PROMPT],
        is_flag=True,
        default=None,
        expose_value=False,
        callback=_keep,
        hidden=hidden,
        help="Ask for the password.",
    )
    return [*found, prompt]


def _parameter(name: str, hint: Any, option: Option, *, hidden: bool) -> click.Option:
    variable = f"  [env var: {option.variable}]" if option.variable else ""
    text = option.meaning[:1].upper() + option.meaning[1:].replace("`", "") + "." + variable
    shared: dict[str, Any] = {"expose_value": False, "callback": _keep, "hidden": hidden, "help": text}
    flag, parts = flag_of(name), get_args(hint) or (hint,)
    if bool in parts:
        return click.Option([f"{flag}/--no-{flag.removeprefix('--')}"], default=None, **shared)
    words = [word for part in parts if get_origin(part) is Literal for word in get_args(part)]
    if words:
        return click.Option([flag], type=click.Choice(words, case_sensitive=False), metavar="NAME", **shared)
    is_file = name.endswith("_file") or name in ("tls_ca", "tls_cert", "tls_key")
    return click.Option(
        [flag], type=click.Path() if is_file else str, metavar="FILE" if is_file else "TEXT", **shared
    )


def given_options() -> dict[str, Any]:
    """The options of the command line, as given."""
    ctx = click.get_current_context(silent=True)
    return dict(ctx.meta.get(_GIVEN, {})) if ctx is not None else {}


def chosen_profile() -> str:
    """The profile of the command: given, in the environment, or the default one; empty if there is none."""
    given = given_options().get("profile")
    return given if given is not None else os.environ.get(PROFILE_VARIABLE) or load_profiles().current or ""


def export_profile(ctx: click.Context) -> None:
    """Set the environment variable of the chosen profile while the command runs, for processes that it starts."""
    chosen, before = chosen_profile(), os.environ.get(PROFILE_VARIABLE)
    if not chosen or chosen == before:
        return
    os.environ[PROFILE_VARIABLE] = chosen

    def restore() -> None:
        if before is None:
            del os.environ[PROFILE_VARIABLE]
        else:
            os.environ[PROFILE_VARIABLE] = before

    ctx.call_on_close(restore)


def command_options() -> dict[str, Any]:
    """Connection options of the command: command line, environment, profile. Raises BadArgument.

    They are complete: `profile` is empty, so that a client does not look for one again.
    """
    from penstock.client.options import layered_options

    ctx = click.get_current_context(silent=True)
    if ctx is not None and _RESOLVED in ctx.meta:
        return dict(ctx.meta[_RESOLVED])
    given = {**given_options(), "profile": chosen_profile()}
    resolved = {**layered_options(given, os.environ), "profile": ""}
    if ctx is not None:
        ctx.meta[_RESOLVED] = resolved
    return dict(resolved)


def client_options() -> dict[str, Any]:
    """The security options of the command as keywords of a client, which gets its address separately."""
    return {name: value for name, value in command_options().items() if name not in _ADDRESSES}


_ADDRESSES = ("bootstrap", "queue", "http")


def command_security() -> Security:
    """The security of the command's connections. Raises BadArgument."""
    from penstock.client.security import read_security

    return read_security(command_options())


def address_from_profile(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback for an address option: unless it was given or is in the environment, the profile's is used."""

    def resolve(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        assert param.name is not None
        if ctx.resilient_parsing or ctx.get_parameter_source(param.name) in _EXPLICIT:
            return value
        with ctx.scope(cleanup=False):
            return command_options().get(name) or value

    return resolve


_EXPLICIT = (click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT)
