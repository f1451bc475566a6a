"""LINK: another broker proves that it is one, and introduces the client that it relays.

From then on the connection speaks for that client: its principal is the one that the broker vouches for.
"""

from __future__ import annotations

import logging

from penstock.core.errors import ClusterForbidden, InvalidRequest
from penstock.core.session import Session
from penstock.node.waist.peers import PeerVerbs
from penstock.wire.link.handshake import LinkResponder
from penstock.wire.queue.frames import Frame, unknown_type
from penstock.wire.queue.request_properties import ADDRESS, CLIENT, PRINCIPAL, RequestProperties

logger = logging.getLogger("penstock.queue")


class PeerHandshake:
    """The handshake of one connection."""

    def __init__(self, verbs: PeerVerbs) -> None:
        self._verbs = verbs
        self._responder: LinkResponder | None = None
        self.peer_id: int | None = None
        """The broker at the other end, once it has proven itself."""

    def receive(self, session: Session, request: Frame, fields: RequestProperties) -> bytes | Session:
        """Take one token: returns the challenge, or the client's session after the last one. Raises BrokerError."""
        if self.peer_id is not None:
            raise InvalidRequest("LINK: this connection belongs to a broker already")
        if self._responder is None:
            self._responder = self._verbs.start_handshake(session)
            if self._responder is None:
                raise unknown_type(int(request.type))  # as unknown as it is to a single node
        outcome = self._responder.receive(request.body)
        if isinstance(outcome, bytes):
            return outcome
        client = Session(
            session.listener, fields.text(PRINCIPAL), fields.text(ADDRESS), fields.values.get(CLIENT)
        )
        if client.is_broker:
            raise ClusterForbidden("LINK: a broker relays clients, not other brokers")
        self.peer_id = outcome
        return client
