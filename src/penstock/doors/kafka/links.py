"""SaslHandshake and SaslAuthenticate for other brokers: after PENSTOCK-LINK the connection belongs to a broker.

From then on its replies may come in any order: the link carries the calls of many clients, and one that waits must not
hold up the others. Without a link key these calls are as unknown as they are to a single node.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.core.errors import BrokerError, message_of
from penstock.core.session import broker_principal
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.errors import code_of
from penstock.doors.kafka.versions import unsupported
from penstock.node.connections.connection import Connection
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ApiKey, ErrorCode, KafkaMessage, messages

if TYPE_CHECKING:
    from penstock.wire.link.handshake import LinkResponder

logger = logging.getLogger("penstock.kafka")


class LinkHandlers:
    """Handlers of the handshake, and the handshakes that have begun."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.peers
        self._begun: dict[Connection, LinkResponder] = {}

    def handlers(self) -> dict[int, Handler]:
        """Handlers by API key."""
        return {ApiKey.SASL_HANDSHAKE: self.handshake, ApiKey.SASL_AUTHENTICATE: self.authenticate}

    def handshake(
        self, call: Call, request: messages.SaslHandshakeRequest
    ) -> messages.SaslHandshakeResponse | None:
        """Begin the handshake. As in Kafka the connection ends after a refusal."""
        connection = call.connection
        responder = self._verbs.start_handshake(call.session)
        if responder is None:
            connection.close(unsupported(call.api_key, call.version, call.session))
            return None
        from penstock.wire.link.handshake import MECHANISM  # not loaded by a single broker

        response = messages.SaslHandshakeResponse(mechanisms=[MECHANISM])
        if request.mechanism != MECHANISM:
            response.error_code = int(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        elif connection in self._begun or call.session.is_broker:
            response.error_code = int(ErrorCode.ILLEGAL_SASL_STATE)
        else:
            self._begun[connection] = responder
            connection.on_close(lambda: self._forget(connection))
            return response
        _answer_and_end(call, response, f"SaslHandshake for mechanism {request.mechanism!r} refused")
        return None

    def authenticate(
        self, call: Call, request: messages.SaslAuthenticateRequest
    ) -> messages.SaslAuthenticateResponse | None:
        """Take one token of the handshake; after the last one, the caller is a broker of this cluster."""
        connection = call.connection
        if not self._verbs.offers_links(call.session):
            connection.close(unsupported(call.api_key, call.version, call.session))
            return None
        response = messages.SaslAuthenticateResponse(error_message=None, auth_bytes=b"")
        responder = self._begun.get(connection)
        if responder is None:
            response.error_code = int(ErrorCode.ILLEGAL_SASL_STATE)
            response.error_message = "SaslHandshake comes before SaslAuthenticate, once per connection"
            _answer_and_end(call, response, response.error_message)
            return None
        try:
            outcome = responder.receive(bytes(request.auth_bytes))
        except BrokerError as error:
            response.error_code, response.error_message = code_of(error), message_of(error)
            self._forget(connection)
            _answer_and_end(call, response, response.error_message)
            return None
        if isinstance(outcome, bytes):
            response.auth_bytes = outcome
            return response
        self._forget(connection)
        connection.session = call.session.with_principal(broker_principal(outcome))
        connection.allow_any_order()
        logger.info("broker %d opened a link to this broker", outcome, extra=connection.context)
        return response

    def _forget(self, connection: Connection) -> None:
        self._begun.pop(connection, None)


def _answer_and_end(call: Call, response: KafkaMessage, why: str) -> None:
    """Refuse: whoever cannot prove itself gets no second attempt on this connection."""
    logger.warning(
        "refused a link to this broker; closing connection: %s", why, extra=call.connection.context
    )
    call.answer(response)
    call.connection.finish()
