"""Verbs for other brokers of the cluster: how they prove that they are, and how this one proves itself to them. Nobody
needs a permission to try."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.core.access import CLUSTER, Operation
from penstock.core.errors import ClusterForbidden, PeerUnavailable
from penstock.core.model import Address
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.waist.authorization import Authorization, require_peer

if TYPE_CHECKING:  # a single broker has no links and does not load them
    from penstock.wire.link.handshake import LinkIdentity, LinkInitiator, LinkResponder


class PeerDoor(NamedTuple):
    """A door of another broker, and this broker's side of the handshake there."""

    broker_id: int
    address: Address
    initiator: LinkInitiator


class PeerVerbs:
    """Serves the handshake between brokers."""

    def __init__(self, broker: Broker, authorization: Authorization) -> None:
        self._broker = broker
        self._authorization = authorization
        self._cluster = broker.catalog.cluster

    def offers_links(self, session: Session) -> bool:
        """Whether other brokers may connect: the cluster has a link key."""
        return self._cluster.link_key is not None

    def start_handshake(self, session: Session) -> LinkResponder | None:
        """This broker's side of one handshake; None if the cluster has no link key."""
        identity = self._identity()
        if identity is None:
            return None
        from penstock.wire.link.handshake import NONCE_BYTES, LinkResponder

        return LinkResponder(identity, self._broker.runtime.rng.bytes(NONCE_BYTES), self._is_member)

    def door(self, session: Session, broker_id: int, name: str) -> PeerDoor:
        """The door of that name of another broker, to relay the session's client there. Raises PeerUnavailable."""
        identity, address = self._identity(), self.address(session, broker_id, name)
        if identity is None or address is None:
            found = self._cluster.find_broker(broker_id)
            why = "is unknown or fenced"
            if found is not None and not found.is_fenced:
                why = f"has no {name} listener: enable {name}_port on every broker of the cluster"
            raise PeerUnavailable(f"broker {broker_id} {why}, nothing was sent")
        from penstock.wire.link.handshake import NONCE_BYTES, LinkInitiator

        nonce = self._broker.runtime.rng.bytes(NONCE_BYTES)
        return PeerDoor(broker_id, address, LinkInitiator(identity, broker_id, nonce))

    def address(self, session: Session, broker_id: int, name: str) -> Address | None:
        """Where a running broker has its door of that name; None if it is fenced, unknown or has none."""
        found = self._cluster.find_broker(broker_id)
        return None if found is None or found.is_fenced else found.listeners.get(name)

    def is_running(self, session: Session, broker_id: int) -> bool:
        """Whether a broker is registered and not fenced."""
        found = self._cluster.find_broker(broker_id)
        return found is not None and not found.is_fenced

    def client_of(self, session: Session, principal: str, address: str) -> Session:
        """The session of a client whose call another broker forwards. Raises unless the caller is a broker."""
        self._authorization.authorize(session, Operation.CLUSTER_ACTION, CLUSTER)
        require_peer(session)
        client = Session(session.listener, principal, address)
        if client.is_broker:
            raise ClusterForbidden("brokers forward the calls of clients, not of other brokers")
        return client

    def _identity(self) -> LinkIdentity | None:
        link_key, identity = self._cluster.link_key, self._broker.identity
        if link_key is None:
            return None
        from penstock.wire.link.handshake import LinkIdentity

        return LinkIdentity(identity.node_id, self._cluster.cluster_id or identity.cluster_id, link_key)

    def _is_member(self, broker_id: int) -> bool:
        """A fenced broker is a member: it may have to catch up over links before it is unfenced."""
        return not self._cluster.has_brokers or self._cluster.find_broker(broker_id) is not None
