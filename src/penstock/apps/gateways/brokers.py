"""Where the brokers are: at the addresses given, or where the coordinator's HTTP API says.

`GET http://COORDINATOR/api/v1/cluster` lists the brokers, each with its `addresses`. The HTTP API of a broker answers
the same, so its address can be given instead of the coordinator's. Clients learn the rest from the brokers.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import urllib.error
import urllib.request
from typing import Any

from penstock.apps.gateways.settings import GatewaySettings
from penstock.client.access import Access, read_addresses
from penstock.client.errors import ClientError, Unreachable
from penstock.client.raw.cluster import Cluster

logger = logging.getLogger("penstock.gateways.brokers")

CLUSTER_PATH = "/api/v1/cluster"
ANSWER_S_MAX = 3.0
ANSWER_BYTES_MAX = 4 << 20
PROBE_MS_MAX = 2_000


class BrokerLookup:
    """Finds the brokers when they are needed first. The answer of a coordinator is used from then on."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._lock = asyncio.Lock()
        self._found: str | None = None

    async def bootstrap(self) -> str:
        """Addresses of brokers, comma-separated. Raises Unreachable."""
        coordinator = self._settings.coordinator
        if coordinator is None:
            assert self._settings.bootstrap is not None, "one of them is set"
            return self._settings.bootstrap
        async with self._lock:
            if self._found is None:
                self._found = await asyncio.to_thread(ask_coordinator, coordinator)
                logger.info("brokers found", extra={"coordinator": coordinator, "bootstrap": self._found})
            return self._found

    async def is_answered(self) -> bool:
        """Whether a broker answers a metadata request now. After a failure the coordinator is asked again."""
        try:
            await asyncio.to_thread(functools.partial(_probe, await self.bootstrap()))
        except ClientError as error:
            logger.debug("no broker answers: %s", error)
            self._found = None
            return False
        return True


def ask_coordinator(coordinator: str) -> str:
    """The Kafka addresses of all brokers that are not fenced. Blocking. Raises Unreachable, BadArgument."""
    read_addresses(coordinator)
    url = f"http://{coordinator}{CLUSTER_PATH}"
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_S_MAX) as answer:  # the scheme is fixed
            content = json.loads(answer.read(ANSWER_BYTES_MAX))
        addresses = broker_addresses(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise Unreachable(f"The coordinator at {coordinator} does not list its brokers: {reason}.") from error
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


def _probe(bootstrap: str) -> None:
    access = Access(
        read_addresses(bootstrap),
        client_id="penstock-grpc-probe",
        connect_ms_max=PROBE_MS_MAX,
        request_ms_max=PROBE_MS_MAX,
        call_ms_max=PROBE_MS_MAX,
    )
    with Cluster(access) as cluster:
        cluster.brokers()
