"""CREATE_TOPIC, LIST_TOPICS and METADATA: which topics there are. Never decides about one; the catalog does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.core.errors import Malformed, UnknownTopic
from penstock.core.machines.catalog_events import Topic
from penstock.doors.json.call import Call
from penstock.node.broker import Broker
from penstock.node.slices import Sliced
from penstock.wire.json.fields import INT32_MAX, shown


class TopicHandlers:
    """Makes topics and tells of them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def create_topic(self, call: Call) -> None:
        """Answered when the topic is durable."""
        fields, broker = call.fields, self._broker
        name = fields.text("topic")
        count = fields.number("partitions", broker.settings.default_partitions, low=1, high=INT32_MAX)
        overrides = _overrides(fields.take("config"))
        fields.check_empty()
        topic_id, now_ms = broker.new_topic_id(), broker.runtime.clock.now_ms()
        await broker.change(
            lambda catalog: catalog.decide_create_topic(
                name, count, overrides, topic_id=topic_id, now_ms=now_ms
            )
        )
        call.answer({"topic": name, "partitions": count})

    def list_topics(self, call: Call) -> Sliced[None]:
        """Names and how many partitions each has."""
        call.fields.check_empty()
        rows = ({"topic": one.name, "partitions": one.partition_count} for one in self._topics())
        return call.answer_rows({}, "topics", rows)

    def metadata(self, call: Call) -> Sliced[None]:
        """The node, and one topic or all with their partitions and settings."""
        name = call.fields.optional_text("topic")
        call.fields.check_empty()
        topics = self._topics() if name is None else [self._broker.catalog.topic(name)]
        identity = self._broker.identity
        head = {"cluster": identity.cluster_id, "node": identity.node_id}
        return call.answer_rows(head, "topics", self._rows(topics))

    def _rows(self, topics: list[Topic]) -> Iterator[dict[str, Any]]:
        """A topic that is deleted meanwhile is left out."""
        for topic in topics:
            try:
                yield self._described(topic)
            except UnknownTopic:
                continue

    def _topics(self) -> list[Topic]:
        topics = [topic for topic in self._broker.catalog.topics if not topic.internal]
        return sorted(topics, key=lambda topic: topic.name)

    def _described(self, topic: Topic) -> dict[str, Any]:
        partitions = []
        for index in range(topic.partition_count):
            partition = self._broker.partition(topic.name, index)
            row: dict[str, Any] = {"partition": index, "start_offset": partition.start_offset}
            row["end_offset"] = partition.high_watermark
            row["online"] = partition.failure is None
            partitions.append(row)
        return {"topic": topic.name, "config": dict(topic.overrides), "partitions": partitions}


def _overrides(found: object) -> dict[str, str | None]:
    """Settings of a topic, as texts: numbers and switches may be written as such."""
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise Malformed(f"'config' is an object of settings, not {shown(found)}")
    overrides: dict[str, str | None] = {}
    for name, value in found.items():
        if isinstance(value, bool):
            overrides[name] = "true" if value else "false"
        elif isinstance(value, str | int):
            overrides[name] = str(value)
        else:
            raise Malformed(f"the setting {name!r} is a string, a number or a switch, not {shown(value)}")
    return overrides
