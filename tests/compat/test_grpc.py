"""Clients of the gRPC services that know only proto/ or nothing: stubs generated for Go, and reflection alone."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from compat.roster import do_without
from compat.runtimes import go_grpc_command
from compat.vocabulary import MissingRuntime
from conditions import until
from grpc_services import ServiceProcess, running_service
from penstock.testing import Broker, running_broker

CLIENT_S_MAX = 180
Services = tuple[ServiceProcess, ServiceProcess]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


@pytest.fixture(scope="module")
def services(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    home = tmp_path_factory.mktemp("services")
    flags = ("--bootstrap", broker.bootstrap)
    with (
        running_service(home, "producer-service", *flags) as producer,
        running_service(home, "consumer-service", *flags) as consumer,
    ):
        yield producer, consumer


def test_a_client_in_go(services: Services) -> None:
    producer, consumer = services
    try:
        command = go_grpc_command(producer.address, consumer.address, "from-go")
    except MissingRuntime as lacking:
        do_without(lacking)
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_S_MAX, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "health": ["SERVING", "SERVING"],
        "partitions": 3,
        "offsets": [0, 1, 2],
        "answers": [str(number) for number in range(10)],
        "read": 1_003,
        "distinct": 1_003,
        "null_keys": 1,
        "header": base64.b64encode(b"\xff\0").decode(),
        "lag": 0,
        "code": "InvalidArgument",
        "reason": "BAD_ARGUMENT",
        "ended": "EOF",
    }


class Reflected:
    """What a tool such as grpcurl does: everything about the services comes from the server."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._known = ProtoReflectionDescriptorDatabase(channel)
        self._pool = DescriptorPool(self._known)

    def services(self) -> list[str]:
        return list(self._known.get_services())

    def methods(self, service: str) -> list[str]:
        return [one.name for one in self._pool.FindServiceByName(service).methods]

    def fields(self, message: str) -> dict[str, int]:
        return {one.name: one.number for one in self._pool.FindMessageTypeByName(message).fields}

    def call(self, service: str, method: str, request: dict[str, Any]) -> dict[str, Any]:
        """A unary call, with JSON as request and response."""
        found = self._pool.FindServiceByName(service).FindMethodByName(method)
        make, read = GetMessageClass(found.input_type), GetMessageClass(found.output_type)
        invoke: Callable[..., Any] = self._channel.unary_unary(
            f"/{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=read.FromString,
        )
        response = invoke(json_format.ParseDict(request, make()), timeout=60)
        found_dict: dict[str, Any] = json_format.MessageToDict(response)
        return found_dict


def test_reflection_is_enough_to_list_describe_and_call(services: Services) -> None:
    producer, consumer = services
    with producer.channel() as writing, consumer.channel() as reading:
        writer, reader = Reflected(writing), Reflected(reading)
        standard = {"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection", "penstock.v1.Topics"}
        assert set(writer.services()) == {"penstock.v1.Producer", *standard}
        assert set(reader.services()) == {"penstock.v1.Consumer", *standard}
        assert writer.methods("penstock.v1.Producer") == ["Produce", "Publish"]
        assert writer.fields("penstock.v1.ProduceRequest")["ack_level"] == 3
        assert reader.methods("penstock.v1.Consumer")[:2] == ["Fetch", "Subscribe"]
        created = {"name": "reflected", "partitions": 1}
        assert writer.call("penstock.v1.Topics", "CreateTopic", created) == {"created": True}
        messages = [{"key": base64.b64encode(b"k").decode(), "value": base64.b64encode(b"v").decode()}]
        produced = {"topic": "reflected", "messages": messages, "ackLevel": "ACK_LEVEL_ALL"}
        written = writer.call("penstock.v1.Producer", "Produce", produced)
        assert written["outcomes"][0]["offset"] == "0"
        fetched = reader.call("penstock.v1.Consumer", "Fetch", {"topic": "reflected", "maxWaitMs": 10_000})
        assert [(one["key"], one["value"]) for one in fetched["messages"]] == [
            (messages[0]["key"], messages[0]["value"])
        ]

        def are_serving() -> bool:
            found = [one.call("grpc.health.v1.Health", "Check", {}) for one in (writer, reader)]
            return found == [{"status": "SERVING"}] * 2

        until(are_serving, "the services report that brokers answer")


def test_the_proto_directory_is_complete() -> None:
    """Other languages need nothing but proto/: every import of a file is in it."""
    protocol = Path(__file__).resolve().parents[2] / "proto"
    for file in protocol.rglob("*.proto"):
        for line in file.read_text().splitlines():
            if line.startswith("import "):
                assert (protocol / line.split('"')[1]).is_file(), f"{file.name}: {line}"
