"""Opens a connection to another broker and proves both identities. Raises what stands against it; retries nothing."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple

from penstock.core.errors import ClusterForbidden, UnsupportedVersion
from penstock.core.model import Address
from penstock.core.ports import Rng
from penstock.core.version import __version__
from penstock.node.peers.link_connection import LinkConnection
from penstock.node.runtime.meters import LinkMeter
from penstock.wire.kafka import ApiKey, error_from_code, error_name, messages
from penstock.wire.link.handshake import MECHANISM, NONCE_BYTES, LinkIdentity, LinkInitiator

SOFTWARE = "penstock"
_API_VERSIONS = (3, 3)
"""The version in which the peer is asked for its versions: since Kafka 2.4."""


class LinkPeer(NamedTuple):
    """Where another broker listens for links, and what it has to prove."""

    address: Address
    cluster_id: str
    link_key: bytes

    def __repr__(self) -> str:
        """The key must not end up in a log."""
        return f"LinkPeer(address={self.address}, cluster_id={self.cluster_id!r}, link_key=…)"


async def open_connection(
    peer: LinkPeer, peer_id: int, broker_id: int, rng: Rng, meter: LinkMeter
) -> LinkConnection:
    """A connection on which both sides have proven themselves. Raises OSError, or the BrokerError that stands against
    it: ClusterForbidden, WrongCluster, UnknownBroker, UnsupportedVersion, Malformed, PeerUnavailable."""
    loop = asyncio.get_running_loop()
    make = partial(LinkConnection, loop, meter, f"broker-{broker_id}")
    _, connection = await loop.create_connection(make, peer.address.host, peer.address.port)
    initiator = LinkInitiator(
        LinkIdentity(broker_id, peer.cluster_id, peer.link_key), peer_id, rng.bytes(NONCE_BYTES)
    )
    try:
        await _learn_versions(connection)
        await _authenticate(connection, initiator)
        # Some calls are listed to brokers only.
        await _learn_versions(connection)
    except BaseException:
        connection.close("the handshake failed")
        raise
    return connection


async def _learn_versions(connection: LinkConnection) -> None:
    request = messages.ApiVersionsRequest(client_software_name=SOFTWARE, client_software_version=__version__)
    response = await connection.exchange(request, _API_VERSIONS)
    if response.error_code:
        raise error_from_code(
            response.error_code, f"it did not list its API versions: {error_name(response.error_code)}"
        )
    connection.supported = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}


async def _authenticate(connection: LinkConnection, initiator: LinkInitiator) -> None:
    if ApiKey.SASL_HANDSHAKE not in connection.supported:
        raise ClusterForbidden(
            "it accepts no links: it is not a broker of a cluster, or has not received the link key yet"
        )
    offered = await connection.exchange(messages.SaslHandshakeRequest(mechanism=MECHANISM))
    if offered.error_code:
        raise UnsupportedVersion(
            f"it does not offer {MECHANISM} but {', '.join(offered.mechanisms) or 'nothing'}: this is not the listener"
            f" of a Penstock broker ({error_name(offered.error_code)})"
        )
    challenge = await _exchange_token(connection, initiator.hello)
    await _exchange_token(connection, initiator.answer(challenge))


async def _exchange_token(connection: LinkConnection, token: bytes) -> bytes:
    response = await connection.exchange(messages.SaslAuthenticateRequest(auth_bytes=token))
    if response.error_code:
        why = response.error_message or error_name(response.error_code)
        raise error_from_code(response.error_code, f"it refuses this broker: {why}")
    return bytes(response.auth_bytes)
