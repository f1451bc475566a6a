"""A cluster whose processes all serve, for the ready line and the ready file of the command that runs it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.apps.control.cluster_plan import BrokerPlan, ClusterPlan
from penstock.core.model import Address
from penstock.node.connections.addresses import advertised_address, is_loopback


@dataclass(frozen=True, slots=True)
class ClusterReady:
    """What each process wrote into its ready file."""

    plan: ClusterPlan
    coordinator: Mapping[str, object]
    """The metadata process."""
    brokers: tuple[Mapping[str, object], ...]
    services: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    doors: Mapping[str, Address] = field(default_factory=dict)
    """Where the coordinator itself listens: `api`, `console`."""
    adopted: tuple[str, ...] = ()
    """Names of processes that were running already."""

    @property
    def bootstrap(self) -> str:
        return ",".join(map(str, self.addresses))

    @property
    def addresses(self) -> list[Address]:
        """Where clients reach each broker."""
        return [
            client_address(plan, str(ready["host"]), int(str(ready["port"])))
            for plan, ready in zip(self.plan.brokers, self.brokers, strict=True)
        ]

    def content(self) -> dict[str, object]:
        """For programs: the ready line and the ready file."""
        first = self.brokers[0]
        return {
            "bootstrap": self.bootstrap,
            "host": first["host"],
            "port": first["port"],
            "pid": os.getpid(),
            "data_dir": str(self.plan.root),
            "cluster_id": self.coordinator["cluster_id"],
            "coordinator": dict(self.coordinator),
            "brokers": [
                {"node_id": plan.settings.node_id, **ready}
                for plan, ready in zip(self.plan.brokers, self.brokers, strict=True)
            ],
            "services": {name: dict(ready) for name, ready in self.services.items()},
            **{name: str(address) for name, address in self.doors.items()},
            "adopted": list(self.adopted),
        }


def client_address(broker: BrokerPlan, host: str, port: int) -> Address:
    """Where clients reach a broker that listens there."""
    return Address(host, port) if is_loopback(host) else advertised_address(broker.settings, port)
