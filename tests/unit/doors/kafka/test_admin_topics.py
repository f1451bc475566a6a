"""Topics made, deleted, grown and cut by clients, in every version of the calls."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.machines.catalog.events import Topic
from penstock.doors.kafka.admin_topics import TopicHandlers
from penstock.wire.kafka import API, ApiKey, ErrorCode, messages

from .conftest import SETTINGS, Node

NO_ID = bytes(16)
NODE = SETTINGS.node_id


def versions(api_key: int) -> range:
    return range(API[api_key].version_min, API[api_key].version_max + 1)


def wanted(name: str, partitions: int = 1, replication: int = 1, **more: Any) -> Any:
    request = messages.CreateTopicsRequest
    configs = [request.CreatableTopicConfig(name=key, value=value) for key, value in more.get("configs", ())]
    assignments = [
        request.CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
        for index, ids in more.get("assignments", ())
    ]
    return request.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        assignments=assignments,
        configs=configs,
    )


def create(
    node: Node, *topics: Any, version: int = 7, timeout_ms: int = 30_000, validate_only: bool = False
) -> Any:
    body = messages.CreateTopicsRequest(
        topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only
    )
    return node.ask(TopicHandlers(node.waist).create_topics, ApiKey.CREATE_TOPICS, version, body).topics


def codes(answers: list[Any]) -> list[ErrorCode]:
    return [ErrorCode(answer.error_code) for answer in answers]


def topic(node: Node, name: str) -> Topic:
    return node.broker.catalog.topic(name)


class TestCreate:
    @pytest.mark.parametrize("version", versions(ApiKey.CREATE_TOPICS))
    def test_every_version_makes_a_topic(self, node: Node, version: int) -> None:
        (answer,) = create(
            node, wanted("orders", 3, configs=[("cleanup.policy", "compact")]), version=version
        )
        assert (answer.name, answer.error_code, answer.error_message) == ("orders", 0, None)
        made = topic(node, "orders")
        assert (made.partition_count, dict(made.overrides)) == (3, {"cleanup.policy": "compact"})
        if version >= 5:
            assert (answer.num_partitions, answer.replication_factor) == (3, 1)
            configs = {one.name: one for one in answer.configs}
            assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == (
                "compact",
                1,
            )
            assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("86400000", 4)
            assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == (
                "1073741824",
                5,
            )
        if version >= 7:
            assert answer.topic_id == made.id

    def test_minus_one_is_what_the_broker_is_set_to(self, node: Node) -> None:
        (answer,) = create(node, wanted("orders", -1, -1))
        assert (answer.num_partitions, answer.replication_factor) == (SETTINGS.default_partitions, 1)

    def test_a_thousand_topics_cost_one_flush(self, node: Node) -> None:
        before = node.workers.jobs
        answers = create(node, *(wanted(f"topic-{number}") for number in range(1000)))
        assert set(codes(answers)) == {ErrorCode.NONE}
        assert len(node.broker.catalog.topics) == 1000
        assert node.workers.jobs == before + 1

    def test_each_topic_is_judged_by_itself(self, node: Node) -> None:
        node.make_topic("there")
        answers = create(
            node,
            wanted("there"),
            wanted("a b"),
            wanted("none", 0),
            wanted("replicated", 1, 3),
            wanted("zero", 1, 0),
            wanted("typo", configs=[("retention.mss", "1")]),
            wanted("soon", configs=[("retention.ms", "soon")]),
            wanted("missing", configs=[("retention.ms", None)]),
            wanted("twice-set", configs=[("retention.ms", "1"), ("retention.ms", "2")]),
            wanted("__consumer_offsets"),
            wanted("good"),
        )
        assert codes(answers) == [
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.INVALID_PARTITIONS,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.NONE,
        ]
        assert "did you mean 'retention.ms'" in answers[5].error_message
        assert all(answer.configs is not None for answer in answers), "Java's client falls over null"
        assert [one.name for one in node.broker.catalog.topics] == ["good", "there"]

    def test_the_same_name_twice_is_refused_each_time(self, node: Node) -> None:
        answers = create(node, wanted("orders", 1), wanted("other"), wanted("orders", 2))
        assert codes(answers) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
        assert node.broker.catalog.find("orders") is None

    def test_topics_of_one_request_see_each_other(self, node: Node) -> None:
        answers = create(node, wanted("a.b"), wanted("a_b"))
        assert codes(answers) == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert "collides" in answers[1].error_message

    def test_validate_only_makes_nothing(self, node: Node) -> None:
        before = node.workers.jobs
        answers = create(node, wanted("orders", 3), wanted("a b"), validate_only=True)
        assert codes(answers) == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert (answers[0].num_partitions, len(answers[0].configs) > 10) == (3, True)
        assert (node.broker.catalog.topics, node.workers.jobs) == ([], before)

    @pytest.mark.parametrize(
        ("assignments", "partitions", "replication", "code"),
        [
            ([(1, [NODE]), (0, [NODE])], -1, -1, ErrorCode.NONE),
            ([(0, [NODE]), (2, [NODE])], -1, -1, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([(0, [NODE]), (0, [NODE])], -1, -1, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([(0, [NODE + 1])], -1, -1, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([(0, [NODE, NODE])], -1, -1, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([(0, [])], -1, -1, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([(0, [NODE])], 1, -1, ErrorCode.INVALID_REQUEST),
            ([(0, [NODE])], -1, 1, ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_assignments_must_name_the_one_broker(
        self, node: Node, assignments: Any, partitions: int, replication: int, code: ErrorCode
    ) -> None:
        (answer,) = create(node, wanted("orders", partitions, replication, assignments=assignments))
        assert answer.error_code == code
        if code is ErrorCode.NONE:
            assert topic(node, "orders").partition_count == len(assignments)
        else:
            assert answer.error_message

    def test_no_time_means_that_nothing_is_begun(self, node: Node) -> None:
        (answer,) = create(node, wanted("orders"), timeout_ms=0)
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert node.broker.catalog.find("orders") is None

    def test_a_disk_that_takes_too_long_is_not_waited_for_but_not_torn_off(
        self, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        node.workers.held = []
        now_s = node.loop.time()
        monkeypatch.setattr(node.loop, "time", lambda: now_s + len(node.workers.held or ()))
        answers = create(node, wanted("orders"), wanted("a b"), timeout_ms=1)
        assert codes(answers) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert node.broker.catalog.find("orders") is None

        node.workers.release()
        node.make_topic("behind")
        assert node.broker.catalog.find("orders") is not None

    def test_what_was_made_is_there_after_a_restart(self, node: Node) -> None:
        (answer,) = create(node, wanted("orders", 3, configs=[("retention.ms", "5")]))
        node.restart(SETTINGS)
        made = topic(node, "orders")
        assert (made.id, made.partition_count, made.overrides) == (answer.topic_id, 3, {"retention.ms": "5"})


def delete(node: Node, version: int, *names: str, ids: tuple[Any, ...] = (), timeout_ms: int = 30_000) -> Any:
    state = messages.DeleteTopicsRequest.DeleteTopicState
    body = messages.DeleteTopicsRequest(timeout_ms=timeout_ms)
    if version >= 6:
        body.topics = [state(name=name, topic_id=NO_ID) for name in names]
        body.topics += [state(name=name, topic_id=topic_id) for name, topic_id in ids]
    else:
        body.topic_names = list(names)
    return node.ask(TopicHandlers(node.waist).delete_topics, ApiKey.DELETE_TOPICS, version, body).responses


class TestDelete:
    @pytest.mark.parametrize("version", versions(ApiKey.DELETE_TOPICS))
    def test_every_version_deletes_by_name(self, node: Node, version: int) -> None:
        node.make_topic("orders")
        topic_id = topic(node, "orders").id
        gone, unknown = delete(node, version, "orders", "nobody")
        assert (gone.name, gone.error_code) == ("orders", 0)
        assert (unknown.name, unknown.error_code) == ("nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert node.broker.catalog.find("orders") is None
        if version >= 5:
            assert (gone.error_message, "nobody" in unknown.error_message) == (None, True)
        if version >= 6:
            assert (gone.topic_id, unknown.topic_id) == (topic_id, NO_ID)

    def test_by_id(self, node: Node) -> None:
        node.make_topic("orders")
        topic_id = topic(node, "orders").id
        gone, unknown = delete(node, 6, ids=((None, topic_id), (None, b"x" * 16)))
        assert (gone.name, gone.topic_id, gone.error_code) == ("orders", topic_id, 0)
        assert (unknown.name, unknown.topic_id) == (None, b"x" * 16)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID

    def test_exactly_one_of_name_and_id(self, node: Node) -> None:
        node.make_topic("orders")
        answers = delete(node, 6, ids=((None, NO_ID), ("orders", topic(node, "orders").id)))
        assert codes(answers) == [ErrorCode.INVALID_REQUEST] * 2
        assert node.broker.catalog.find("orders") is not None

    def test_the_same_topic_twice_is_refused_each_time(self, node: Node) -> None:
        node.make_topic("orders")
        answers = delete(node, 6, "orders", ids=((None, topic(node, "orders").id),))
        assert codes(answers) == [ErrorCode.INVALID_REQUEST] * 2
        assert node.broker.catalog.find("orders") is not None

    def test_internal_topics_stay(self, node: Node) -> None:
        node.run(node.broker.internal_topic("__consumer_offsets", 1, {}))
        (answer,) = delete(node, 6, "__consumer_offsets")
        assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert node.broker.catalog.find("__consumer_offsets") is not None

    def test_no_time(self, node: Node) -> None:
        node.make_topic("orders")
        (answer,) = delete(node, 6, "orders", timeout_ms=0)
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert node.broker.catalog.find("orders") is not None


def grow(
    node: Node, *topics: Any, version: int = 3, validate_only: bool = False, timeout_ms: int = 30_000
) -> Any:
    request = messages.CreatePartitionsRequest
    body = request(
        topics=[
            request.CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if assigned is None
                else [request.CreatePartitionsAssignment(broker_ids=ids) for ids in assigned],
            )
            for name, count, assigned in topics
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )
    return node.ask(
        TopicHandlers(node.waist).create_partitions, ApiKey.CREATE_PARTITIONS, version, body
    ).results


class TestGrow:
    @pytest.mark.parametrize("version", versions(ApiKey.CREATE_PARTITIONS))
    def test_every_version_grows_a_topic(self, node: Node, version: int) -> None:
        node.make_topic("orders", 2)
        (answer,) = grow(node, ("orders", 5, None), version=version)
        assert (answer.name, answer.error_code, answer.error_message) == ("orders", 0, None)
        assert topic(node, "orders").partition_count == 5
        assert node.broker.partition("orders", 4).end_offset == 0

    def test_each_topic_is_judged_by_itself(self, node: Node) -> None:
        for name in ("same", "fewer", "assigned", "short", "strange", "twice", "good"):
            node.make_topic(name, 2)
        answers = grow(
            node,
            ("same", 2, None),
            ("fewer", 1, None),
            ("assigned", 3, [[NODE]]),
            ("short", 4, [[NODE]]),
            ("strange", 3, [[NODE + 1]]),
            ("twice", 3, None),
            ("twice", 4, None),
            ("nobody", 3, None),
            ("good", 3, None),
        )
        assert codes(answers) == [
            ErrorCode.INVALID_PARTITIONS,
            ErrorCode.INVALID_PARTITIONS,
            ErrorCode.NONE,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NONE,
        ]
        counts = {one.name: one.partition_count for one in node.broker.catalog.topics}
        assert {name for name, count in counts.items() if count == 3} == {"assigned", "good"}

    def test_validate_only_and_no_time_change_nothing(self, node: Node) -> None:
        node.make_topic("orders", 2)
        assert codes(grow(node, ("orders", 5, None), validate_only=True)) == [ErrorCode.NONE]
        assert codes(grow(node, ("orders", 5, None), timeout_ms=0)) == [ErrorCode.REQUEST_TIMED_OUT]
        assert topic(node, "orders").partition_count == 2


def cut(node: Node, *places: tuple[str, int, int], version: int = 2, timeout_ms: int = 30_000) -> list[Any]:
    request = messages.DeleteRecordsRequest
    body = request(
        topics=[
            request.DeleteRecordsTopic(
                name=name, partitions=[request.DeleteRecordsPartition(partition_index=index, offset=offset)]
            )
            for name, index, offset in places
        ],
        timeout_ms=timeout_ms,
    )
    answer = node.ask(TopicHandlers(node.waist).delete_records, ApiKey.DELETE_RECORDS, version, body)
    return [one for each in answer.topics for one in each.partitions]


class TestDeleteRecords:
    @pytest.mark.parametrize("version", versions(ApiKey.DELETE_RECORDS))
    def test_every_version_cuts_before_an_offset(self, node: Node, version: int) -> None:
        node.make_topic("orders")
        node.write("orders", 10)
        (answer,) = cut(node, ("orders", 0, 4), version=version)
        assert (answer.error_code, answer.low_watermark) == (0, 4)
        assert node.broker.partition("orders", 0).start_offset == 4

    def test_minus_one_is_everything_that_is_visible(self, node: Node) -> None:
        node.make_topic("orders")
        node.write("orders", 10)
        assert cut(node, ("orders", 0, -1))[0].low_watermark == 10

    def test_what_is_gone_already_is_no_error(self, node: Node) -> None:
        node.make_topic("orders")
        node.write("orders", 10)
        cut(node, ("orders", 0, 6))
        (answer,) = cut(node, ("orders", 0, 2))
        assert (answer.error_code, answer.low_watermark) == (0, 6)

    def test_each_partition_is_judged_by_itself(self, node: Node) -> None:
        node.make_topic("orders")
        node.write("orders", 3)
        node.make_topic("latest", cleanup_policy="compact")
        node.run(node.broker.internal_topic("__consumer_offsets", 1, {}))
        answers = cut(
            node,
            ("orders", 0, 4),
            ("orders", 0, -2),
            ("orders", 1, 0),
            ("nobody", 0, 0),
            ("latest", 0, 0),
            ("__consumer_offsets", 0, 0),
            ("orders", 0, 2),
        )
        assert codes(answers) == [
            ErrorCode.OFFSET_OUT_OF_RANGE,
            ErrorCode.OFFSET_OUT_OF_RANGE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.POLICY_VIOLATION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.NONE,
        ]
        assert [answer.low_watermark for answer in answers] == [-1] * 6 + [2]

    def test_cuts_of_one_partition_keep_their_order(self, node: Node) -> None:
        node.make_topic("orders")
        node.write("orders", 10)
        answers = cut(node, ("orders", 0, 7), ("orders", 0, 3), ("orders", 0, 5))
        assert [answer.low_watermark for answer in answers] == [7, 7, 7]
        node.restart(SETTINGS)
        assert node.broker.partition("orders", 0).start_offset == 7

    @pytest.mark.parametrize("timeout_ms", [0, -1])
    def test_without_a_timeout_the_records_are_deleted_all_the_same(
        self, node: Node, timeout_ms: int
    ) -> None:
        node.make_topic("orders")
        node.write("orders", 3)
        (answer,) = cut(node, ("orders", 0, 2), timeout_ms=timeout_ms)
        assert (answer.error_code, answer.low_watermark) == (0, 2)
        assert node.broker.partition("orders", 0).start_offset == 2
