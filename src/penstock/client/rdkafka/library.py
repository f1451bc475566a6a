"""Common librdkafka setup of all clients: broker address, reachability check, settings. Holds no connection."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from penstock.client.access import Access, Security, is_kafka_security, read_addresses
from penstock.client.errors import (
    AuthenticationFailed,
    BadArgument,
    ClientError,
    TimedOut,
    TlsFailed,
    Unreachable,
)
from penstock.client.options import ConnectionOptions
from penstock.client.raw.connection import TIMED_OUT
from penstock.client.raw.reachability import check_broker, failure_reason
from penstock.client.rdkafka.translation import cause, translate
from penstock.client.security import read_security
from penstock.core.model import Address

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
CONNECT_PAUSE_S = 0.1
RECONNECT_MS_MAX = 1_000
RECENT_S = 30.0
"""Longer than the pause between two attempts to connect, which repeat an error that persists."""

logger = logging.getLogger("penstock.client")


def address(options: ConnectionOptions) -> str:
    """Broker address: from the options, which include the environment and the profile, or the default."""
    return options["bootstrap"] or BOOTSTRAP_DEFAULT


def wait_reachable(options: ConnectionOptions) -> str:
    """Wait until a broker answers at one of the addresses. Raises Unreachable after `connect_s_max`.

    librdkafka itself retries forever without an error: a wrong address, wrong credentials, an untrusted certificate.
    The latter two raise AuthenticationFailed and TlsFailed at once, unless another address is fine.
    """
    bootstrap = address(options)
    addresses = read_addresses(bootstrap)
    security = read_security(options)
    for one in addresses:
        security.check_secrecy(one.host)
    deadline = time.monotonic() + options["connect_s_max"]
    reason = ""
    while (left_s := deadline - time.monotonic()) > 0:
        failures: list[ClientError] = []
        for one in addresses:
            try:
                _check(one, options, security, left_s)
            except Unreachable as error:
                if not reason or error.code != TIMED_OUT:  # the last attempt may just have too little time
                    reason = failure_reason(error)
            except (AuthenticationFailed, TlsFailed) as error:
                failures.append(error)
            else:
                return bootstrap
        if failures:
            raise failures[0]
        time.sleep(min(CONNECT_PAUSE_S, max(0.0, deadline - time.monotonic())))
    raise Unreachable(
        f"No broker answers at {bootstrap}: {reason}. Start one with `penstock start`, or set another address."
    )


def _check(one: Address, options: ConnectionOptions, security: Security, left_s: float) -> None:
    """Raise if no broker answers. With security in the `librdkafka` option, only connects."""
    try:
        if any(is_kafka_security(name) for name in options["librdkafka"]):
            socket.create_connection(one, timeout=left_s).close()
            return
        access = Access(
            (one,),
            client_id=options["client_id"],
            connect_ms_max=max(1, ms(left_s)),
            request_ms_max=max(1, ms(left_s)),
            credentials=security.credentials,
            encryption=security.encryption,
            auth_without_tls=security.auth_without_tls,
        )
        check_broker(one, access)
    except OSError as error:
        raise Unreachable(str(error)) from error


def security_settings(security: Security) -> dict[str, Any]:
    """Map the security of a connection to librdkafka settings."""
    credentials, encryption = security.credentials, security.encryption
    protocol = ("SASL_" if credentials else "") + ("SSL" if encryption else "PLAINTEXT")
    settings: dict[str, Any] = {} if protocol == "PLAINTEXT" else {"security.protocol": protocol}
    if encryption is not None:
        named = {
            "ssl.ca.location": encryption.ca_path,
            "ssl.certificate.location": encryption.certificate_path,
            "ssl.key.location": encryption.key_path or encryption.certificate_path,
            "ssl.key.password": encryption.key_password,
        }
        settings |= {name: value for name, value in named.items() if value is not None}
        settings["ssl.endpoint.identification.algorithm"] = "https" if encryption.checks_name else "none"
    if credentials is not None:
        settings["sasl.mechanism"] = credentials.mechanism
        source = credentials.token
        if source is None:
            settings |= {"sasl.username": credentials.username, "sasl.password": credentials.password}
        else:
            settings["oauth_cb"] = lambda _config: tuple(source.fetch())
    return settings


class LibraryErrors:
    """Errors that librdkafka reports outside of calls. It retries whatever the cause, so calls time out.

    `explain` gives a call the cause: rejected credentials or failed TLS at all brokers.
    """

    def __init__(self) -> None:
        self._last: ClientError | None = None
        self._last_s = 0.0
        self._are_all_down = False

    def on_error(self, error: KafkaError) -> None:
        """librdkafka's callback: logs the error, and remembers why no broker can be used."""
        translated = translate(error, "connection")
        if isinstance(translated, AuthenticationFailed | TlsFailed):
            self._last, self._last_s = translated, time.monotonic()
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._are_all_down = True
        is_serious = error.fatal() or translated is self._last
        logger.log(
            logging.ERROR if is_serious else logging.INFO, "%s", translated, extra={"code": translated.code}
        )

    def explain(self, error: ClientError) -> ClientError:
        """The cause of a call that timed out or found no broker; otherwise its own error."""
        found = self._cause() if isinstance(error, Unreachable | TimedOut) else None
        if found is None:
            return error
        return type(found)(f"{error.message}. Cause: {found.message}", code=found.code)

    def raise_cause(self) -> None:
        """Raise if all brokers rejected the connection for a reason that a retry does not remove."""
        found = self._cause()
        if found is not None:
            self._last, self._are_all_down = None, False
            raise found

    def _cause(self) -> ClientError | None:
        """The last rejection, if it is recent: librdkafka repeats attempts, and does not report a success."""
        is_recent = time.monotonic() - self._last_s < RECENT_S
        return self._last if self._are_all_down and is_recent else None


def configure(
    options: ConnectionOptions, own: Mapping[str, Any], errors: LibraryErrors | None = None
) -> dict[str, Any]:
    """All librdkafka settings of a client; the `librdkafka` option overrides the rest."""
    return {
        "bootstrap.servers": address(options),
        "client.id": options["client_id"],
        "socket.connection.setup.timeout.ms": max(1_000, ms(options["connect_s_max"])),
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        # The other strategy, rebootstrap, can hang forever when the broker dies during a transaction.
        "metadata.recovery.strategy": "none",
        "log_level": 0,
        "error_cb": (errors or LibraryErrors()).on_error,
        **security_settings(read_security(options)),
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
