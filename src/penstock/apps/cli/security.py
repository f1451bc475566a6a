"""`penstock security`: makes certificates and a first user for development, and checks TLS files. Asks no broker."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.apps.cli.failures import WrongSettings
from penstock.apps.cli.options import output_option
from penstock.apps.cli.plain_output import JSON, TABLE, say_content
from penstock.apps.cli.terminal import escape_lines, say
from penstock.core.errors import InvalidConfig

if TYPE_CHECKING:
    from penstock.apps.security.security_directory import SecurityDirectory
    from penstock.node.security.tls_material import CertificateFacts

EXPIRY_DAYS_FEW = 30
_FILE = click.Path(dir_okay=False, path_type=Path)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object; same as -o json.")


@click.group()
def security() -> None:
    """Make and check certificates and first credentials."""


@security.command()
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("penstock-security"),
    show_default=True,
    help="Directory to create, with mode 0700; files in it have mode 0600.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Host name or address of a broker; may be repeated. localhost, 127.0.0.1 and ::1 are always included.",
)
@click.option(
    "--client",
    "clients",
    multiple=True,
    default=("client",),
    show_default=True,
    metavar="NAME",
    help="Name of a client certificate, besides that of admin; may be repeated.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=825,
    show_default=True,
    help="Validity of the server and client certificates.",
)
@click.option(
    "--force", is_flag=True, help="Replace existing files, with a new authority and a new password."
)
@output_option
@json_option
def init(
    directory: Path,
    hosts: tuple[str, ...],
    clients: tuple[str, ...],
    days: int,
    force: bool,
    output: str,
    as_json: bool,
) -> None:
    """Make a development CA, certificates, and an admin user.

    \b
    penstock security init --host broker1.internal --client billing

    Writes a certificate authority, a server certificate, client certificates, and SCRAM credentials of the user admin,
    and prints the configuration of clients. No secret is printed: the configurations read them from the directory.
    For production, use certificates of your own authority.
    """
    from penstock.apps.security.security_directory import SecurityPlan, make_security_directory

    plan = SecurityPlan(directory, hosts, clients, days, force)
    try:
        made = make_security_directory(plan, datetime.now(UTC))
    except InvalidConfig as error:
        raise WrongSettings(str(error)) from None
    except OSError as error:
        raise click.ClickException(escape_lines(f"cannot write to {directory}: {error}")) from None
    if as_json or output != TABLE:
        say_content(_made_content(made), JSON if as_json else output, indent=2)
    else:
        _show_made(made)


def _made_content(made: SecurityDirectory) -> dict[str, object]:
    return {
        "directory": str(made.directory),
        "files": {name: str(path) for name, path in made.files.items()},
        "certificates": {name: _facts_content(facts) for name, facts in made.certificates.items()},
        "clients": made.configs,
    }


def _show_made(made: SecurityDirectory) -> None:
    from penstock.apps.cli.tables import show_table

    say(f"created {made.directory}")
    show_table(
        ("certificate", "subject", "hosts", "valid until"),
        [
            (f"{name}.crt", facts.subject, ", ".join(facts.hosts), f"{facts.not_after:%Y-%m-%d}")
            for name, facts in made.certificates.items()
        ],
    )
    others = [name for name in made.files if not name.endswith((".crt", ".key"))]
    say(f"also: {', '.join(others)}")
    say("Keep ca.key secret: it can sign certificates that your brokers and clients trust.")
    for name, text in made.configs.items():
        say(f"\n--- {name}\n{text}")


@security.command()
@click.option("--tls-cert", "certificate", type=_FILE, required=True, help="Certificate chain, PEM.")
@click.option("--tls-key", "key", type=_FILE, required=True, help="Private key, PEM, mode 0600.")
@click.option(
    "--tls-ca", "authorities", type=_FILE, help="Authorities that must have issued the certificate, PEM."
)
@click.option(
    "--tls-key-password-file", "key_password", type=_FILE, help="File with the key's password, mode 0600."
)
@click.option("--host", metavar="NAME", help="Host that the certificate must be valid for.")
@output_option
@json_option
def check(
    certificate: Path,
    key: Path,
    authorities: Path | None,
    key_password: Path | None,
    host: str | None,
    output: str,
    as_json: bool,
) -> None:
    """Check a certificate, its key and its authorities.

    \b
    penstock security check --tls-cert server.crt --tls-key server.key

    Verifies file modes, that the key belongs to the certificate, validity, and, with --tls-ca, that a client accepts
    the certificate. Exits with 0 if all is well, and with 2 if a broker could not use the files.
    """
    from penstock.apps.security.tls_check import check_tls
    from penstock.node.security.tls_material import TlsPaths

    now = datetime.now(UTC)
    try:
        found = check_tls(TlsPaths(certificate, key, authorities, key_password), host, now)
    except InvalidConfig as error:
        raise WrongSettings(str(error)) from None
    if as_json or output != TABLE:
        chain = [{**_facts_content(one), "days_left": one.days_left(now)} for one in found.chain]
        content = {"chain": chain, "authorities": [*map(_facts_content, found.authorities)]}
        say_content(content, JSON if as_json else output, indent=2)
        return
    for one in found.chain:
        left = one.days_left(now)
        hosts = ", ".join(one.hosts) or "no host"
        say(f"{one.subject}: valid until {one.not_after:%Y-%m-%d} ({left} days), for {hosts}")
        if left < EXPIRY_DAYS_FEW:
            say(f"warning: {one.subject} expires in {left} days; renew it", err=True)
    say("the files can be used")


def _facts_content(facts: CertificateFacts) -> dict[str, object]:
    return {
        "subject": facts.subject,
        "issuer": facts.issuer,
        "serial": facts.serial,
        "not_before": facts.not_before.isoformat(),
        "not_after": facts.not_after.isoformat(),
        "hosts": list(facts.hosts),
    }
