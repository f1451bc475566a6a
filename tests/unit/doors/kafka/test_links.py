"""The handshake of a link at the whole door: who becomes a broker, and what a broker's connection may do."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from in_process_client import Caller, Closed, open_doors
from manual_ports import turns
from penstock.core.machines.cluster.brokers import RegistrationRequest, decide_link_key
from penstock.core.session import ANONYMOUS
from penstock.wire.kafka import ApiKey, ErrorCode, messages
from penstock.wire.link.handshake import MECHANISM, LinkIdentity, LinkInitiator

from .conftest import Node

KEY = b"k" * 32
MY_ID = 3
ON_LINKS = {
    ApiKey.ENVELOPE,
    ApiKey.ALTER_PARTITION,
    ApiKey.RANGE_CHECKSUM,
    ApiKey.SCRUB_REPLICAS,
    ApiKey.MANAGE_SUBSCRIPTION,
}
SASL = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


def give_key(node: Node) -> None:
    node.run(node.broker.change(lambda catalog: decide_link_key(catalog.cluster, KEY)))


def initiator(node: Node, broker_id: int = 1, key: bytes = KEY, cluster_id: str = "") -> LinkInitiator:
    identity = LinkIdentity(broker_id, cluster_id or node.broker.identity.cluster_id, key)
    return LinkInitiator(identity, MY_ID, b"n" * 32)


async def begin(caller: Caller, mechanism: str = MECHANISM) -> messages.SaslHandshakeResponse:
    answer: messages.SaslHandshakeResponse = await caller.ask(
        ApiKey.SASL_HANDSHAKE, 1, messages.SaslHandshakeRequest(mechanism=mechanism)
    )
    return answer


async def pass_token(caller: Caller, token: bytes) -> messages.SaslAuthenticateResponse:
    answer: messages.SaslAuthenticateResponse = await caller.ask(
        ApiKey.SASL_AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=token)
    )
    return answer


async def shake(caller: Caller, one: LinkInitiator) -> messages.SaslAuthenticateResponse:
    assert (await begin(caller)).error_code == 0
    challenge = await pass_token(caller, one.hello)
    if challenge.error_code:
        return challenge
    return await pass_token(caller, one.answer(bytes(challenge.auth_bytes)))


async def has_ended(caller: Caller) -> bool:
    """The door has sent its last word and waits for the client to hang up."""
    await turns()
    return caller.line.has_ended or caller.is_closed


async def listed(caller: Caller) -> set[int]:
    answer = await caller.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
    return {one.api_key for one in answer.api_keys}


# -- without a link key


def test_a_single_node_knows_no_sasl(node: Node) -> None:
    async def talk(caller: Caller) -> None:
        assert not (await listed(caller)) & {*SASL, ApiKey.WRITE_TXN_MARKERS}
        with pytest.raises(Closed):
            await begin(caller)

    async def talk_further(caller: Caller) -> None:
        with pytest.raises(Closed):
            await pass_token(caller, b"")

    node.talk(talk)
    node.talk(talk_further)


# -- with one


def test_a_broker_of_a_cluster_lists_the_calls_between_brokers(node: Node) -> None:
    give_key(node)

    async def talk(caller: Caller) -> None:
        found = await listed(caller)
        assert found >= {*SASL, ApiKey.WRITE_TXN_MARKERS} and not found & ON_LINKS

    node.talk(talk)


def test_a_broker_that_knows_the_key_becomes_a_peer(node: Node) -> None:
    give_key(node)

    async def talk(caller: Caller) -> None:
        assert caller.connection.session.principal == ANONYMOUS
        answer = await shake(caller, initiator(node))
        assert (answer.error_code, answer.error_message, bytes(answer.auth_bytes)) == (0, None, b"")
        assert caller.connection.session.principal == "Broker:1" and caller.connection.is_unordered
        assert await listed(caller) >= ON_LINKS, "and goes on, with what only brokers may call"
        assert caller.connection.session.is_broker

    node.talk(talk)


def test_other_mechanisms_are_refused_with_the_list_as_kafka_does(node: Node) -> None:
    give_key(node)

    async def talk(caller: Caller) -> None:
        answer = await begin(caller, "PLAIN")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == [MECHANISM]
        assert await has_ended(caller) and not caller.connection.session.is_broker

    node.talk(talk)


def refused(node: Node, one: LinkInitiator) -> tuple[ErrorCode, str]:
    async def talk(caller: Caller) -> tuple[ErrorCode, str]:
        answer = await shake(caller, one)
        assert await has_ended(caller) and not caller.connection.session.is_broker
        return ErrorCode(answer.error_code), answer.error_message or ""

    return node.talk(talk)


def test_a_wrong_cluster_and_a_wrong_id_are_refused_with_the_cause(node: Node) -> None:
    give_key(node)
    code, message = refused(node, initiator(node, cluster_id="elsewhere"))
    assert code == ErrorCode.INCONSISTENT_CLUSTER_ID and "belongs to cluster 'elsewhere'" in message
    code, message = refused(node, initiator(node, broker_id=MY_ID))
    assert code == ErrorCode.BROKER_ID_NOT_REGISTERED and "is not a registered peer" in message


def test_a_client_that_poses_as_a_broker_is_refused(node: Node) -> None:
    give_key(node)

    async def talk(caller: Caller) -> None:
        await begin(caller)
        assert (await pass_token(caller, initiator(node).hello)).error_code == 0
        answer = await pass_token(caller, b"p" * 32)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert "does not know the link key" in str(answer.error_message)
        assert await has_ended(caller) and not caller.connection.session.is_broker

    node.talk(talk)


def test_only_registered_brokers_may_connect_once_there_are_any(node: Node) -> None:
    give_key(node)
    cluster_id = node.broker.identity.cluster_id
    request = RegistrationRequest(cluster_id, 1, "run")
    node.run(node.broker.change(lambda catalog: catalog.decide_register_broker(request)))
    code, message = refused(node, initiator(node, broker_id=2))
    assert code == ErrorCode.BROKER_ID_NOT_REGISTERED and "broker 2 is not a registered peer" in message

    async def talk(caller: Caller) -> None:
        assert (await shake(caller, initiator(node))).error_code == 0, "a fenced one may connect"

    node.talk(talk)


def test_calls_out_of_their_order_are_refused(node: Node) -> None:
    give_key(node)

    async def no_handshake(caller: Caller) -> None:
        answer = await pass_token(caller, initiator(node).hello)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE and await has_ended(caller)

    async def two_handshakes(caller: Caller) -> None:
        await begin(caller)
        assert (await begin(caller)).error_code == ErrorCode.ILLEGAL_SASL_STATE and await has_ended(caller)

    async def again(caller: Caller) -> None:
        await shake(caller, initiator(node))
        assert (await begin(caller)).error_code == ErrorCode.ILLEGAL_SASL_STATE and await has_ended(caller)

    for talk in (no_handshake, two_handshakes, again):
        node.talk(talk)


def test_handshakes_are_forgotten_with_their_connections(node: Node) -> None:
    give_key(node)

    async def main() -> None:
        doors = open_doors(node.broker)
        callers = [Caller(doors) for _ in range(3)]
        for caller in callers:
            await begin(caller)
            await pass_token(caller, initiator(node).hello)
            await caller.hang_up()
        handlers: Any = doors.kafka._dispatch._handlers[ApiKey.SASL_HANDSHAKE]
        assert handlers.__self__._begun == {}

    node.run(main())


# -- the order of replies


def waiting_fetch(node: Node) -> messages.FetchRequest:
    request = messages.FetchRequest
    one = request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    topic = request.FetchTopic(topic_id=node.broker.catalog.topic("orders").id, partitions=[one])
    return request(max_wait_ms=60_000, min_bytes=1, topics=[topic])


def ask_behind_a_waiting_fetch(node: Node, *, as_broker: bool) -> Coroutine[Any, Any, bytes]:
    """What has been sent once a call behind a waiting Fetch has had time to be answered."""

    async def main() -> bytes:
        caller = Caller(open_doors(node.broker))
        if as_broker:
            await shake(caller, initiator(node))
        caller.send(ApiKey.FETCH, 16, waiting_fetch(node))
        caller.send(ApiKey.DESCRIBE_CLUSTER, 1, messages.DescribeClusterRequest(endpoint_type=1))
        await turns(20)
        sent = bytes(caller.line.sent)
        assert caller.connection.in_flight >= 1
        await caller.hang_up()
        return sent

    return main()


def test_a_reply_to_a_broker_does_not_wait_for_earlier_ones(node: Node) -> None:
    give_key(node)
    node.make_topic("orders")
    assert node.run(ask_behind_a_waiting_fetch(node, as_broker=False)) == b""
    sent = node.run(ask_behind_a_waiting_fetch(node, as_broker=True))
    size, correlation_id = int.from_bytes(sent[:4], "big"), int.from_bytes(sent[4:8], "big")
    assert len(sent) == size + 4 and correlation_id == 5, "the answer to the second call, alone"
