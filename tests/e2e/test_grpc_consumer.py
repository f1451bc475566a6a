"""The consumer service as a process against a real broker: fetches, members, commits, settlement, transactions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from conditions import until
from grpc_services import Member, ServiceProcess, Stubs, refusal, running_service, stubs_of
from penstock import Admin, Consumer, Producer
from penstock.testing import Broker, running_broker
from penstock.v1 import consumer_pb2, message_pb2, topics_pb2

Code = grpc.StatusCode
MANUAL, ACK = consumer_pb2.COMMIT_MODE_MANUAL, consumer_pb2.COMMIT_MODE_ACK


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


@pytest.fixture(scope="module")
def service(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    home = tmp_path_factory.mktemp("service")
    with running_service(home, "consumer-service", "--bootstrap", broker.bootstrap) as found:
        yield found


@pytest.fixture(scope="module")
def stubs(service: ServiceProcess) -> Iterator[Stubs]:
    with stubs_of(service) as found:
        yield found


def fill(broker: Broker, topic: str, *texts: str, partitions: int = 1) -> str:
    """A topic with these values in partition 0."""
    with Admin(bootstrap=broker.bootstrap) as admin:
        admin.create_topic(topic, partitions=partitions, if_not_exists=True)
    with Producer(bootstrap=broker.bootstrap) as producer:
        for text in texts:
            producer.send(topic, text, partition=0)
    return topic


def committed(broker: Broker, group: str) -> dict[int, int]:
    with Admin(bootstrap=broker.bootstrap) as admin:
        return {one.partition: one.offset for one in admin.committed(group)}


def members(broker: Broker, group: str) -> int:
    with Admin(bootstrap=broker.bootstrap) as admin:
        return len(admin.describe_group(group).members)


def texts(messages: list[Any]) -> list[str]:
    return [one.value.decode() for one in messages]


def place(topic: str, partition: int = 0) -> message_pb2.TopicPartition:
    return message_pb2.TopicPartition(topic=topic, partition=partition)


def position(topic: str, offset: int) -> message_pb2.Position:
    return message_pb2.Position(topic=topic, partition=0, offset=offset)


def test_fetch(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "fetch", *"abcde")
    fetch = stubs.consumer.Fetch
    request = consumer_pb2.FetchRequest(topic=topic, offset=1, max_messages=2, request_id="f-1")
    found = fetch(request)
    assert (texts(found.messages), found.next_offset, found.request_id) == (["b", "c"], 3, "f-1")
    assert [one.offset for one in found.messages] == [1, 2]
    assert (found.high_watermark, found.log_start_offset) == (5, 0)
    assert texts(fetch(consumer_pb2.FetchRequest(topic=topic, offset=-2)).messages) == list("abcde")
    at_end = fetch(consumer_pb2.FetchRequest(topic=topic, offset=-1, max_wait_ms=10))
    assert (texts(at_end.messages), at_end.next_offset) == ([], 5)


def test_fetch_waits_for_the_first_message(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "fetch-waits")
    waiting = stubs.consumer.Fetch.future(consumer_pb2.FetchRequest(topic=topic, max_wait_ms=30_000))
    fill(broker, topic, "late")
    assert texts(waiting.result(timeout=60).messages) == ["late"]


def test_fetch_refusals(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "fetch-refusals", "a", "b")
    fetch = stubs.consumer.Fetch

    def why(**request: Any) -> tuple[Any, str]:
        return refusal(lambda: fetch(consumer_pb2.FetchRequest(**request)))[:2]

    assert why(topic="nowhere") == (Code.NOT_FOUND, "NOT_FOUND")
    assert why(topic=topic, partition=9) == (Code.NOT_FOUND, "NOT_FOUND")
    assert why(topic=topic, offset=99) == (Code.OUT_OF_RANGE, "OFFSET_OUT_OF_RANGE")
    for wrong in ({"topic": ""}, {"offset": -3}, {"partition": -1}, {"max_wait_ms": 99_999}, {"reset": 3}):
        assert why(**{"topic": topic, **wrong}) == (Code.INVALID_ARGUMENT, "BAD_ARGUMENT")
    reset = consumer_pb2.FetchRequest(topic=topic, offset=99, reset=consumer_pb2.RESET_POLICY_EARLIEST)
    assert texts(fetch(reset).messages) == ["a", "b"]


def test_fetch_reads_compressed_batches_and_skips_aborted_ones(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "fetch-aborted")
    with Producer(bootstrap=broker.bootstrap, compression="zstd", linger_ms=100) as producer:
        for index in range(50):
            producer.send(topic, f"kept {index}")
    writing = Producer(bootstrap=broker.bootstrap, delivery="exactly_once", transactional_id="fetch-aborted")
    with writing, pytest.raises(ZeroDivisionError), writing.transaction():
        writing.send(topic, "aborted").result()
        raise ZeroDivisionError
    kept = [f"kept {index}" for index in range(50)]
    found = stubs.consumer.Fetch(consumer_pb2.FetchRequest(topic=topic))
    assert (texts(found.messages), found.next_offset) == (kept, 52)
    everything = consumer_pb2.FetchRequest(topic=topic, read_uncommitted=True)
    assert texts(stubs.consumer.Fetch(everything).messages) == [*kept, "aborted"]
    part = consumer_pb2.FetchRequest(topic=topic, offset=10, max_messages=5)
    assert texts(stubs.consumer.Fetch(part).messages) == kept[10:15]


def test_fetch_honours_the_deadline(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "fetch-deadline")
    request = consumer_pb2.FetchRequest(topic=topic, max_wait_ms=30_000)
    call = stubs.consumer.Fetch.future(request, timeout=0.001)
    try:
        assert len(call.result().messages) == 0, "answered in time, without the long poll"
    except grpc.RpcError as error:
        assert error.code() is Code.DEADLINE_EXCEEDED


def test_null_empty_and_headers(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "nulls")
    headers = [("a", b"text"), ("a", b"\xff"), ("b", None)]
    with Producer(bootstrap=broker.bootstrap) as producer:
        producer.send(topic, None, key="", headers=headers)
        producer.send(topic, "")
    by_fetch = stubs.consumer.Fetch(consumer_pb2.FetchRequest(topic=topic)).messages
    member = Member(stubs.consumer, group="nulls", topics=[topic])
    by_stream = member.messages(2)
    member.cancel()
    for first, second in (by_fetch, by_stream):
        assert (first.HasField("value"), first.HasField("key"), first.key) == (False, True, b"")
        assert (second.HasField("value"), second.value, second.HasField("key")) == (True, b"", False)
        found = [(one.name, one.value if one.HasField("value") else None) for one in first.raw_headers]
        assert found == headers
        assert dict(first.headers) == {"a": "text"}


def test_a_member_lives_as_long_as_its_stream(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "life", *"abc", partitions=2)
    member = Member(stubs.consumer, group="life", topics=[topic])
    assigned = member.until("assigned")
    assert sorted(one.partition for one in assigned.partitions) == [0, 1]
    assert assigned.member_id
    assert texts(member.messages(3, member.handle)) == list("abc")
    assert members(broker, "life") == 1
    member.end()
    assert list(member.call)[-1].WhichOneof("event") == "revoked"
    assert member.call.code() is Code.OK
    assert members(broker, "life") == 0
    assert committed(broker, "life") == {0: 3}, "what was handled is committed when the stream ends"


def test_a_cancelled_stream_leaves_its_group(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "cancelled", *"abc")
    member = Member(stubs.consumer, group="cancelled", topics=[topic])
    assert len(member.messages(3)) == 3
    member.cancel()
    until(lambda: members(broker, "cancelled") == 0, "the member is still there")
    again = Member(stubs.consumer, group="cancelled", topics=[topic])
    assert texts(again.messages(3)) == list("abc"), "nothing was handled, so nothing was committed"
    again.cancel()


def test_two_members_share_the_partitions(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "shared", partitions=2)
    first = Member(stubs.consumer, group="shared", topics=[topic])
    assert len(first.until("assigned").partitions) == 2
    second = Member(stubs.consumer, group="shared", topics=[topic])
    assert len(first.until("revoked").partitions) == 2
    shares = [first.until("assigned").partitions, second.until("assigned").partitions]
    assert sorted(one.partition for share in shares for one in share) == [0, 1]
    second.end()
    assert second.until("revoked")
    assert len(first.until("assigned").partitions) == 2
    first.cancel()


def test_manual_commits(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "manual", *"abcd")
    member = Member(stubs.consumer, group="manual", topics=[topic], commit_mode=MANUAL)
    member.messages(4)
    member.request(commit=consumer_pb2.Commit(offsets=[position(topic, 2)], request_id="c-1"))
    answer = member.until("committed")
    assert (answer.request_id, answer.offsets[0].offset) == ("c-1", 2)
    assert committed(broker, "manual") == {0: 2}
    elsewhere = message_pb2.Position(topic="nowhere", partition=0, offset=1)
    member.request(commit=consumer_pb2.Commit(offsets=[elsewhere], request_id="c-2"))
    failed = member.until("failed")
    assert (failed.request_id, failed.failure.reason) == ("c-2", "NOT_FOUND")
    member.end()
    list(member.call)
    again = Member(stubs.consumer, group="manual", topics=[topic], commit_mode=MANUAL)
    assert texts(again.messages(2)) == ["c", "d"]
    again.cancel()


def test_acknowledgements_in_any_order(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "acks", *"abcd")
    member = Member(stubs.consumer, group="acks", topics=[topic], commit_mode=ACK, auto_commit_interval_ms=10)
    member.messages(4)
    member.request(ack=consumer_pb2.Ack(topic=topic, offsets=[0, 2, 3]))
    member.request(nack=consumer_pb2.Nack(topic=topic, offsets=[1]))
    (again,) = member.messages(1)
    assert (again.value, again.offset, again.redeliveries) == (b"b", 1, 1)
    until(lambda: committed(broker, "acks") == {0: 1}, "the offset of the first open message")
    member.request(ack=consumer_pb2.Ack(topic=topic, offsets=[1]))
    until(lambda: committed(broker, "acks") == {0: 4}, "all are acknowledged")
    member.cancel()


def test_messages_in_flight_are_bounded(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "window", *(str(i) for i in range(50)))
    member = Member(stubs.consumer, group="window", topics=[topic], max_in_flight=10, max_batch_messages=4)
    in_flight, found = 0, []
    batches: list[Any] = []
    while len(found) < 50:
        batch = member.until("batch")
        batches.append(batch)
        found += batch.messages
        in_flight += len(batch.messages)
        assert in_flight <= 10
        if in_flight > 6:  # the next batch would not fit
            in_flight -= sum(len(one.messages) for one in batches)
            member.handle(batches[-1])
            batches.clear()
    assert texts(found) == [str(i) for i in range(50)]
    member.cancel()


def test_a_member_that_is_not_served_stays_in_its_group(stubs: Stubs, broker: Broker) -> None:
    """Its client handles nothing, so nothing is read for it; it takes part in rebalances all the same."""
    topic = fill(broker, "stalled", *(str(i) for i in range(500)), partitions=2)
    limits = {"max_in_flight": 5, "max_batch_messages": 5}
    first = Member(stubs.consumer, group="stalled", topics=[topic], **limits)
    first.messages(5)
    second = Member(stubs.consumer, group="stalled", topics=[topic], **limits)
    (own,) = second.until("assigned").partitions
    first.until("revoked")
    (other,) = first.until("assigned").partitions
    assert sorted([own.partition, other.partition]) == [0, 1]
    reader = first if other.partition == 0 else second
    assert texts(reader.messages(500, reader.handle)) == [str(i) for i in range(500)], (
        "nothing was handled before"
    )
    first.cancel()
    second.cancel()


def test_seek_pause_resume(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "seek", *"abc")
    member = Member(stubs.consumer, group="seek", topics=[topic])
    member.messages(3)
    member.request(seek=consumer_pb2.Seek(position=position(topic, 1), request_id="s-1"))
    assert member.until("sought").request_id == "s-1"
    assert texts(member.messages(2)) == ["b", "c"]
    member.request(pause=consumer_pb2.Pause(partitions=[place(topic)]))
    member.request(seek=consumer_pb2.Seek(position=position(topic, 0), request_id="s-2"))
    member.until("sought")
    member.request(resume=consumer_pb2.Resume(partitions=[place(topic)]))
    assert texts(member.messages(3)) == list("abc")
    member.request(pause=consumer_pb2.Pause(partitions=[place("elsewhere")]))
    assert member.until("failed").failure.reason == "ILLEGAL_STATE"
    member.cancel()


@pytest.mark.parametrize(
    ("start", "wanted"),
    [
        ({"reset": consumer_pb2.RESET_POLICY_EARLIEST}, list("abcd")),
        ({"reset": consumer_pb2.RESET_POLICY_OFFSET, "reset_offset": 2}, ["c", "d"]),
        ({"delivery": message_pb2.DELIVERY_MODE_AT_MOST_ONCE}, list("abcd")),
    ],
)
def test_where_a_group_starts(stubs: Stubs, broker: Broker, start: dict[str, Any], wanted: list[str]) -> None:
    topic = fill(broker, f"start-{len(wanted)}-{len(start)}-{sorted(start)[0]}", *"abcd")
    member = Member(stubs.consumer, group=topic, topics=[topic], **start)
    assert texts(member.messages(len(wanted))) == wanted
    if "delivery" in start:
        assert committed(broker, topic) == {0: 4}, "committed before it was delivered"
    member.cancel()


def test_latest_starts_at_the_end(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "latest", "old")
    member = Member(stubs.consumer, group="latest", topics=[topic], reset=consumer_pb2.RESET_POLICY_LATEST)
    member.until("assigned")
    member.request(seek=consumer_pb2.Seek(position=position(topic, -1)))
    member.until("sought")
    fill(broker, topic, "new")
    assert texts(member.messages(1)) == ["new"]
    member.cancel()


def test_exactly_once(stubs: Stubs, broker: Broker) -> None:
    source, target = fill(broker, "eos-in", *"abcd"), fill(broker, "eos-out")
    member = Member(
        stubs.consumer,
        group="eos",
        topics=[source],
        delivery=message_pb2.DELIVERY_MODE_EXACTLY_ONCE,
        transactional_id="eos-1",
    )

    def transact(count: int, request_id: str, partition: int = 0) -> None:
        outputs = [message_pb2.Message(value=b"%d" % i, partition=partition) for i in range(count)]
        member.request(
            transact=consumer_pb2.Transact(
                outputs=[consumer_pb2.TopicMessages(topic=target, messages=outputs)],
                offsets=[position(source, count)],
                request_id=request_id,
            )
        )

    member.messages(4)
    transact(2, "t-1")
    assert member.until("committed").request_id == "t-1"
    assert committed(broker, "eos") == {0: 2}
    transact(4, "t-2", partition=9)
    failed = member.until("failed")
    assert (failed.request_id, failed.failure.reason) == ("t-2", "NOT_FOUND")
    assert texts(member.messages(2)) == ["c", "d"], "delivered again after the failed transaction"
    member.cancel()
    with Consumer(target, bootstrap=broker.bootstrap, until_end=True) as consumer:
        assert [one.value for one in consumer] == [b"0", b"1"]


def test_formats(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "avro", "\x0ckettle", "\x0cket")
    schema = '{"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}'
    avro = message_pb2.Serializer(format=message_pb2.FORMAT_AVRO, avro_schema=schema)
    request = consumer_pb2.FetchRequest(topic=topic, value_serializer=avro)
    first, second = stubs.consumer.Fetch(request).messages
    assert (first.value, first.HasField("failure")) == (b'{"item":"kettle"}', False)
    assert (second.value, second.failure.reason) == (b"\x0cket", "SERIALIZATION_FAILED")


def test_stream_refusals(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "stream-refusals", "a")
    bad = (Code.INVALID_ARGUMENT, "BAD_ARGUMENT")
    for wrong in (
        {"group": "", "topics": [topic]},
        {"group": "g", "topics": []},
        {"group": "g", "topics": [topic], "delivery": 9},
        {"group": "g", "topics": [topic], "commit_mode": 9},
        {"group": "g", "topics": [topic], "reset": 9},
        {"group": "g", "topics": [topic], "max_in_flight": -1},
        {"group": "g", "topics": [topic], "delivery": 3},
        {"group": "g", "topics": [topic], "session_timeout_ms": 1},
    ):
        member = Member(stubs.consumer, **wrong)
        assert refusal(member.read)[:2] == bad, wrong
        member.end()
    unknown = Member(stubs.consumer, group="g", topics=["nowhere"])
    assert refusal(lambda: unknown.until("batch"))[:2] == (Code.NOT_FOUND, "NOT_FOUND")
    unknown.end()
    wrong_mode = Member(stubs.consumer, group="g2", topics=[topic])
    wrong_mode.request(ack=consumer_pb2.Ack(topic=topic, offsets=[0]))
    assert refusal(lambda: wrong_mode.until("committed"))[:2] == (Code.FAILED_PRECONDITION, "ILLEGAL_STATE")
    wrong_mode.end()


def test_offsets_of_groups(stubs: Stubs, broker: Broker) -> None:
    topic = fill(broker, "offsets", *"abc")
    calls = stubs.consumer
    calls.SetOffsets(consumer_pb2.SetOffsetsRequest(group="offsets", offsets=[position(topic, 1)]))
    (row,) = calls.GetOffsets(consumer_pb2.GetOffsetsRequest(group="offsets")).offsets
    assert (row.topic, row.committed, row.end_offset, row.lag) == (topic, 1, 3, 2)
    member = Member(calls, group="offsets", topics=[topic])
    assert texts(member.messages(2)) == ["b", "c"]
    again = consumer_pb2.SetOffsetsRequest(group="offsets", offsets=[position(topic, 0)])
    assert refusal(lambda: calls.SetOffsets(again))[0] is Code.FAILED_PRECONDITION
    groups = {one.group for one in calls.ListGroups(consumer_pb2.ListGroupsRequest()).groups}
    assert "offsets" in groups
    member.cancel()
    missing = consumer_pb2.GetOffsetsRequest(group="no-such-group")
    assert refusal(lambda: calls.GetOffsets(missing))[0] is Code.NOT_FOUND
    assert topic in {one.name for one in stubs.topics.ListTopics(topics_pb2.ListTopicsRequest()).topics}


def test_a_service_that_stops_ends_its_streams(broker: Broker, tmp_path: Path) -> None:
    topic = fill(broker, "stops", *"abc")
    with (
        running_service(tmp_path, "consumer-service", "--bootstrap", broker.bootstrap) as own,
        stubs_of(own) as stubs,
    ):
        member = Member(stubs.consumer, group="stops", topics=[topic])
        batch = member.until("batch")
        assert texts(list(batch.messages)) == list("abc")
        member.handle(batch)
        member.request(seek=consumer_pb2.Seek(position=position(topic, 3)))
        member.until("sought")
        assert own.stop() == 0
        assert refusal(lambda: member.until("batch"))[:2] == (Code.UNAVAILABLE, "UNREACHABLE")
        member.end()
    assert members(broker, "stops") == 0
    assert committed(broker, "stops") == {0: 3}


def test_a_killed_service_loses_its_members_by_timeout(broker: Broker, tmp_path: Path) -> None:
    topic = fill(broker, "killed", *"abc")
    with running_service(tmp_path, "consumer-service", "--bootstrap", broker.bootstrap) as own:
        with stubs_of(own) as stubs:
            member = Member(stubs.consumer, group="killed", topics=[topic], session_timeout_ms=6_000)
            assert len(member.messages(3)) == 3
            own.kill()
            assert refusal(lambda: member.until("batch"))[0] is Code.UNAVAILABLE
            member.end()
        own.start()
        with stubs_of(own) as stubs:
            again = Member(stubs.consumer, group="killed", topics=[topic], session_timeout_ms=6_000)
            assert texts(again.messages(3)) == list("abc")
            again.cancel()
