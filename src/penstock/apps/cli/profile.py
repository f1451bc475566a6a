"""`penstock profile`: named connections in a file of the user. Never talks to a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from penstock.apps.cli.failures import ObjectNotFound, WrongSettings
from penstock.apps.cli.options import output_option
from penstock.apps.cli.plain_output import JSON, TABLE, say_content
from penstock.apps.cli.security_options import complete_profile, given_options, security_parameters
from penstock.apps.cli.terminal import say
from penstock.client.errors import BadArgument
from penstock.client.profiles import Profiles, load_profiles, save_profiles

HIDDEN = "(hidden)"

_name = click.argument("name", shell_complete=complete_profile)
_json = click.option("--json", "as_json", is_flag=True, help="Same as -o json.")


@click.group()
def profile() -> None:
    """Manage profiles: named clusters with their address and security.

    \b
    penstock profile add prod --bootstrap broker.example:9092 --tls
    penstock profile use prod
    penstock topic list                      # of prod
    penstock --profile staging topic list    # of another one

    A flag goes before an environment variable, which goes before the profile. Python clients and Spark take the option
    profile="prod". The file is $XDG_CONFIG_HOME/penstock/profiles.yaml, readable by its owner only.
    """


class _AddCommand(click.Command):
    """Shows the security options, which other commands accept without listing them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += security_parameters(hidden=False)


@profile.command(cls=_AddCommand)
@click.argument("name")
@click.option("--bootstrap", metavar="HOST:PORT", help="Address of the brokers; several are comma-separated.")
@click.option("--queue", metavar="HOST:PORT", help="Address of the queue protocol, for its commands.")
@click.option("--http", metavar="HOST:PORT", help="Address of the HTTP protocol, for `penstock health`.")
@click.option(
    "--from",
    "properties",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Read a properties file of librdkafka or of a Java client; flags go before it.",
)
@click.option("--replace", "is_replaced", is_flag=True, help="Replace a profile of this name.")
@output_option
def add(
    name: str,
    bootstrap: str | None,
    queue: str | None,
    http: str | None,
    properties: Path | None,
    is_replaced: bool,
    output: str,
) -> None:
    """Add a profile.

    \b
    penstock profile add local --bootstrap 127.0.0.1:9092
    penstock profile add prod --bootstrap kafka.example:9092 --tls --username ann

    A password is stored as the name of its file (--password-file) or, with --ask-password, in the file of the profiles.
    Without either, PENSTOCK_PASSWORD is used.
    """
    stored = load_profiles()
    if name in stored.profiles and not is_replaced:
        raise WrongSettings(f"There is a profile {name} already: replace it with --replace.")
    options = _from_properties(properties) if properties is not None else {}
    options |= _without_alternatives(options, given_options())
    options |= {
        key: value
        for key, value in (("bootstrap", bootstrap), ("queue", queue), ("http", http))
        if value is not None
    }
    options = {key: _absolute(key, value) for key, value in options.items() if key != "profile"}
    _check(name, options)
    stored.profiles[name] = options
    save_profiles(stored)
    _say_done(
        {"profile": name, "outcome": "added"},
        f"added profile {name}; make it the default of all commands with: penstock profile use {name}",
        output,
    )


def _say_done(content: dict[str, Any], sentence: str, output: str) -> None:
    if output == TABLE:
        say(sentence)
    else:
        say_content(content, output)


@profile.command("list")
@output_option
@_json
def list_profiles(output: str, as_json: bool) -> None:
    """List the profiles; the default is marked.

    \b
    penstock profile list -o json
    """
    from penstock.apps.cli.tables import show_table

    stored = load_profiles()
    rows = [
        {
            "name": name,
            "default": name == stored.current,
            "bootstrap": options.get("bootstrap"),
            "security": _protocol(options),
            "user": options.get("username"),
        }
        for name, options in sorted(stored.profiles.items())
    ]
    if as_json or output != TABLE:
        say_content(rows, JSON if as_json else output)
    elif not rows:
        say("There are no profiles. Add one with: penstock profile add NAME --bootstrap HOST:PORT")
    else:
        columns = ("profile", "default", "bootstrap", "security", "user")
        show_table(
            columns,
            [
                (
                    row["name"],
                    "*" if row["default"] else "",
                    row["bootstrap"] or "",
                    row["security"],
                    row["user"] or "",
                )
                for row in rows
            ],
        )


