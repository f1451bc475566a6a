"""gRPC clients on a broker's Kafka port, relayed to a producer service: whole calls, its death, bad starts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import grpc
import pytest

from conditions import until
from grpc_services import ServiceProcess, Stream, Stubs, batch_of, refusal, running_service
from penstock import Consumer, Producer
from penstock.testing import Broker, running_broker
from penstock.v1 import message_pb2, producer_pb2

LARGE = bytes(range(256)) * 40_000
"""10 MB: many reads of the relay."""
SILENT_MS = 2_000


@pytest.fixture(scope="module")
def storage() -> Iterator[Broker]:
    """The broker that the service writes to."""
    with running_broker(storage="memory", message_bytes_max="32MiB") as running:
        yield running


@pytest.fixture(scope="module")
def service(storage: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    home = tmp_path_factory.mktemp("service")
    with running_service(home, "producer-service", "--bootstrap", storage.bootstrap) as found:
        yield found


@pytest.fixture(scope="module")
def broker(service: ServiceProcess) -> Iterator[Broker]:
    """The broker whose Kafka port gRPC clients use."""
    with running_broker(storage="memory", grpc_relay=service.address, frame_ms_max=SILENT_MS) as running:
        yield running


@pytest.fixture
def stubs(broker: Broker) -> Iterator[Stubs]:
    with grpc.insecure_channel(broker.bootstrap) as channel:
        yield Stubs(channel)


class KafkaClient(threading.Thread):
    """Writes to the same port by Kafka's protocol until it is told to stop."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._may_end = threading.Event()
        self.count = 0

    def run(self) -> None:
        with Producer(bootstrap=self._broker.bootstrap) as producer:
            while not self._may_end.is_set():
                producer.send("kafka", str(self.count).encode()).result(60)
                self.count += 1

    def finish(self) -> list[bytes | None]:
        self._may_end.set()
        self.join()
        with Consumer("kafka", bootstrap=self._broker.bootstrap, until_end=True) as consumer:
            return [record.value for record in consumer]


def closing_lines(broker: Broker) -> list[str]:
    return [line for line in broker.output().splitlines() if "closing connection" in line]


def test_calls_streams_and_kafka_on_one_port(broker: Broker, storage: Broker, stubs: Stubs) -> None:
    beside = KafkaClient(broker)
    beside.start()
    response = stubs.producer.Produce(batch_of("orders", "a", "b"))
    assert [one.offset for one in response.outcomes] == [0, 1]
    large = producer_pb2.ProduceRequest(topic="large", messages=[message_pb2.Message(value=LARGE)])
    assert stubs.producer.Produce(large).outcomes[0].offset == 0
    stream = Stream(stubs.producer.Publish)
    for number in range(50):
        stream.send(batch_of("stream", *(f"{number}-{index}" for index in range(100))))
    assert [stream.read().outcomes[0].offset for _ in range(50)] == list(range(0, 5_000, 100))
    stream.end()
    with Consumer("large", bootstrap=storage.bootstrap, until_end=True) as consumer:
        assert [record.value for record in consumer] == [LARGE]
    assert beside.is_alive() and beside.finish() == [str(number).encode() for number in range(beside.count)]
    assert closing_lines(broker) == []


def test_a_killed_service_ends_its_clients_and_a_new_one_is_found(
    broker: Broker, service: ServiceProcess, stubs: Stubs
) -> None:
    stream = Stream(stubs.producer.Publish)
    stream.send(batch_of("orders", "before"))
    assert not stream.read().failed_count
    before = len(closing_lines(broker))
    service.kill()
    with pytest.raises(grpc.RpcError) as ended:
        stream.read()
    stream.end()
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    until(lambda: len(closing_lines(broker)) > before, "the broker says why")
    assert f"the gRPC service at {service.address} ended" in closing_lines(broker)[before]
    code, _, _ = refusal(lambda: stubs.producer.Produce(batch_of("orders", "nobody")))
    assert code is grpc.StatusCode.UNAVAILABLE
    until(lambda: "cannot be reached" in broker.output(), "the broker names the service")
    service.start()
    response = stubs.producer.Produce(batch_of("orders", "after"), wait_for_ready=True, timeout=60)
    assert response.outcomes[0].offset > 0


@pytest.mark.parametrize(
    ("start", "word"), [(b"PRI ", "frame_ms_max"), (b"PRIX", "exceeds the limit"), (b"PRI X", "grpc_relay")]
)
def test_bad_starts_are_closed_with_a_reason(broker: Broker, start: bytes, word: str) -> None:
    before = len(closing_lines(broker))
    with socket.create_connection((broker.host, broker.port), timeout=60) as client:
        client.sendall(start)
        answer = client.recv(1_000)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
    assert [word in line for line in closing_lines(broker)[before:]] == [True]


def test_without_the_setting_a_grpc_client_is_sent_to_the_services(storage: Broker) -> None:
    with grpc.insecure_channel(storage.bootstrap) as channel:
        code, _, _ = refusal(lambda: Stubs(channel).producer.Produce(batch_of("orders", "a")))
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "point gRPC clients to the producer or consumer service" in storage.output()
