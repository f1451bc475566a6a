"""From a frame to its handler: what is spoken here, what ends a connection, and what a defect does."""

from __future__ import annotations

from typing import Any

import pytest

from in_process_client import Caller, Closed
from manual_ports import turns
from penstock.core.errors import InvalidRequest
from penstock.doors.kafka.dispatch import Dispatch
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import API, ApiKey, ErrorCode, decode_response, encode_request, messages
from request_builders import metadata

from .conftest import Node

FOR_BROKERS = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.ENVELOPE,
    ApiKey.ALTER_PARTITION,
    ApiKey.RANGE_CHECKSUM,
    ApiKey.SCRUB_REPLICAS,
    ApiKey.MANAGE_SUBSCRIPTION,
}
"""Spoken, but not advertised: clients have no use for it."""


@pytest.mark.parametrize("version", range(5))
def test_api_versions_in_every_version(node: Node, version: int) -> None:
    async def talk(caller: Caller) -> Any:
        body = messages.ApiVersionsRequest()
        if version >= 3:
            body = messages.ApiVersionsRequest(
                client_software_name="penstock-test", client_software_version="1.0"
            )
        answer = await caller.ask(ApiKey.API_VERSIONS, version, body)
        assert caller.connection.session.software == ("penstock-test 1.0" if version >= 3 else "")
        return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}

    versions = node.talk(talk)
    assert versions[ApiKey.PRODUCE] == (0, API[ApiKey.PRODUCE].version_max), (
        "older clients compress only then"
    )
    assert versions[ApiKey.FETCH] == (API[ApiKey.FETCH].version_min, API[ApiKey.FETCH].version_max)
    assert versions.keys() == node.run(handlers_of(node)).keys() - FOR_BROKERS


def test_every_handler_takes_the_request_and_gives_the_response_of_its_api(node: Node) -> None:
    """The table maps numbers to handlers, where mypy cannot see a mix-up: the annotations must name the API."""
    for key, handler in node.run(handlers_of(node)).items():
        annotations = handler.__annotations__
        assert annotations["request"] == f"messages.{API[key].name}Request", handler
        given = annotations["return"]
        answers_itself = given in ("None", "Sliced[None]")
        assert answers_itself or f"messages.{API[key].name}Response" in given, (handler, given)


def test_a_table_that_is_not_served_is_there_for_a_reason(node: Node) -> None:
    """See `wire/kafka/tables`: what our own clients send, and what a cluster with security will serve."""
    unserved = {API[key].name for key in API.keys() - node.run(handlers_of(node)).keys()}
    sent = {"ShareGroupHeartbeat", "ShareFetch"}
    assert unserved == sent | {"AlterClientQuotas", "AlterUserScramCredentials"}


async def handlers_of(node: Node) -> dict[int, Any]:
    return Dispatch(Waist(node.broker))._handlers


def test_a_version_of_api_versions_that_is_not_known_is_told_which_are(node: Node) -> None:
    async def talk(caller: Caller) -> Any:
        frame = bytearray(encode_request(ApiKey.API_VERSIONS, 3, 9, "me", messages.ApiVersionsRequest()))
        frame[6:8] = (77).to_bytes(2, "big")
        caller.feed(bytes(frame))
        await turns()
        return decode_response(ApiKey.API_VERSIONS, 0, bytes(caller.line.sent[4:]))

    correlation_id, answer = node.talk(talk)
    assert (correlation_id, answer.error_code) == (9, ErrorCode.UNSUPPORTED_VERSION)
    assert [one.api_key for one in answer.api_keys] == [ApiKey.API_VERSIONS]


@pytest.mark.parametrize("name", ["", " x", "-x", "x" * 3 + "\n", "größe"])
def test_a_client_whose_name_is_no_name_is_refused(node: Node, name: str) -> None:
    async def talk(caller: Caller) -> Any:
        body = messages.ApiVersionsRequest(client_software_name=name, client_software_version="1")
        return await caller.ask(ApiKey.API_VERSIONS, 3, body)

    assert node.talk(talk).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("api_key", "version"), [(ApiKey.VOTE, 0), (999, 0), (ApiKey.METADATA, 99), (-1, -1)]
)
def test_what_is_not_spoken_ends_the_connection_loudly(
    node: Node, api_key: int, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def talk(caller: Caller) -> None:
        head = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
        frame = head + (5).to_bytes(4, "big") + b"\0\2me"
        caller.feed(len(frame).to_bytes(4, "big") + frame)
        assert caller.is_closed

    node.talk(talk)
    assert "is not supported" in caplog.text and "'me'" in caplog.text


def test_bytes_that_are_no_request_end_the_connection(node: Node) -> None:
    async def talk(caller: Caller) -> None:
        caller.feed(b"\0\0\0\x0a\0\x03\0\x0c\0\0\0\0\xff\xff")
        assert caller.is_closed

    node.talk(talk)


def test_a_handler_that_refuses_later_ends_the_connection(node: Node) -> None:
    async def talk(caller: Caller) -> None:
        async def refuse(call: Any, request: Any) -> Any:
            raise InvalidRequest("no")

        caller.doors.kafka._dispatch._handlers[ApiKey.METADATA] = refuse
        with pytest.raises(Closed):
            await caller.ask(ApiKey.METADATA, 12, metadata())

    node.talk(talk)


def test_a_defect_ends_its_connection_and_no_other(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    async def talk(caller: Caller) -> None:
        async def crash(call: Any, request: Any) -> Any:
            raise ZeroDivisionError

        handlers = caller.doors.kafka._dispatch._handlers
        healthy, handlers[ApiKey.METADATA] = handlers[ApiKey.METADATA], crash
        with pytest.raises(Closed):
            await caller.ask(ApiKey.METADATA, 12, metadata())
        handlers[ApiKey.METADATA] = healthy
        other = Caller(caller.doors)
        assert (await other.ask(ApiKey.METADATA, 12, metadata())).topics == []
        await other.hang_up()

    node.talk(talk)
    assert "this is a defect" in caplog.text


def test_slow_and_quick_answers_keep_their_order(node: Node) -> None:
    async def talk(caller: Caller) -> list[int]:
        caller.send(ApiKey.METADATA, 12, metadata("new", create=True))
        caller.send(ApiKey.METADATA, 12, metadata("other"))
        return [(await caller.answer()).topics[0].error_code for _ in range(2)]

    assert node.talk(talk) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
