"""Checks that a broker can be used: connects, encrypts, authenticates and sends a first request. Changes nothing."""

from __future__ import annotations

from dataclasses import replace

from penstock.client.access import Access
from penstock.client.errors import AuthenticationFailed, Refused, Unreachable
from penstock.client.raw.connection import TIMED_OUT, BrokerConnection
from penstock.core.model import Address
from penstock.wire.kafka import ApiKey, messages

PLAIN_MS_MAX = 1_000
"""How long a port without TLS and SASL may take to answer. Then it counts as usable: calls have their own timeouts."""


def check_broker(address: Address, access: Access) -> None:
    """Raises Unreachable, TlsFailed or AuthenticationFailed."""
    is_plain = access.encryption is None and access.credentials is None
    if is_plain:
        access = replace(access, request_ms_max=min(access.request_ms_max, PLAIN_MS_MAX))
    try:
        with BrokerConnection(address, access) as connection:
            _ask(connection, address, access)
    except AuthenticationFailed:
        raise
    except Refused:
        return  # it answers, in versions that another client may support
    except Unreachable as error:
        if not is_plain or error.code != TIMED_OUT:
            raise


def _ask(connection: BrokerConnection, address: Address, access: Access) -> None:
    """A request that needs authentication where it is required."""
    try:
        connection.call(ApiKey.METADATA, messages.MetadataRequest(topics=[], allow_auto_topic_creation=False))
    except Unreachable as error:
        if access.credentials is not None or error.code == TIMED_OUT:
            raise
        raise Unreachable(
            f"{address} closed the connection at the first request: it may require authentication. "
            "Set username and password, a token, or tls_cert and tls_key"
        ) from error


def failure_reason(error: Unreachable) -> str:
    """Why a broker is unreachable, for a message that names its address."""
    if isinstance(error.__cause__, OSError):
        return (error.__cause__.strerror or str(error.__cause__)).lower()
    return error.message.rstrip(".")
