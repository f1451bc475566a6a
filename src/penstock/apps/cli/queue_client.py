"""The queue client of commands: connects, and translates errors to messages and exit codes. Never prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from penstock.apps.cli.failures import NoBroker, ObjectNotFound, RefusedByBroker
from penstock.apps.cli.probe import protocol_at
from penstock.apps.cli.security_options import address_from_profile, client_options, security_option
from penstock.client import errors
from penstock.client.queue.broker_client import BrokerClient

REQUEST_S_MAX = 15.0
"""After this, a broker that accepted the connection counts as not answering."""

_queue = click.option(
    "--queue",
    envvar="PENSTOCK_QUEUE",
    default="127.0.0.1:9999",
    show_default=True,
    show_envvar=True,
    metavar="HOST:PORT",
    callback=address_from_profile("queue"),
    help="Address of the broker's queue door.",
)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def queue_option(command: _Command) -> _Command:
    """`--queue`, `--profile` and the security options of a command that talks to the queue door."""
    return _queue(security_option(command))


@contextmanager
def queue_client(address: str, client_id: str) -> Iterator[BrokerClient]:
    """A connected client; its errors become a message and an exit code."""
    host, port = _host_and_port(address)
    try:
        tls = {name: value for name, value in client_options().items() if name.startswith("tls")}
        with BrokerClient(
            host, port, client_id, request_timeout_s=REQUEST_S_MAX, profile="", **tls
        ) as client:
            yield client
    except (errors.Unreachable, errors.TimedOut, errors.TlsFailed) as error:
        raise NoBroker(_with_other_door(str(error), host, port)) from error
    except errors.NotFound as error:
        raise ObjectNotFound(_sentence(error)) from error
    except errors.BadArgument as error:
        raise click.UsageError(_sentence(error)) from error
    except errors.ClientError as error:
        raise RefusedByBroker(_sentence(error)) from error


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit():
        raise click.BadParameter(f"{address!r} is not of the form HOST:PORT.", param_hint="'--queue'")
    return host.strip("[]"), int(port)


def _sentence(error: errors.ClientError) -> str:
    return error.message[:1].upper() + error.message[1:] + ("" if error.message.endswith(".") else ".")


def _with_other_door(message: str, host: str, port: int) -> str:
    """The message, and which other door listens at the address, if one does."""
    try:
        other = protocol_at(host, port)
    except OSError:
        return message
    if other is None or "queue" in other:
        return message
    return (
        f"{host}:{port} is {other}; the queue door is on another port (setting queue_port, 9999 by default)."
    )
