"""What the coordinator's HTTP API tells besides the answers of commands: brokers, health, metrics. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.apps.control.services import Health, ServiceKind, Services, ServiceStatus
from penstock.client.access import read_addresses
from penstock.core.model import Address

KAFKA = "kafka"
LOOPBACK = "127.0.0.1"


def cluster_content(services: Services) -> dict[str, Any]:
    """The brokers in the shape of a broker's `GET /api/v1/cluster`; what only brokers know is null.

    It is known without asking a broker, so services that look for brokers get an answer at any time.
    """
    brokers = [one for one in services.status() if one.kind is ServiceKind.BROKER]
    addresses = read_addresses(services.bootstrap)
    return {
        "cluster_id": services.cluster_id,
        "broker": None,
        "controller": None,
        "controller_epoch": None,
        "metadata_index": None,
        "partitions": None,
        "brokers": [
            {
                "id": one.node_id,
                "addresses": _addresses(one, _advertised(one, index, brokers, addresses)),
                "rack": "",
                "fenced": one.health.rank < Health.CATCHING_UP.rank,
                "health": one.health.value,
            }
            for index, one in enumerate(brokers)
        ],
    }


def _advertised(
    one: ServiceStatus, index: int, brokers: Sequence[ServiceStatus], addresses: Sequence[Address]
) -> Address:
    """Where clients reach a broker: bootstrap lists the brokers in their order, or some of them by port."""
    if len(addresses) == len(brokers):
        return addresses[index]
    port = one.ports.get(KAFKA, 0)
    return next((found for found in addresses if found.port == port), Address(LOOPBACK, port))


def _addresses(one: ServiceStatus, advertised: Address) -> dict[str, str]:
    others = {door: str(Address(advertised.host, port)) for door, port in one.ports.items() if door != KAFKA}
    return {KAFKA: str(advertised), **others}


def health_content(services: Services) -> tuple[dict[str, Any], bool]:
    """The worst health of all services that nobody has stopped, and whether all of them serve."""
    found = services.status()
    wanted = [one.health for one in found if one.health is not Health.STOPPED]
    worst = min(wanted, key=lambda health: health.rank, default=Health.STOPPED)
    content = {"status": worst.value, "services": {one.name: one.health.value for one in found}}
    return content, worst.rank >= Health.CATCHING_UP.rank


def metrics_text(services: Services) -> str:
    """Prometheus' text format. Names and values are ours, so nothing needs escaping."""
    found = services.status()
    lines: list[str] = []

    def family(name: str, kind: str, meaning: str, samples: Sequence[tuple[str, float]]) -> None:
        lines.extend((f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"))
        lines.extend(f"{name}{{{labels}}} {value:g}" for labels, value in samples)

    def of(one: ServiceStatus) -> str:
        return f'service="{one.name}",kind="{one.kind.value}"'

    family(
        "penstock_service_up",
        "gauge",
        "Whether the service accepts connections and answers.",
        [(of(one), one.health.rank >= Health.CATCHING_UP.rank) for one in found],
    )
    family(
        "penstock_service_health",
        "gauge",
        "1 for the health that the service has now, 0 for the others.",
        [(f'{of(one)},health="{health.value}"', one.health is health) for one in found for health in Health],
    )
    family(
        "penstock_service_restarts_total",
        "counter",
        "Starts after an exit that nobody asked for.",
        [(of(one), one.restarts) for one in found],
    )
    family(
        "penstock_service_uptime_seconds",
        "gauge",
        "How long the process has been running; absent if there is none.",
        [(of(one), one.uptime_s) for one in found if one.uptime_s is not None],
    )
    return "".join(f"{line}\n" for line in lines)
