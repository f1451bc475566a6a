"""Topics over HTTP: list, describe, create, change, delete. Never decides; the catalog does."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from penstock.core.errors import InvalidReplication, InvalidRequest
from penstock.core.limits import PARTITIONS_PER_TOPIC_MAX
from penstock.core.machines.catalog import Catalog, ConfigChange, ConfigOp
from penstock.core.machines.catalog_events import Event, Topic
from penstock.doors.http.exchange import Exchange
from penstock.doors.http.query import Field, Word
from penstock.node.admission import REPLICAS
from penstock.node.broker import Broker
from penstock.node.partition import Partition
from penstock.node.slices import Sliced
from penstock.wire.http.messages import read_number, read_object, read_text
from penstock.wire.http.response import Response, json_rows

_CREATE_FIELDS = ("name", "partitions", "replication_factor", "configs")
_CHANGE_FIELDS = ("partitions", "configs")
_REPLICAS_MAX = 2**15 - 1

LIST_FIELDS = (
    Field("internal", Word(("false", "true")), "false", "Whether the broker's own topics are listed."),
)


class TopicHandlers:
    """Answers everything about topics."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def all(self, exchange: Exchange) -> Sliced[Response]:
        """GET /api/v1/topics"""
        with_internal = exchange.query["internal"] == "true"
        topics = [one for one in self._broker.catalog.topics if with_internal or not one.internal]
        return json_rows({}, "topics", map(_line, topics))

    def describe(self, exchange: Exchange) -> Sliced[Response]:
        """GET /api/v1/topics/{topic}"""
        return self._described(exchange.parts["topic"])

    async def create(self, exchange: Exchange) -> Response:
        """POST /api/v1/topics"""
        found = read_object(exchange.request.body, _CREATE_FIELDS)
        name = read_text(found, "name", "the topic")
        count = read_number(found, "partitions", 1, PARTITIONS_PER_TOPIC_MAX, "the topic")
        replicas = read_number(found, "replication_factor", 1, _REPLICAS_MAX, "the topic")
        if replicas not in (None, REPLICAS):
            raise InvalidReplication(
                f"the replication factor is {replicas}, and this cluster keeps {REPLICAS} replica"
            )
        configs = _read_configs(found)
        broker = self._broker
        topic_id, now_ms = broker.new_topic_id(), broker.runtime.clock.now_ms()
        await broker.change(
            lambda catalog: catalog.decide_create_topic(
                name, count or broker.settings.default_partitions, configs, topic_id=topic_id, now_ms=now_ms
            )
        )
        place = ("Location", f"/api/v1/topics/{quote(name)}")
        described = await broker.runtime.slices.run(self._described(name))
        return described._replace(status=HTTPStatus.CREATED, headers=[place])

    async def change(self, exchange: Exchange) -> Response:
        """PATCH /api/v1/topics/{topic}"""
        name = exchange.parts["topic"]
        found = read_object(exchange.request.body, _CHANGE_FIELDS)
        count = read_number(found, "partitions", 1, PARTITIONS_PER_TOPIC_MAX, "the change")
        configs = _read_configs(found, may_reset=True)
        changes = [
            ConfigChange(ConfigOp.DELETE if value is None else ConfigOp.SET, key, value)
            for key, value in configs.items()
        ]

        def decide(catalog: Catalog) -> Sequence[Event]:
            draft = catalog.draft()
            events: list[Event] = []
            if count is not None and count != catalog.topic(name).partition_count:
                events += draft.decide_add_partitions(name, count)
            for event in events:
                draft.apply(event)
            return [*events, *draft.decide_alter_configs(name, changes)]

        await self._broker.change(decide)
        return await self._broker.runtime.slices.run(self._described(name))

    async def delete(self, exchange: Exchange) -> Response:
        """DELETE /api/v1/topics/{topic}"""
        name = exchange.parts["topic"]
        await self._broker.change(lambda catalog: catalog.decide_delete_topic(name))
        return Response(HTTPStatus.NO_CONTENT)

    def _described(self, name: str) -> Sliced[Response]:
        catalog = self._broker.catalog
        topic = catalog.topic(name)
        head = {"name": topic.name, "id": topic.id.hex(), "internal": topic.internal}
        configs = {entry.name: entry.value for entry in catalog.describe(name)}
        return json_rows(
            head, "partitions", map(_partition, self._broker.partitions_of(name)), {"configs": configs}
        )


def _line(topic: Topic) -> dict[str, Any]:
    return {"name": topic.name, "partitions": topic.partition_count, "internal": topic.internal}


def _partition(partition: Partition) -> dict[str, Any]:
    return {
        "partition": partition.index,
        "start_offset": partition.start_offset,
        "end_offset": partition.high_watermark,
        "stable_offset": partition.last_stable_offset,
        "bytes": partition.log.size(),
        "online": partition.failure is None,
    }


def _read_configs(found: dict[str, Any], *, may_reset: bool = False) -> dict[str, str | None]:
    configs = found.get("configs", {})
    if not isinstance(configs, dict):
        raise InvalidRequest("'configs' must be an object of names and values")
    for name, value in configs.items():
        if not (isinstance(value, str) or (value is None and may_reset)):
            more = ", or null to go back to the default" if may_reset else ""
            raise InvalidRequest(f"the setting {name[:100]!r} must be text{more}")
    return configs
