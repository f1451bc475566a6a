"""Verbs for other brokers of the cluster: how they prove that they are. Nobody needs a permission to try."""

from __future__ import annotations

from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.wire.link.handshake import NONCE_BYTES, LinkIdentity, LinkResponder


class PeerVerbs:
    """Serves the handshake of links."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._cluster = broker.catalog.cluster

    def offers_links(self, session: Session) -> bool:
        """Whether other brokers may connect: the cluster has a link key."""
        return self._cluster.link_key is not None

    def start_handshake(self, session: Session) -> LinkResponder | None:
        """This broker's side of one handshake; None if the cluster has no link key."""
        link_key, identity = self._cluster.link_key, self._broker.identity
        if link_key is None:
            return None
        cluster_id = self._cluster.cluster_id or identity.cluster_id
        nonce = self._broker.runtime.rng.bytes(NONCE_BYTES)
        return LinkResponder(LinkIdentity(identity.node_id, cluster_id, link_key), nonce, self._is_member)

    def _is_member(self, broker_id: int) -> bool:
        """A fenced broker is a member: it may have to catch up over links before it is unfenced."""
        return not self._cluster.has_brokers or self._cluster.find_broker(broker_id) is not None
