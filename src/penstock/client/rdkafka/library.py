"""The library underneath, for all clients: address, first wait_reachable, settings. Never keeps a socket."""

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
    """Where the broker is: as given, from the environment, or the default."""
    return options["bootstrap"] or os.environ.get(BOOTSTRAP_VARIABLE) or BOOTSTRAP_DEFAULT


def wait_reachable(options: ConnectionOptions) -> str:
    """Connect once to any of the addresses, so that a wrong one is told at once. Raises Unreachable."""
    bootstrap = address(options)
    places = read_addresses(bootstrap)
    deadline = time.monotonic() + options["connect_s_max"]
    why = ""
    while (left_s := deadline - time.monotonic()) > 0:
        for place in places:
            try:
                socket.create_connection(place, timeout=left_s).close()
            except OSError as error:
                why = (error.strerror or str(error)).lower()
            else:
                return bootstrap
        time.sleep(min(CONNECT_PAUSE_S, max(0.0, deadline - time.monotonic())))
    raise Unreachable(
        f"No broker answers at {bootstrap}: {why}. Start one with `penstock start`, or name another."
    )


def configure(options: ConnectionOptions, own: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of the library for one client; what the program gave by the library's own names wins."""
    return {
        "bootstrap.servers": address(options),
        "client.id": options["client_id"],
        "socket.connection.setup.timeout.ms": max(1_000, ms(options["connect_s_max"])),
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        # Its other strategy can hang for ever when the broker dies inside of a transaction.
        "metadata.recovery.strategy": "none",
        "log_level": 0,
        "error_cb": _heard,
        **own,
        **options["librdkafka"],
    }


def create(make: Any, config: Mapping[str, Any]) -> Any:
    """A client of the library. Raises BadArgument for settings that it does not take."""
    try:
        return make(dict(config))
    except KafkaException as error:
        raise BadArgument(f"These settings cannot be used: {cause(error).str()}") from error


def ms(seconds: float) -> int:
    return round(seconds * 1000)


def _heard(error: KafkaError) -> None:
    """The library tells every failed attempt here and goes on trying; the call in progress tells what matters."""
    told = translate(error, "connection")
    logger.log(logging.ERROR if error.fatal() else logging.INFO, "%s", told, extra={"code": told.code})