@profile.command()
@click.argument("name", required=False, shell_complete=complete_profile)
@output_option
@_json
def show(name: str | None, output: str, as_json: bool) -> None:
    """Show a profile, or the default one. Secrets are hidden.

    \b
    penstock profile show prod
    """
    from penstock.apps.cli.tables import show_table

    stored = load_profiles()
    chosen = name or stored.current
    if chosen is None:
        raise ObjectNotFound("There is no default profile. See `penstock profile list`.")
    shown = shown_options(_found(stored, chosen))
    if as_json or output != TABLE:
        say_content({"name": chosen, **shown}, JSON if as_json else output)
    else:
        show_table(("option", "value"), [(key, str(value)) for key, value in shown.items()], title=chosen)


@profile.command()
@click.argument("name", required=False, shell_complete=complete_profile)
@click.option("--none", "is_none", is_flag=True, help="Use no profile by default.")
@output_option
def use(name: str | None, is_none: bool, output: str) -> None:
    """Make a profile the default of all commands.

    \b
    penstock profile use prod
    penstock profile use --none
    """
    if (name is None) != is_none:
        raise click.UsageError("Give the name of a profile, or --none.")
    stored = load_profiles()
    if name is not None:
        _found(stored, name)
    stored.current = name
    save_profiles(stored)
    sentence = f"commands use profile {name}" if name else "commands use no profile"
    _say_done({"profile": name, "outcome": "used"}, sentence, output)


@profile.command()
@_name
@output_option
def remove(name: str, output: str) -> None:
    """Remove a profile. Files that it names are left alone.

    \b
    penstock profile remove staging
    """
    stored = load_profiles()
    _found(stored, name)
    del stored.profiles[name]
    if stored.current == name:
        stored.current = None
    save_profiles(stored)
    _say_done({"profile": name, "outcome": "removed"}, f"removed profile {name}", output)


def shown_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a profile with its secrets hidden."""
    from penstock.client.options import ProfileOptions, definitions

    known = definitions(ProfileOptions)
    return {
        name: HIDDEN if name not in known or known[name][1].is_secret else value
        for name, value in options.items()
    }


def _found(stored: Profiles, name: str) -> dict[str, Any]:
    try:
        return stored.get(name)
    except BadArgument as error:
        raise ObjectNotFound(error.message[:1].upper() + error.message[1:]) from error


def _check(name: str, options: dict[str, Any]) -> None:
    """Reject options that no command could use: contradictions, unreadable files, invalid addresses."""
    from penstock.client.access import read_addresses
    from penstock.client.options import check_profile
    from penstock.client.security import read_security

    check_profile(f"profile {name}", options)
    has_password = any(key in options for key in ("password", "password_file", "token", "token_file"))
    security = read_security(options if has_password else {**options, "password": HIDDEN})
    if "bootstrap" not in options:
        raise WrongSettings("A profile needs --bootstrap HOST:PORT.")
    for key in ("bootstrap", "queue", "http"):
        for address in read_addresses(options[key]) if key in options else ():
            security.check_secrecy(address.host)
    if not name or not name.isprintable() or name.startswith("-") or " " in name:
        raise WrongSettings(f"{name!r} is not a name for a profile: it must be one word.")


def _absolute(name: str, value: Any) -> Any:
    """Files by their full path: a profile is used in any directory."""
    is_file = name in ("tls_ca", "tls_cert", "tls_key") or name.endswith("_file")
    return str(Path(value).expanduser().absolute()) if is_file and isinstance(value, str) else value


def _without_alternatives(options: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The given options; those of the file that set the same thing are dropped."""
    from penstock.client.options import ALTERNATIVES

    for names in ALTERNATIVES:
        if names & given.keys():
            for name in names:
                options.pop(name, None)
    return given


def _from_properties(path: Path) -> dict[str, Any]:
    from penstock.client.properties_file import read_properties

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongSettings(f"{path} cannot be read: {error}") from error
    options, ignored = read_properties(text)
    if ignored:
        say(f"{path}: not about connections, left out: {', '.join(ignored)}", err=True)
    return options


def _protocol(options: dict[str, Any]) -> str:
    """A summary such as `TLS, SCRAM-SHA-512`."""
    has_tls = options.get("tls", any(name.startswith("tls_") for name in options))
    parts = ["mTLS" if options.get("tls_cert") else "TLS"] if has_tls else []
    if any(options.get(name) for name in ("token", "token_file", "token_url")):
        parts.append("OAUTHBEARER")
    elif options.get("username"):
        parts.append(options.get("sasl_mechanism") or "SCRAM-SHA-512")
    return ", ".join(parts) or "none"
