"""A cluster as one thing to ask, against a real broker: routing, retries, and words for what cannot be reached."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client.access import read_access
from penstock.client.errors import NotFound, TimedOut, TlsFailed, Unreachable
from penstock.client.raw.cluster import Cluster, Coordinator, Leader, Node, codes_in
from penstock.testing import Broker, running_broker
from penstock.wire.kafka import ApiKey, ErrorCode, messages


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        with connected(running) as cluster:
            create(cluster, "orders", 2)
        yield running


def connected(broker: Broker, **options: str) -> Cluster:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return Cluster(read_access({"bootstrap.servers": broker.bootstrap, **named}))


def create(cluster: Cluster, name: str, partitions: int) -> None:
    request = messages.CreateTopicsRequest
    wanted = request.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    answer = cluster.ask(ApiKey.CREATE_TOPICS, request(topics=[wanted], timeout_ms=10_000))
    assert set(codes_in(answer)) == {0}


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_topics_are_found_and_none_is_made(broker: Broker) -> None:
    with connected(broker) as cluster:
        assert cluster.topics(["orders", "nobody"])["orders"].partitions == [0, 1]
        assert set(cluster.topics()) == {"orders"}
        assert cluster.topics([]) == {}


def test_questions_reach_those_whom_they_concern(broker: Broker) -> None:
    with connected(broker) as cluster:
        (node_id,) = cluster.brokers()
        for target in (Node(node_id), Leader("orders", 1), Coordinator.of_group("g")):
            assert cluster.connection_to(target).address.port == broker.port
        request = messages.OffsetFetchRequest(group_id="g", topics=None)
        answer = cluster.ask(ApiKey.OFFSET_FETCH, request, Coordinator.of_group("g"), version_max=7)
        assert answer.error_code == 0


def test_a_partition_that_is_not_there_is_said_at_once(broker: Broker) -> None:
    with connected(broker) as cluster:
        with pytest.raises(NotFound, match="partition 7 of orders"):
            cluster.ask(ApiKey.METADATA, messages.MetadataRequest(topics=[]), Leader("orders", 7))
        with pytest.raises(NotFound, match="topic nobody"):
            cluster.ask(ApiKey.METADATA, messages.MetadataRequest(topics=[]), Leader("nobody", 0))


def test_a_broker_that_comes_back_is_asked_again() -> None:
    with running_broker(storage="memory") as mortal, connected(mortal) as cluster:
        assert cluster.topics() == {}
        mortal.kill()
        threading.Timer(0.3, mortal.start).start()
        assert cluster.topics() == {}


def test_any_address_of_the_list_will_do(broker: Broker) -> None:
    access = read_access({"bootstrap.servers": f"127.0.0.1:{closed_port()},{broker.bootstrap}"})
    with Cluster(access) as cluster:
        assert "orders" in cluster.topics()


def test_nobody_there_is_said_with_the_address_and_what_to_check() -> None:
    port = closed_port()
    options = {"bootstrap.servers": f"127.0.0.1:{port}", "default.api.timeout.ms": "300"}
    with pytest.raises(
        Unreachable, match=rf"127\.0\.0\.1:{port}: connection refused.*penstock start.*attempts"
    ):
        Cluster(read_access(options)).topics()


def test_a_code_that_stays_ends_in_its_own_name(broker: Broker) -> None:
    with connected(broker, default_api_timeout_ms="300") as cluster:
        request = messages.OffsetFetchRequest(group_id="g", topics=None)
        with pytest.raises(TimedOut) as caught:
            cluster.ask(
                ApiKey.OFFSET_FETCH,
                request,
                Coordinator.of_group("g"),
                version_max=7,
                again_on=frozenset({ErrorCode.NONE}),
            )
        assert caught.value.code == "NONE"


def test_something_that_is_no_broker_is_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            for _ in range(2):
                taken, _where = server.accept()
                with taken:
                    taken.recv(100)
                    taken.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        port = server.getsockname()[1]
        options = {"bootstrap.servers": f"127.0.0.1:{port}", "default.api.timeout.ms": "1"}
        with pytest.raises(Unreachable, match="not a Kafka broker"):
            Cluster(read_access(options)).topics()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost and its key, in one file."""
    place = tmp_path_factory.mktemp("tls")
    words = (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    command = ["openssl", *words.split(), "-keyout", str(place / "key.pem"), "-out", str(place / "cert.pem")]
    subprocess.run(command, check=True, capture_output=True)
    both = place / "both.pem"
    both.write_bytes((place / "key.pem").read_bytes() + (place / "cert.pem").read_bytes())
    return both


@pytest.fixture
def encrypted_port(broker: Broker, certificate: Path) -> Iterator[int]:
    """A port that speaks TLS and hands what it hears to the broker."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve_tls, args=(server, context, broker.port), daemon=True).start()
        yield server.getsockname()[1]


def _serve_tls(server: socket.socket, context: ssl.SSLContext, port: int) -> None:
    while True:
        try:
            taken, _ = server.accept()
        except OSError:
            return
        try:
            outer = context.wrap_socket(taken, server_side=True)
        except (ssl.SSLError, OSError):
            continue
        inner = socket.create_connection(("127.0.0.1", port))
        for source, target in ((outer, inner), (inner, outer)):
            threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while part := source.recv(65536):
            target.sendall(part)
    except OSError:
        target.close()


def test_tls_is_spoken_and_the_name_is_checked(encrypted_port: int, certificate: Path) -> None:
    options = {"security.protocol": "SSL", "ssl.ca.location": str(certificate), "default.api.timeout.ms": "1"}
    with Cluster(read_access({**options, "bootstrap.servers": f"localhost:{encrypted_port}"})) as trusted:
        assert trusted.connection_to().version_of(ApiKey.METADATA) > 0
    by_number = {**options, "bootstrap.servers": f"127.0.0.1:{encrypted_port}"}
    with pytest.raises(TlsFailed, match=r"is for another host.*tls_verify=False"):
        Cluster(read_access(by_number)).topics()
    unchecked = {**by_number, "ssl.endpoint.identification.algorithm": ""}
    with Cluster(read_access(unchecked)) as lenient:
        assert lenient.connection_to().version_of(ApiKey.METADATA) > 0


def test_the_wrong_protocol_for_a_port_is_said(broker: Broker, encrypted_port: int) -> None:
    plain = {"bootstrap.servers": f"127.0.0.1:{encrypted_port}", "default.api.timeout.ms": "1"}
    with pytest.raises(TlsFailed, match=r"is a TLS port\. Turn on tls \(security\.protocol"):
        Cluster(read_access(plain)).topics()
    sealed = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SSL",
        "default.api.timeout.ms": "1",
    }
    with pytest.raises(TlsFailed, match=r"is a port without TLS\. Turn off tls \(security\.protocol"):
        Cluster(read_access({**sealed, "socket.connection.setup.timeout.ms": "2000"})).topics()
