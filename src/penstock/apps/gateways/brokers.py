"""Where the brokers are: at the addresses given, or where the coordinator's HTTP API says.

`GET http://COORDINATOR/api/v1/cluster` lists the brokers, each with its `addresses`. The HTTP API of a broker answers
the same, so its address can be given instead of the coordinator's. Clients learn the rest from the brokers.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http.client import HTTPException
from typing import Any

from penstock.apps.gateways.settings import GatewaySettings
from penstock.client.access import Access, Security, read_addresses
from penstock.client.errors import AuthenticationFailed, ClientError, TlsFailed, Unreachable
from penstock.client.http_link import authorization, http_connection
from penstock.client.options import ConnectionOptions, resolve_options
from penstock.client.raw.cluster import Cluster
from penstock.client.security import read_security

logger = logging.getLogger("penstock.gateways.brokers")

CLUSTER_PATH = "/api/v1/cluster"
_OK = 200
ANSWER_S_MAX = 3.0
ANSWER_BYTES_MAX = 4 << 20
PROBE_MS_MAX = 2_000

Connect = Callable[[], Awaitable[dict[str, Any]]]
"""Finds the brokers; returns options of their clients: `bootstrap` and the security options."""


class BrokerLookup:
    """Finds the brokers when they are needed first. The answer of a coordinator is used from then on."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._lock = asyncio.Lock()
        self._found: str | None = None
        self._rejection = ""

    async def bootstrap(self) -> str:
        """Addresses of brokers, comma-separated. Raises Unreachable."""
        coordinator = self._settings.coordinator
        if coordinator is None:
            assert self._settings.bootstrap is not None, "one of them is set"
            return self._settings.bootstrap
        async with self._lock:
            if self._found is None:
                security = read_security(_resolved(self._settings.client_options))
                self._found = await asyncio.to_thread(ask_coordinator, coordinator, security)
                logger.info("brokers found", extra={"coordinator": coordinator, "bootstrap": self._found})
            return self._found

    async def connection(self) -> dict[str, Any]:
        """Options of a client of the brokers. Raises Unreachable."""
        return {**self._settings.client_options, "bootstrap": await self.bootstrap()}

    async def is_answered(self) -> bool:
        """Whether a broker answers a metadata request now. After a failure the coordinator is asked again."""
        try:
            await asyncio.to_thread(functools.partial(_probe, await self.connection()))
        except ClientError as error:
            is_final = isinstance(error, AuthenticationFailed | TlsFailed)
            if is_final and error.message != self._rejection:
                self._rejection = error.message
                logger.error("brokers reject this service: %s", error)
            else:
                logger.debug("no broker answers: %s", error)
            self._found = None
            return False
        return True


def ask_coordinator(coordinator: str, security: Security | None = None) -> str:
    """The Kafka addresses of all brokers that are not fenced. Blocking. Raises Unreachable, TlsFailed, BadArgument."""
    address, *_ = read_addresses(coordinator)
    secured = security or Security()
    headers = authorization(secured, address)
    try:
        connection = http_connection(address, secured, ANSWER_S_MAX)
        try:
            connection.request("GET", CLUSTER_PATH, headers=headers)
            answer = connection.getresponse()
            if answer.status != _OK:
                raise ValueError(f"HTTP status {answer.status} {answer.reason}")
            content = json.loads(answer.read(ANSWER_BYTES_MAX))
        finally:
            connection.close()
        addresses = broker_addresses(content)
    except (OSError, HTTPException, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreachable(f"The coordinator at {coordinator} does not list its brokers: {error}.") from error
    if not addresses:
        raise Unreachable(f"The coordinator at {coordinator} knows no broker that is running.")
    return ",".join(addresses)


def broker_addresses(content: Any) -> list[str]:
    """The Kafka addresses in a description of the cluster; those of fenced brokers only if there are no others."""
    rows = [(one["addresses"]["kafka"], bool(one.get("fenced"))) for one in content["brokers"]]
    addresses = [address for address, is_fenced in rows if not is_fenced] or [address for address, _ in rows]
    for address in addresses:
        read_addresses(address)
    return addresses


def access_of(connection: dict[str, Any]) -> Access:
    """The same for clients that do not use librdkafka. Raises BadArgument."""
    options = _resolved(connection)
    security = read_security(options)
    assert options["bootstrap"] is not None, "the lookup has found it"
    return Access(
        read_addresses(options["bootstrap"]),
        credentials=security.credentials,
        encryption=security.encryption,
        auth_without_tls=security.auth_without_tls,
    )


def _resolved(options: dict[str, Any]) -> ConnectionOptions:
    return resolve_options(ConnectionOptions, options, "gRPC service")


def _probe(connection: dict[str, Any]) -> None:
    access = replace(
        access_of(connection),
        client_id="penstock-grpc-probe",
        connect_ms_max=PROBE_MS_MAX,
        request_ms_max=PROBE_MS_MAX,
        call_ms_max=PROBE_MS_MAX,
    )
    with Cluster(access) as cluster:
        cluster.brokers()
