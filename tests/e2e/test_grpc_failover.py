"""Leaders are killed under the services: every acknowledged record is read, in order, and streams go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from conditions import until
from grpc_services import Member, Stream, Stubs, batch_of, refusal, running_service, stubs_of
from penstock import Admin
from penstock.testing import Cluster, running_broker, running_cluster
from penstock.v1 import message_pb2, producer_pb2

PARTITIONS = 3
BATCHES, PER_BATCH = 150, 20


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(brokers=3, home=tmp_path / "cluster") as running:
        with Admin(bootstrap=running.bootstrap) as admin:
            admin.create_topic(
                "orders", partitions=PARTITIONS, replicas=3, configs={"min.insync.replicas": "2"}
            )
        yield running


def leader_of(cluster: Cluster, partition: int) -> int:
    with Admin(bootstrap=cluster.bootstrap) as admin:
        return admin.describe_topic("orders").partitions[partition].leader


class Writer(threading.Thread):
    """Publishes numbered values as one stream, and collects what was acknowledged."""

    def __init__(self, stubs: Stubs) -> None:
        super().__init__(daemon=True)
        self._stubs = stubs
        self.acknowledged: list[str] = []
        self.failed: list[Any] = []
        self.may_finish = threading.Event()

    def run(self) -> None:
        sent: list[list[str]] = []

        def requests() -> Iterator[producer_pb2.ProduceRequest]:
            for number in range(BATCHES):
                if number == BATCHES // 2:
                    self.may_finish.wait()
                sent.append([f"{number}-{index}" for index in range(PER_BATCH)])
                yield producer_pb2.ProduceRequest(
                    topic="orders",
                    messages=[
                        message_pb2.Message(value=text.encode(), partition=index % PARTITIONS)
                        for index, text in enumerate(sent[-1])
                    ],
                )

        for number, response in enumerate(self._stubs.producer.Publish(requests())):
            for text, outcome in zip(sent[number], response.outcomes, strict=True):
                if outcome.HasField("failure"):
                    self.failed.append(outcome.failure)
                else:
                    self.acknowledged.append(text)


def in_order(values: list[str]) -> list[str]:
    """Each value once, by its first delivery."""
    return list(dict.fromkeys(values))


def test_leaders_are_killed_under_both_streams(cluster: Cluster, tmp_path: Path) -> None:
    flags = ("--bootstrap", cluster.bootstrap)
    with (
        running_service(tmp_path, "producer-service", *flags) as producing,
        running_service(tmp_path, "consumer-service", *flags) as consuming,
        stubs_of(producing) as writes,
        stubs_of(consuming) as reads,
    ):
        writer = Writer(writes)
        writer.start()
        member = Member(reads.consumer, group="billing", topics=["orders"])
        found: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}

        def take() -> None:
            batch = member.until("batch")
            found[batch.partition] += [one.value.decode() for one in batch.messages]
            member.handle(batch)

        until(lambda: len(writer.acknowledged) >= PER_BATCH, "nothing is acknowledged")
        take()
        victim = leader_of(cluster, 0)
        cluster.broker(victim).kill()
        writer.may_finish.set()
        writer.join(120)
        assert not writer.is_alive()
        assert writer.failed == []
        assert len(writer.acknowledged) == BATCHES * PER_BATCH
        wanted = set(writer.acknowledged)
        while not wanted <= {text for part in found.values() for text in part}:
            take()
        member.cancel()
        cluster.broker(victim).start()
    for partition, part in found.items():
        numbers = [tuple(map(int, text.split("-"))) for text in in_order(part)]
        assert numbers == sorted(numbers), f"partition {partition} is out of order"


def test_the_producer_service_is_killed_under_a_stream(cluster: Cluster, tmp_path: Path) -> None:
    """What was acknowledged before the kill is there; what was not is written again by the client."""
    flags = ("--bootstrap", cluster.bootstrap)
    with (
        running_service(tmp_path, "producer-service", *flags) as producing,
        running_service(tmp_path, "consumer-service", *flags) as consuming,
        stubs_of(consuming) as reads,
    ):
        acknowledged: set[str] = set()
        for turn in range(2):
            with stubs_of(producing) as writes:
                for number in range(5):
                    texts = [f"{turn}-{number}-{index}" for index in range(PER_BATCH)]
                    messages = [message_pb2.Message(value=text.encode()) for text in texts]
                    request = producer_pb2.ProduceRequest(topic="orders", messages=messages)
                    assert writes.producer.Produce(request, timeout=60).failed_count == 0
                    acknowledged.update(texts)
            producing.kill()
            producing.start()
        member = Member(reads.consumer, group="audit", topics=["orders"])
        found: set[str] = set()
        while not acknowledged <= found:
            found.update(one.value.decode() for one in member.messages(1, member.handle))
        member.cancel()


def test_services_stop_although_their_broker_is_gone(tmp_path: Path) -> None:
    """With records that nobody acknowledges, and a member that cannot leave its group."""
    with running_broker(tmp_path / "broker", storage="memory") as broker:
        flags = ("--bootstrap", broker.bootstrap)
        with (
            running_service(tmp_path, "producer-service", *flags) as producing,
            running_service(tmp_path, "consumer-service", *flags) as consuming,
            stubs_of(producing) as writes,
            stubs_of(consuming) as reads,
        ):
            stream = Stream(writes.producer.Publish)
            stream.send(batch_of("orders", "a"))
            assert stream.read().failed_count == 0
            member = Member(reads.consumer, group="billing", topics=["orders"])
            assert len(member.messages(1)) == 1
            broker.kill()
            stream.send(batch_of("orders", "b"))
            member.request()
            assert refusal(lambda: member.until("batch"))[0] is grpc.StatusCode.INVALID_ARGUMENT
            member.end()
            again = Member(reads.consumer, group="billing", topics=["orders"])
            assert (producing.stop(30), consuming.stop(30)) == (0, 0)
            assert refusal(stream.read)[0] is grpc.StatusCode.UNAVAILABLE
            assert refusal(again.read)[0] is grpc.StatusCode.UNAVAILABLE
            stream.end()
            again.end()
        broker.start()
