"""`penstock producer-service` and `penstock consumer-service`: the gRPC services, each a process of its own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from penstock.apps.cli.failures import StartFailed, WrongSettings
from penstock.apps.cli.security_options import (
    client_options,
    command_options,
    command_security,
    security_option,
)
from penstock.apps.gateways.settings import (
    CONSUMER_PORT,
    MESSAGE_BYTES_MAX,
    PRODUCER_PORT,
    ConsumerSettings,
    GatewaySettings,
    ProducerSettings,
)
from penstock.apps.ready import StartError
from penstock.client.access import read_addresses
from penstock.node.log_choices import LogFormat, LogLevel

_PRODUCER, _CONSUMER = ProducerSettings(), ConsumerSettings()


_SHARED = (
    click.option(
        "--coordinator",
        metavar="HOST:PORT",
        help="HTTP address of the coordinator, or of any broker, which lists the brokers. Excludes --bootstrap.",
    ),
    click.option(
        "--bootstrap",
        envvar="PENSTOCK_BOOTSTRAP",
        show_envvar=True,
        metavar="HOST:PORT",
        help="Address of a broker; several are comma-separated.  [default: 127.0.0.1:9092]",
    ),
    security_option,
    click.option(
        "--message-bytes-max",
        type=click.IntRange(1_024, 1 << 30),
        default=MESSAGE_BYTES_MAX,
        show_default=True,
        help="Largest gRPC message that is accepted.",
    ),
    click.option(
        "--ready-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="JSON file that is written once the service accepts calls (host, port, pid, services) and removed "
        "when it stops.",
    ),
    click.option(
        "--log-level",
        type=click.Choice([one.value for one in LogLevel]),
        default=LogLevel.INFO.value,
        show_default=True,
        help="Lowest severity that is logged.",
    ),
    click.option(
        "--log-format",
        type=click.Choice([one.value for one in LogFormat]),
        default=LogFormat.TEXT.value,
        show_default=True,
        help="Format of log lines.",
    ),
)


def _shared_options(port: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    options = (
        click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
        click.option(
            "--port",
            type=click.IntRange(0, 65_535),
            default=port,
            show_default=True,
            help="Port to listen on; 0 picks a free port.",
        ),
        *_SHARED,
    )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        return functools.reduce(lambda done, option: option(done), reversed(options), command)

    return decorate


@click.command("producer-service")
@_shared_options(PRODUCER_PORT)
@click.option(
    "--linger-ms",
    type=click.FloatRange(0, 900_000),
    default=_PRODUCER.linger_ms,
    show_default=True,
    help="How long a record may wait for its batch to fill.",
)
@click.option(
    "--batch-bytes",
    type=click.IntRange(1, 2**31 - 1),
    default=_PRODUCER.batch_bytes_max,
    show_default=True,
    help="Maximum size of a batch to a broker.",
)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default=_PRODUCER.compression,
    show_default=True,
    help="Compression of batches.",
)
@click.option(
    "--retries",
    type=click.IntRange(0, 2**31 - 1),
    help="Maximum number of retries of a batch.  [default: until --delivery-s]",
)
@click.option(
    "--delivery-s",
    type=click.FloatRange(0.1, 86_400),
    default=_PRODUCER.delivery_s_max,
    show_default=True,
    help="Delivery timeout: a record not acknowledged by then has failed.",
)
def producer_service(
    linger_ms: float,
    batch_bytes: int,
    compression: str,
    retries: int | None,
    delivery_s: float,
    **shared: Any,
) -> None:
    """Run the gRPC producer service.

    Runs in the foreground until Ctrl-C or SIGTERM. Other programs write through it with the calls of
    proto/penstock/v1/producer.proto. Needs the extra `grpc`.

    \b
    penstock producer-service --port 9193
    """
    from penstock.apps.gateways.producer_service import open_producer_service

    settings = ProducerSettings(
        linger_ms=linger_ms,
        batch_bytes_max=batch_bytes,
        compression=compression,
        retries=retries,
        delivery_s_max=delivery_s,
    )
    _run(shared, functools.partial(open_producer_service, settings=settings))


@click.command("consumer-service")
@_shared_options(CONSUMER_PORT)
@click.option(
    "--session-ms",
    type=click.IntRange(1_000, 1_800_000),
    default=_CONSUMER.session_ms,
    show_default=True,
    help="Session timeout of members, unless a stream asks for another one.",
)
@click.option(
    "--fetches-max",
    type=click.IntRange(1, 1_000),
    default=_CONSUMER.fetches_max,
    show_default=True,
    help="Fetch calls that may be in progress at the same time.",
)
@click.option(
    "--streams-max",
    type=click.IntRange(1, 10_000),
    default=_CONSUMER.streams_max,
    show_default=True,
    help="Subscribe streams that may be open at the same time.",
)
def consumer_service(session_ms: int, fetches_max: int, streams_max: int, **shared: Any) -> None:
    """Run the gRPC consumer service.

    Runs in the foreground until Ctrl-C or SIGTERM. Other programs read through it with the calls of
    proto/penstock/v1/consumer.proto. Needs the extra `grpc`.

    \b
    penstock consumer-service --port 9194
    """
    from penstock.apps.gateways.consumer_service import open_consumer_service

    settings = ConsumerSettings(session_ms=session_ms, fetches_max=fetches_max, streams_max=streams_max)
    _run(shared, functools.partial(open_consumer_service, settings=settings))


def _run(shared: dict[str, Any], open_service: Any) -> None:
    from penstock.apps.gateways.server import serve_gateway
    from penstock.node.logs import configure_logging

    level, form = LogLevel(shared.pop("log_level")), LogFormat(shared.pop("log_format"))
    configure_logging(level, form, sys.stderr)
    try:
        code = serve_gateway(_gateway_settings(**shared), open_service)
    except StartError as error:
        raise StartFailed(str(error)) from error
    sys.exit(code)


def _gateway_settings(
    host: str,
    port: int,
    coordinator: str | None,
    bootstrap: str | None,
    message_bytes_max: int,
    ready_file: Path | None,
) -> GatewaySettings:
    context = click.get_current_context()
    source = context.get_parameter_source("bootstrap")
    if coordinator is not None:
        if bootstrap is not None and source is click.core.ParameterSource.COMMANDLINE:
            raise WrongSettings("--coordinator and --bootstrap exclude each other.")
        bootstrap = None
        read_addresses(coordinator)
    elif bootstrap is None:
        bootstrap = command_options().get("bootstrap") or "127.0.0.1:9092"
    security = command_security()
    for address in read_addresses(bootstrap) if bootstrap is not None else ():
        security.check_secrecy(address.host)
    return GatewaySettings(
        host, port, bootstrap, coordinator, message_bytes_max, ready_file, client_options()
    )
