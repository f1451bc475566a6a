"""The producer service as a process against a real broker: outcomes, order, modes, formats, refusals, health."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from conditions import until
from grpc_services import ServiceProcess, Stream, Stubs, batch_of, refusal, running_service, stubs_of, values
from penstock import Consumer
from penstock.testing import Broker, running_broker
from penstock.v1 import message_pb2, producer_pb2, topics_pb2

Code = grpc.StatusCode
AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}'


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory", no_auto_create_topics=True) as running:
        yield running


@pytest.fixture(scope="module")
def service(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    home = tmp_path_factory.mktemp("service")
    with running_service(home, "producer-service", "--coordinator", f"127.0.0.1:{broker.http_port}") as found:
        yield found


@pytest.fixture(scope="module")
def stubs(service: ServiceProcess) -> Iterator[Stubs]:
    with stubs_of(service) as found:
        yield found


def create(stubs: Stubs, name: str, partitions: int = 1) -> str:
    stubs.topics.CreateTopic(topics_pb2.CreateTopicRequest(name=name, partitions=partitions))
    return name


def read(broker: Broker, topic: str, **options: object) -> list[object]:
    with Consumer(topic, bootstrap=broker.bootstrap, until_end=True, **options) as consumer:  # type: ignore[arg-type]
        return list(consumer)


def test_a_batch_has_an_outcome_per_message(stubs: Stubs, broker: Broker) -> None:
    topic = create(stubs, "batch", 3)
    request = producer_pb2.ProduceRequest(
        topic=topic,
        request_id="r-1",
        messages=[
            message_pb2.Message(value=b"zero", partition=0, timestamp=1_700_000_000_000),
            message_pb2.Message(value=b"", key=b"", partition=1),
            message_pb2.Message(partition=2),
            message_pb2.Message(value=b"nowhere", partition=7),
        ],
    )
    response = stubs.producer.Produce(request)
    assert response.request_id == "r-1"
    assert [one.partition for one in response.outcomes[:3]] == [0, 1, 2]
    assert [one.offset for one in response.outcomes[:3]] == [0, 0, 0]
    assert response.outcomes[0].timestamp == 1_700_000_000_000
    assert response.failed_count == 1
    assert response.outcomes[3].failure.reason == "NOT_FOUND"
    found = {one.partition: (one.key, one.value) for one in read(broker, topic)}  # type: ignore[attr-defined]
    assert found == {0: (None, b"zero"), 1: (b"", b""), 2: (None, None)}


def test_headers_in_both_forms(stubs: Stubs, broker: Broker) -> None:
    topic = create(stubs, "headers")
    raw = [
        message_pb2.Header(name="trace", value=b"\xff\0"),
        message_pb2.Header(name="trace", value=b""),
        message_pb2.Header(name="none"),
    ]
    stubs.producer.Produce(
        producer_pb2.ProduceRequest(
            topic=topic,
            messages=[
                message_pb2.Message(value=b"a", headers={"source": "web-app"}),
                message_pb2.Message(value=b"b", headers={"ignored": "yes"}, raw_headers=raw),
            ],
        )
    )
    first, second = (one.headers for one in read(broker, topic))  # type: ignore[attr-defined]
    assert first == (("source", b"web-app"),)
    assert second == (("trace", b"\xff\0"), ("trace", b""), ("none", None))


def test_partitioners(stubs: Stubs) -> None:
    topic = create(stubs, "partitioners", 3)
    turns = stubs.producer.Produce(
        batch_of(topic, *"abcdef", partitioner=message_pb2.PARTITIONER_ROUND_ROBIN)
    )
    assert sorted(one.partition for one in turns.outcomes) == [0, 0, 1, 1, 2, 2]
    keyed = [message_pb2.Message(key=key, value=b"x") for key in (b"k1", b"k2", b"k1", b"k1")]
    by_key = stubs.producer.Produce(producer_pb2.ProduceRequest(topic=topic, messages=keyed)).outcomes
    assert len({by_key[index].partition for index in (0, 2, 3)}) == 1


def test_ack_levels(stubs: Stubs, broker: Broker) -> None:
    topic = create(stubs, "acks")
    levels = (message_pb2.ACK_LEVEL_NONE, message_pb2.ACK_LEVEL_LEADER, message_pb2.ACK_LEVEL_ALL, 0)
    has_offset = []
    for level in levels:
        response = stubs.producer.Produce(batch_of(topic, f"level {level}", ack_level=level))
        has_offset.append(response.outcomes[0].HasField("offset"))
    assert has_offset == [False, True, True, True]
    until(
        lambda: len(read(broker, topic)) == len(levels), "the record without acknowledgement did not arrive"
    )


@pytest.mark.parametrize("mode", [1, 2])
def test_modes_without_transactions(stubs: Stubs, broker: Broker, mode: int) -> None:
    topic = create(stubs, f"mode-{mode}")
    assert stubs.producer.Produce(batch_of(topic, "a", "b", delivery=mode)).failed_count == 0
    assert [one.value for one in read(broker, topic)] == [b"a", b"b"]  # type: ignore[attr-defined]


def test_exactly_once_writes_all_or_nothing(stubs: Stubs, broker: Broker) -> None:
    topic = create(stubs, "exactly-once")
    mode = message_pb2.DELIVERY_MODE_EXACTLY_ONCE
    assert stubs.producer.Produce(batch_of(topic, "a", "b", delivery=mode)).failed_count == 0
    broken = batch_of(topic, "never", delivery=mode)
    broken.messages.add(value=b"nowhere", partition=9)
    assert refusal(lambda: stubs.producer.Produce(broken))[0] is Code.NOT_FOUND
    by_stream, last = stubs.producer.Publish(iter([broken, batch_of(topic, "c", delivery=mode)]))
    assert (by_stream.failed_count, last.failed_count) == (2, 0)
    assert [one.value for one in read(broker, topic)] == [b"a", b"b", b"c"]  # type: ignore[attr-defined]


def test_formats(stubs: Stubs, broker: Broker) -> None:
    topic = create(stubs, "formats")
    for serializer in (
        message_pb2.Serializer(format=message_pb2.FORMAT_JSON),
        message_pb2.Serializer(format=message_pb2.FORMAT_AVRO, avro_schema=AVRO),
    ):
        request = batch_of(topic, '{ "item": "kettle" }')
        request.value_serializer.CopyFrom(serializer)
        stubs.producer.Produce(request)
        request.messages[0].value = b"{nonsense"
        assert refusal(lambda request=request: stubs.producer.Produce(request))[:2] == (
            Code.INVALID_ARGUMENT,
            "SERIALIZATION_FAILED",
        )
    stored = [one.value for one in read(broker, topic)]  # type: ignore[attr-defined]
    assert stored == [b'{"item":"kettle"}', b"\x0ckettle"]


def test_a_stream_is_written_and_answered_in_order(stubs: Stubs, broker: Broker) -> None:
    topic = create(stubs, "stream")
    requests = [
        batch_of(topic, *(f"{turn}-{i}" for i in range(100)), request_id=str(turn)) for turn in range(200)
    ]
    answered = list(stubs.producer.Publish(iter(requests)))
    assert [one.request_id for one in answered] == [one.request_id for one in requests]
    offsets = [outcome.offset for one in answered for outcome in one.outcomes]
    assert offsets == list(range(20_000))
    wanted = [message.value for one in requests for message in one.messages]
    assert [one.value for one in read(broker, topic)] == wanted  # type: ignore[attr-defined]


def test_a_stream_keeps_its_options(stubs: Stubs) -> None:
    topic = create(stubs, "stream-options")
    stream = Stream(stubs.producer.Publish)
    stream.send(batch_of(topic, "a", request_id="1"))
    assert stream.read().request_id == "1"
    stream.send(batch_of(topic, "b", request_id="2", ack_level=message_pb2.ACK_LEVEL_LEADER))
    code, reason, found = refusal(stream.read)
    assert (code, reason, found["request_id"]) == (Code.INVALID_ARGUMENT, "BAD_ARGUMENT", "2")
    stream.end()


def test_refusals(stubs: Stubs) -> None:
    topic = create(stubs, "refusals")
    produce = stubs.producer.Produce
    bad = (Code.INVALID_ARGUMENT, "BAD_ARGUMENT")
    assert refusal(lambda: produce(batch_of(topic, "x", ack_level=9)))[:2] == bad
    assert refusal(lambda: produce(batch_of(topic, "x", delivery=9)))[:2] == bad
    assert refusal(lambda: produce(batch_of(topic, "x", partitioner=9)))[:2] == bad
    assert refusal(lambda: produce(batch_of("", "x")))[:2] == bad
    no_acks = batch_of(topic, "x", delivery=3, ack_level=message_pb2.ACK_LEVEL_LEADER)
    assert refusal(lambda: produce(no_acks))[:2] == bad
    negative = producer_pb2.ProduceRequest(topic=topic, messages=[message_pb2.Message(partition=-1)])
    assert refusal(lambda: produce(negative))[:2] == bad
    code, reason, found = refusal(lambda: produce(batch_of("nowhere", "x", request_id="r-9")))
    assert (code, reason) == (Code.NOT_FOUND, "NOT_FOUND")
    assert found == {"retriable": "false", "request_id": "r-9", "broker_code": found["broker_code"]}


def test_oversized_messages(stubs: Stubs) -> None:
    topic = create(stubs, "oversized")
    two = producer_pb2.ProduceRequest(topic=topic, messages=[*values("small"), *values("x" * (3 << 20))])
    outcomes = stubs.producer.Produce(two).outcomes
    assert [one.HasField("failure") for one in outcomes] == [False, True]
    assert (outcomes[1].failure.reason, outcomes[1].failure.retriable) == ("RECORD_TOO_LARGE", False)
    alone = producer_pb2.ProduceRequest(topic=topic, messages=values("x" * (3 << 20)))
    assert refusal(lambda: stubs.producer.Produce(alone))[:2] == (Code.INVALID_ARGUMENT, "RECORD_TOO_LARGE")
    huge = producer_pb2.ProduceRequest(topic=topic, messages=values("x" * (20 << 20)))
    assert refusal(lambda: stubs.producer.Produce(huge))[0] is Code.RESOURCE_EXHAUSTED


def test_a_deadline_is_honoured(stubs: Stubs) -> None:
    topic = create(stubs, "deadline")
    late = batch_of(topic, *(["x"] * 10_000))
    assert refusal(lambda: stubs.producer.Produce(late, timeout=0.001))[0] is Code.DEADLINE_EXCEEDED
    assert stubs.producer.Produce(batch_of(topic, "y"), timeout=30).failed_count == 0


def test_topics(stubs: Stubs, broker: Broker) -> None:
    request = topics_pb2.CreateTopicRequest(name="made", partitions=2, configs={"retention.ms": "60000"})
    assert stubs.topics.CreateTopic(request).created
    assert refusal(lambda: stubs.topics.CreateTopic(request))[:2] == (Code.ALREADY_EXISTS, "ALREADY_EXISTS")
    request.if_not_exists = True
    assert not stubs.topics.CreateTopic(request).created
    described = stubs.topics.DescribeTopic(topics_pb2.DescribeTopicRequest(name="made"))
    assert [one.partition for one in described.partitions] == [0, 1]
    assert described.configs["retention.ms"] == "60000"
    listed = {one.name for one in stubs.topics.ListTopics(topics_pb2.ListTopicsRequest()).topics}
    assert "made" in listed
    stubs.topics.DeleteTopic(topics_pb2.DeleteTopicRequest(name="made"))
    gone = topics_pb2.DescribeTopicRequest(name="made")
    assert refusal(lambda: stubs.topics.DescribeTopic(gone))[0] is Code.NOT_FOUND
    bad = topics_pb2.CreateTopicRequest(name="a b")
    assert refusal(lambda: stubs.topics.CreateTopic(bad))[0] is Code.INVALID_ARGUMENT
    (only,) = stubs.topics.GetCluster(topics_pb2.GetClusterRequest()).brokers
    assert f"{only.host}:{only.port}" == broker.bootstrap


def test_reflection_lists_services_and_their_messages(service: ServiceProcess, stubs: Stubs) -> None:
    reflect = reflection_pb2_grpc.ServerReflectionStub(stubs.channel).ServerReflectionInfo
    request = reflection_pb2.ServerReflectionRequest
    listed, described = reflect(
        iter([request(list_services=""), request(file_containing_symbol="penstock.v1.Producer")])
    )
    names = {one.name for one in listed.list_services_response.service}
    assert names >= {"penstock.v1.Producer", "penstock.v1.Topics", "grpc.health.v1.Health"}
    file = FileDescriptorProto.FromString(described.file_descriptor_response.file_descriptor_proto[0])
    assert [one.name for one in file.service[0].method] == ["Produce", "Publish"]
    assert service.services == ["penstock.v1.Producer", "penstock.v1.Topics"]


def test_health_follows_the_broker(tmp_path: Path) -> None:
    """The service starts without a broker, serves once there is one, and loses nothing that it acknowledged."""
    with (
        running_broker(tmp_path / "broker") as own,
        running_service(tmp_path, "producer-service", "--bootstrap", own.bootstrap) as found,
        stubs_of(found) as stubs,
    ):
        health = health_pb2_grpc.HealthStub(stubs.channel)

        def status() -> int:
            request = health_pb2.HealthCheckRequest(service="penstock.v1.Producer")
            return int(health.Check(request, timeout=10).status)

        until(lambda: status() == health_pb2.HealthCheckResponse.SERVING, "health is not SERVING")
        create(stubs, "kept")
        stubs.producer.Produce(batch_of("kept", "before"))
        own.kill()
        until(lambda: status() == health_pb2.HealthCheckResponse.NOT_SERVING, "health is not NOT_SERVING")
        found.restart()
        until(lambda: status() == health_pb2.HealthCheckResponse.NOT_SERVING, "health is not NOT_SERVING")
        code, reason, details = refusal(lambda: stubs.producer.Produce(batch_of("kept", "x")))
        assert (code, reason, details["retry_ms"]) == (Code.UNAVAILABLE, "UNREACHABLE", "500")
        own.start()
        until(lambda: status() == health_pb2.HealthCheckResponse.SERVING, "health is not SERVING")
        stubs.producer.Produce(batch_of("kept", "after"))
        assert [one.value for one in read(own, "kept")] == [b"before", b"after"]  # type: ignore[attr-defined]


def test_a_killed_service_leaves_nothing_behind(broker: Broker, tmp_path: Path) -> None:
    with (
        running_service(tmp_path, "producer-service", "--bootstrap", broker.bootstrap) as own,
        stubs_of(own) as stubs,
    ):
        create(stubs, "killed")
        stream = Stream(stubs.producer.Publish)
        stream.send(batch_of("killed", "acknowledged"))
        assert stream.read().failed_count == 0
        own.kill()
        assert refusal(stream.read)[0] is Code.UNAVAILABLE
        stream.end()
        own.start()
        stubs.producer.Produce(batch_of("killed", "later"), wait_for_ready=True, timeout=30)
        assert own.stop() == 0
    assert [one.value for one in read(broker, "killed")] == [b"acknowledged", b"later"]  # type: ignore[attr-defined]


def test_a_service_that_stops_answers_what_it_wrote(broker: Broker, tmp_path: Path) -> None:
    with (
        running_service(tmp_path, "producer-service", "--bootstrap", broker.bootstrap) as own,
        stubs_of(own) as stubs,
    ):
        create(stubs, "stopping")
        stream = Stream(stubs.producer.Publish)
        stream.send(batch_of("stopping", "a"))
        assert stream.read().failed_count == 0
        assert own.stop() == 0
        assert refusal(stream.read)[:2] == (Code.UNAVAILABLE, "UNREACHABLE")
        stream.end()
    assert [one.value for one in read(broker, "stopping")] == [b"a"]  # type: ignore[attr-defined]


def test_records_that_no_broker_takes_fail_one_by_one(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path / "broker", storage="memory") as own,
        running_service(
            tmp_path, "producer-service", "--bootstrap", own.bootstrap, "--delivery-s", "1"
        ) as found,
        stubs_of(found) as stubs,
    ):
        create(stubs, "gone")
        stream = Stream(stubs.producer.Publish)

        def is_written() -> bool:
            stream.send(batch_of("gone", "a", request_id="1"))
            return not stream.read().failed_count

        until(is_written, "the first record is written within its second")
        own.kill()
        stream.send(batch_of("gone", "b", "c", request_id="2"))
        answer = stream.read()
        assert (answer.request_id, answer.failed_count) == ("2", 2)
        assert [(one.failure.reason, one.failure.retriable) for one in answer.outcomes] == [
            ("TIMED_OUT", True)
        ] * 2
        stream.end()
        own.start()


def test_a_port_in_use_is_an_error(service: ServiceProcess, tmp_path: Path) -> None:
    other = ServiceProcess(tmp_path, "producer-service", "--bootstrap", "127.0.0.1:1")
    other.port = service.port
    with pytest.raises(Exception, match=f"Cannot listen on 127.0.0.1:{service.port}"):
        other.start()
    assert json.loads(service.ready_path.read_text())["port"] == service.port
