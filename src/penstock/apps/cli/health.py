"""`penstock health`: whether a broker is ready, for containers and scripts. Changes nothing.

Without an address it asks the broker that has the same settings: in a container, file and environment are the same.
"""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import Any

import click

from penstock.apps.cli.failures import NoBroker, StartFailed, WrongSettings
from penstock.apps.cli.options import config_file_option, output_option
from penstock.apps.cli.plain_output import TABLE, say_content
from penstock.apps.cli.probe import protocol_at
from penstock.apps.cli.security_options import command_options, command_security, security_option
from penstock.apps.cli.setting_options import load_found
from penstock.apps.cli.terminal import say
from penstock.client.http_link import authorization, http_connection
from penstock.core.errors import InvalidConfig
from penstock.core.model import Address
from penstock.node.connections.addresses import is_wildcard, parse_address

PATH = "/readyz"
PORT_DEFAULT = 9080
REPLY_BYTES_MAX = 1 << 20
_OK, _UNAVAILABLE = 200, 503


@click.command()
@config_file_option
@click.option(
    "--http",
    metavar="HOST:PORT",
    help="Address of the HTTP protocol of the broker.  [default: as set in the file and the environment]",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1, 600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the broker may take to answer.",
)
@security_option
@output_option
def health(config_file: str | None, http: str | None, timeout_s: float, output: str) -> None:
    """Check whether a broker is ready for clients.

    Exits with 0 if it is, with 1 if it answers that it is not (stopping, fenced, or its disk has failed), and with 3 if
    it does not answer. Offline partitions are shown; they do not make a broker unready.

    \b
    penstock health --http 127.0.0.1:9080
    """
    known = http if http is not None else command_options().get("http")
    address = _given(known) if known is not None else _configured(config_file)
    status, found = _ask(address, timeout_s)
    if output != TABLE:
        say_content(found, output)
    else:
        offline = ", ".join(found.get("offline_partitions", ())) or "none"
        say(f"broker at {address}: {found.get('status')}; offline partitions: {offline}")
    if status != _OK:
        raise StartFailed(f"the broker at {address} is not ready: {found.get('reason', 'no reason given')}")


def _given(http: str) -> Address:
    try:
        return parse_address(http, PORT_DEFAULT)
    except InvalidConfig as error:
        raise WrongSettings(f"--http: {error}") from error


def _configured(config_file: str | None) -> Address:
    settings = load_found(config_file, {}).settings
    if not settings.http_port:
        raise WrongSettings(
            "http_port: health is asked over the HTTP protocol, which is off or has a free port; set http_port, or name"
            " the address with --http"
        )
    host = settings.host
    if is_wildcard(host):
        host = "::1" if ":" in host else "127.0.0.1"
    return Address(host, settings.http_port)


def _ask(address: Address, timeout_s: float) -> tuple[int, dict[str, Any]]:
    """The status and the content of the answer. Raises NoBroker."""
    security = command_security()
    headers = authorization(security, address)
    try:
        connection = http_connection(address, security, timeout_s)
    except OSError as error:
        raise NoBroker(f"no broker answers over HTTP at {address}: {error}") from error
    try:
        connection.request("GET", PATH, headers=headers)
        answer = connection.getresponse()
        content = json.loads(answer.read(REPLY_BYTES_MAX))
    except (OSError, HTTPException, ValueError) as error:
        raise NoBroker(f"no broker answers over HTTP at {address}: {_reason(address, error)}") from error
    finally:
        connection.close()
    if answer.status not in (_OK, _UNAVAILABLE) or not isinstance(content, dict):
        what = content.get("detail", "") if isinstance(content, dict) else ""
        raise NoBroker(
            f"{address} is not the HTTP port of a broker: it answered {answer.status} {what}".rstrip()
        )
    return answer.status, content


def _reason(address: Address, error: Exception) -> str:
    """Why no broker answers over HTTP: another door may listen there."""
    try:
        other = protocol_at(address.host, address.port)
    except OSError:
        other = None
    if other is None or "HTTP" in other:
        return str(error)
    return f"this is {other}; the HTTP door is on another port (setting http_port, {PORT_DEFAULT} by default)"
