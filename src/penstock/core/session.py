"""The caller's identity, which a door passes to every method of the broker. Values only; checks nothing.

A connection creates its session when a client connects and replaces it when it learns more about the client.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that has not authenticated, by Kafka's name."""

_BROKER_TYPE = "Broker:"


def broker_principal(broker_id: int) -> str:
    """The principal of a broker of this cluster. Only the handshake of a link assigns it."""
    return f"{_BROKER_TYPE}{broker_id}"


@dataclass(frozen=True, slots=True)
class Session:
    """One client on one connection."""

    listener: str
    principal: str = ANONYMOUS
    address: str = "?"
    """The client's host, without its port."""
    client_id: str | None = None
    software_name: str = ""
    software_version: str = ""

    def with_client(self, client_id: str | None) -> Session:
        return replace(self, client_id=client_id)

    def with_principal(self, principal: str) -> Session:
        """The client has proven who it is."""
        return replace(self, principal=principal)

    def with_software(self, name: str, version: str) -> Session:
        return replace(self, software_name=name, software_version=version)

    @property
    def is_broker(self) -> bool:
        """Whether the caller is a broker of this cluster."""
        return self.principal.startswith(_BROKER_TYPE)

    @property
    def broker_id(self) -> int | None:
        """The broker that calls; None for everybody else."""
        return int(self.principal.removeprefix(_BROKER_TYPE)) if self.is_broker else None

    @property
    def software(self) -> str:
        """Name and version of the client library; empty while unknown."""
        return f"{self.software_name} {self.software_version}".strip()
