"""A broker that accepts links, and another host that calls it, in the simulated world.

`ScriptedPeer` stands in for the broker where a test needs answers that no broker gives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from penstock.core.errors import BrokerError
from penstock.core.machines.cluster.brokers import decide_link_key
from penstock.core.model import Address
from penstock.node.broker import Broker
from penstock.node.peers.link_opening import LinkPeer
from penstock.node.peers.links import PeerLinks
from penstock.node.runtime.meters import LinkMeter
from penstock.node.runtime.runtime import Runtime
from penstock.wire.kafka import (
    API,
    ApiKey,
    decode_request,
    decode_request_header,
    encode_response,
    messages,
)
from penstock.wire.link.handshake import LinkIdentity, LinkResponder
from sim import node as sim_node
from sim.loop import SimLoop, run
from sim.machine import Machine

KEY = b"k" * 32
CLUSTER = "north"
MY_ID, PEER_ID = 7, 3
HERE = "other"
SETTINGS = replace(sim_node.SETTINGS, node_id=PEER_ID, auto_create_topics=True)
_SIZE_BYTES = 4
TIMEOUT_MS = 10_000


class LinkWorld:
    """The hosts, and the links of the one that calls."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.machine = Machine(loop, sim_node.NAME)
        self.here = Machine(loop, HERE)
        self.runtime = Runtime(self.here.clock, self.here.rng, self.here.files, self.here.workers)
        self.peer: LinkPeer | None = LinkPeer(Address(sim_node.NAME, sim_node.PORT), CLUSTER, KEY)
        """What is known about the peer; None: it is fenced."""
        self.scripted = ScriptedPeer()

    @property
    def meter(self) -> LinkMeter:
        return self.runtime.meters.link(PEER_ID)

    async def start_broker(self) -> Broker:
        """A whole broker with a link key."""

        async def main(machine: Machine) -> Broker:
            node = await sim_node.boot(machine, SETTINGS)
            await node.broker.change(lambda catalog: decide_link_key(catalog.cluster, KEY))
            return node.broker

        broker = await self.machine.boot(main)
        assert self.peer is not None
        self.peer = self.peer._replace(cluster_id=broker.identity.cluster_id)
        return broker

    async def start_scripted(self) -> ScriptedPeer:
        await self.machine.boot(lambda machine: self.scripted.listen())
        return self.scripted

    def links(self) -> PeerLinks:
        return PeerLinks(self.runtime, MY_ID, lambda broker_id: self.peer if broker_id == PEER_ID else None)


Test = Callable[[LinkWorld, PeerLinks], Coroutine[Any, Any, None]]


def play(test: Test, seed: int = 1) -> None:
    """Run a test on the host that calls."""

    async def main(loop: SimLoop) -> None:
        world = LinkWorld(loop)

        async def here(machine: Machine) -> None:
            links = world.links()
            await test(world, links)
            await links.close()

        await world.here.boot(here)

    run(seed, main)


class Received(NamedTuple):
    """A request that the scripted peer got."""

    api_key: int
    version: int
    number: int
    body: Any


class ScriptedPeer(asyncio.Protocol):
    """Proves itself like a broker, then answers only as the test says."""

    def __init__(self) -> None:
        self.identity = LinkIdentity(PEER_ID, CLUSTER, KEY)
        self.connections = 0
        self.requests: list[Received] = []
        """Those after the handshake."""
        self.hides = False
        """Lists no SASL calls, like a single node."""
        self.is_mute = False
        """Says nothing, not even during the handshake."""
        self._buffer = b""
        self._responder: LinkResponder | None = None
        self._transport: asyncio.Transport | None = None

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: self, sim_node.NAME, sim_node.PORT)
        await server.start_serving()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.connections += 1
        self._transport, self._buffer = transport, b""
        self._responder = LinkResponder(self.identity, b"r" * 32, lambda broker_id: True)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _SIZE_BYTES:
            end = _SIZE_BYTES + int.from_bytes(self._buffer[:_SIZE_BYTES], "big")
            if len(self._buffer) < end:
                return
            frame, self._buffer = self._buffer[_SIZE_BYTES:end], self._buffer[end:]
            header = decode_request_header(frame)
            body = decode_request(header.api_key, header.version, frame, header.body_position)
            self._handle(Received(header.api_key, header.version, header.correlation_id, body))

    def _handle(self, received: Received) -> None:
        if self.is_mute:
            return
        match received.api_key:
            case ApiKey.API_VERSIONS:
                self.answer(received, messages.ApiVersionsResponse(api_keys=self._versions()))
            case ApiKey.SASL_HANDSHAKE:
                self.answer(received, messages.SaslHandshakeResponse(mechanisms=["PENSTOCK-LINK"]))
            case ApiKey.SASL_AUTHENTICATE:
                assert self._responder is not None
                outcome = self._responder.receive(bytes(received.body.auth_bytes))
                token = outcome if isinstance(outcome, bytes) else b""
                self.answer(received, messages.SaslAuthenticateResponse(auth_bytes=token, error_message=None))
            case _:
                self.requests.append(received)

    def _versions(self) -> list[messages.ApiVersionsResponse.ApiVersion]:
        hidden = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} if self.hides else set()
        return [
            messages.ApiVersionsResponse.ApiVersion(
                api_key=api.key, min_version=api.version_min, max_version=api.version_max
            )
            for api in API.values()
            if api.key not in hidden
        ]

    # -- what the test says

    def answer(self, received: Received, body: Any) -> None:
        parts: Any = encode_response(received.api_key, received.version, received.number, body)
        self.say(b"".join(bytes(part) for part in parts))

    def say(self, content: bytes) -> None:
        assert self._transport is not None
        self._transport.write(content)

    def hang_up(self) -> None:
        assert self._transport is not None
        self._transport.abort()


# -- calls


def describe() -> messages.DescribeClusterRequest:
    return messages.DescribeClusterRequest(endpoint_type=1)


async def failure(links: PeerLinks, timeout_ms: int = TIMEOUT_MS, broker_id: int = PEER_ID) -> BrokerError:
    """The error of a call that cannot succeed."""
    with pytest.raises(BrokerError) as raised:
        await links.call(broker_id, describe(), timeout_ms=timeout_ms)
    return raised.value


async def until(condition: Callable[[], object]) -> None:
    """Let virtual time pass until something has become so."""
    while not condition():
        await asyncio.sleep(0.01)


def start(links: PeerLinks, request: Any = None, timeout_ms: int = TIMEOUT_MS) -> list[Any]:
    """A call whose outcome will be in the list."""
    outcomes: list[Any] = []
    links.send(PEER_ID, request or describe(), outcomes.append, timeout_ms=timeout_ms)
    return outcomes
