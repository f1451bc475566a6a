"""Common librdkafka setup of all clients: broker address, reachability check, settings. Holds no connection."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from penstock.client.access import read_addresses
from penstock.client.errors import BadArgument, Unreachable
from penstock.client.options import ConnectionOptions
from penstock.client.rdkafka.translation import cause, translate

BOOTSTRAP_VARIABLE = "PENSTOCK_BOOTSTRAP"
BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
CONNECT_PAUSE_S = 0.1
RECONNECT_MS_MAX = 1_000

logger = logging.getLogger("penstock.client")


def address(options: ConnectionOptions) -> str:
    """Broker address: from the options, the environment, or the default."""
    return options["bootstrap"] or os.environ.get(BOOTSTRAP_VARIABLE) or BOOTSTRAP_DEFAULT


def wait_reachable(options: ConnectionOptions) -> str:
    """Wait until one of the addresses accepts a connection. Raises Unreachable after `connect_s_max`.

    librdkafka itself retries a wrong address forever without an error.
    """
    bootstrap = address(options)
    addresses = read_addresses(bootstrap)
    deadline = time.monotonic() + options["connect_s_max"]
    reason = ""
    while (left_s := deadline - time.monotonic()) > 0:
        for one in addresses:
            try:
                socket.create_connection(one, timeout=left_s).close()
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
            else:
                return bootstrap
        time.sleep(min(CONNECT_PAUSE_S, max(0.0, deadline - time.monotonic())))
    raise Unreachable(
        f"No broker answers at {bootstrap}: {reason}. Start one with `penstock start`, or set another address."
    )


def configure(options: ConnectionOptions, own: Mapping[str, Any]) -> dict[str, Any]:
    """All librdkafka settings of a client; the `librdkafka` option overrides the rest."""
    return {
        "bootstrap.servers": address(options),
        "client.id": options["client_id"],
        "socket.connection.setup.timeout.ms": max(1_000, ms(options["connect_s_max"])),
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        # The other strategy, rebootstrap, can hang forever when the broker dies during a transaction.
        "metadata.recovery.strategy": "none",
        "log_level": 0,
        "error_cb": _on_error,
        **own,
        **options["librdkafka"],
    }


def create(make: Any, config: Mapping[str, Any]) -> Any:
    """Create a librdkafka client. Raises BadArgument for invalid settings."""
    try:
        return make(dict(config))
    except KafkaException as error:
        raise BadArgument(f"Invalid librdkafka settings: {cause(error).str()}") from error


def ms(seconds: float) -> int:
    return round(seconds * 1000)


def _on_error(error: KafkaError) -> None:
    """Log a connection error. librdkafka keeps retrying; the current call raises if it fails."""
    translated = translate(error, "connection")
    logger.log(
        logging.ERROR if error.fatal() else logging.INFO, "%s", translated, extra={"code": translated.code}
    )
