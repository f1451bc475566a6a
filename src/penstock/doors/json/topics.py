"""CREATE_TOPIC, LIST_TOPICS and METADATA."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any

from penstock.core.errors import BrokerError, Malformed
from penstock.doors.json.call import JsonCall
from penstock.doors.json.errors import error_fields
from penstock.node.runtime.slices import Sliced
from penstock.node.waist.topics import Details, NewTopic, PartitionDetail, Topic
from penstock.node.waist.waist import Waist
from penstock.wire.json.fields import INT32_MAX, shown


class JsonTopicHandlers:
    """Handlers of topic requests."""

    def __init__(self, waist: Waist) -> None:
        self._cluster = waist.cluster
        self._slices = waist.slices
        self._verbs = waist.topics

    async def create_topic(self, call: JsonCall) -> None:
        """Create a topic; answered when it is durable."""
        fields = call.fields
        name = fields.text("topic")
        count = fields.number("partitions", low=1, high=INT32_MAX) if "partitions" in fields else None
        overrides = _overrides(fields.take("config"))
        fields.check_empty()
        topic = await self._verbs.create(call.session, NewTopic(name, count, overrides))
        call.answer({"topic": name, "partitions": topic.partition_count})

    def list_topics(self, call: JsonCall) -> Sliced[None]:
        """List topics with their number of partitions."""
        call.fields.check_empty()
        rows = ({"topic": one.name, "partitions": one.partition_count} for one in self._topics(call))
        return call.answer_rows({}, "topics", rows)

    def metadata(self, call: JsonCall) -> Sliced[None] | Coroutine[Any, Any, None]:
        """Describe the node, and one topic or all with partitions and settings."""
        name = call.fields.optional_text("topic")
        call.fields.check_empty()
        topics = self._topics(call) if name is None else [self._verbs.get(call.session, name)]
        if self._verbs.are_here:
            return self._describe(call, topics, {})
        return self._gather(call, topics)

    async def _gather(self, call: JsonCall, topics: list[Topic]) -> None:
        """The same for partitions that several brokers lead."""
        elsewhere = await self._verbs.details_elsewhere(call.session, [topic.name for topic in topics])
        await self._slices.run(self._describe(call, topics, elsewhere))

    def _describe(self, call: JsonCall, topics: list[Topic], elsewhere: Details) -> Sliced[None]:
        cluster = self._cluster.describe(call.session)
        head: dict[str, Any] = {"cluster": cluster.cluster_id, "node": self._cluster.endpoint.id}
        if any(isinstance(one, BrokerError) for one in elsewhere.values()):
            head["partial"] = True
        return call.answer_rows(head, "topics", self._rows(call, topics, elsewhere))

    def _rows(self, call: JsonCall, topics: list[Topic], elsewhere: Details) -> Iterator[dict[str, Any]]:
        """Topics deleted meanwhile are left out."""
        for topic in topics:
            details = self._verbs.details(call.session, topic.name, elsewhere)
            partitions = [_partition(one) for one in details]
            if partitions:
                yield {"topic": topic.name, "config": dict(topic.overrides), "partitions": partitions}

    def _topics(self, call: JsonCall) -> list[Topic]:
        return [topic for topic in self._verbs.all(call.session) if not topic.internal]


def _partition(detail: PartitionDetail) -> dict[str, Any]:
    """Without offsets if the broker that leads the partition did not tell."""
    if detail.error is not None:
        unknown = {"start_offset": None, "end_offset": None, "online": False}
        return {"partition": detail.partition, **unknown, **error_fields(detail.error)}
    return {
        "partition": detail.partition,
        "start_offset": detail.start_offset,
        "end_offset": detail.high_watermark,
        "online": detail.is_online,
    }


def _overrides(found: object) -> dict[str, str | None]:
    """Topic settings as strings; numbers and booleans are converted."""
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise Malformed(f"'config' must be an object of settings, not {shown(found)}")
    overrides: dict[str, str | None] = {}
    for name, value in found.items():
        if isinstance(value, bool):
            overrides[name] = "true" if value else "false"
        elif isinstance(value, str | int):
            overrides[name] = str(value)
        else:
            raise Malformed(f"the setting {name!r} must be a string, number or boolean, not {shown(value)}")
    return overrides
