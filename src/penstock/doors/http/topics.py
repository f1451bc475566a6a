"""Topics over HTTP: list, describe, create, change, delete."""

from __future__ import annotations

from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from penstock.core.errors import InvalidRequest
from penstock.core.limits import PARTITIONS_PER_TOPIC_MAX
from penstock.doors.http.errors import refusal_fields
from penstock.doors.http.exchange import Exchange
from penstock.doors.http.query import Choice, Field
from penstock.node.runtime.slices import CHUNK, Sliced
from penstock.node.waist.topics import ConfigChange, ConfigOp, Details, NewTopic, PartitionDetail, Topic
from penstock.node.waist.waist import Waist
from penstock.wire.http.messages import read_number, read_object, read_text
from penstock.wire.http.response import Response, json_rows

_CREATE_FIELDS = ("name", "partitions", "replication_factor", "configs")
_CHANGE_FIELDS = ("partitions", "configs")
_REPLICAS_MAX = 2**15 - 1

LIST_FIELDS = (Field("internal", Choice(("false", "true")), "false", "Whether internal topics are listed."),)


class HttpTopicHandlers:
    """Handlers of topic requests."""

    def __init__(self, waist: Waist) -> None:
        self._slices = waist.slices
        self._verbs = waist.topics

    def all(self, exchange: Exchange) -> Sliced[Response]:
        """GET /api/v1/topics"""
        with_internal = exchange.query["internal"] == "true"
        topics = [one for one in self._verbs.all(exchange.session) if with_internal or not one.internal]
        return json_rows({}, "topics", map(_line, topics))

    def describe(self, exchange: Exchange) -> Sliced[Response] | Coroutine[Any, Any, Response]:
        """GET /api/v1/topics/{topic}"""
        name = exchange.parts["topic"]
        return self._described(exchange, name, {}) if self._verbs.are_here else self._gathered(exchange, name)

    async def create(self, exchange: Exchange) -> Response:
        """POST /api/v1/topics"""
        found = read_object(exchange.request.body, _CREATE_FIELDS)
        name = read_text(found, "name", "the topic")
        count = read_number(found, "partitions", 1, PARTITIONS_PER_TOPIC_MAX, "the topic")
        replicas = read_number(found, "replication_factor", 1, _REPLICAS_MAX, "the topic")
        new = NewTopic(name, count, _read_configs(found), replicas)
        await self._verbs.create(exchange.session, new)
        place = ("Location", f"/api/v1/topics/{quote(name)}")
        described = await self._gathered(exchange, name)
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
        await self._verbs.alter(exchange.session, name, count, changes)
        return await self._gathered(exchange, name)

    async def delete(self, exchange: Exchange) -> Response:
        """DELETE /api/v1/topics/{topic}"""
        await self._verbs.delete(exchange.session, exchange.parts["topic"])
        return Response(HTTPStatus.NO_CONTENT)

    async def _gathered(self, exchange: Exchange, name: str) -> Response:
        """Describe a topic whose partitions may be led by several brokers."""
        elsewhere = await self._verbs.details_elsewhere(exchange.session, [name])
        return await self._slices.run(self._described(exchange, name, elsewhere))

    def _described(self, exchange: Exchange, name: str, elsewhere: Details) -> Sliced[Response]:
        session = exchange.session
        topic = self._verbs.get(session, name)
        head: dict[str, Any] = {"name": topic.name, "id": topic.id.hex(), "internal": topic.internal}
        configs = {entry.name: entry.value for entry in self._verbs.configs(session, name)}
        rows: list[PartitionDetail] = []
        for one in self._verbs.details(session, name, elsewhere):
            rows.append(one)
            if len(rows) % CHUNK == 0:
                yield CHUNK // 4
        if any(one.error is not None for one in rows):
            head["partial"] = True
        return (yield from json_rows(head, "partitions", map(_partition, rows), {"configs": configs}))


def _line(topic: Topic) -> dict[str, Any]:
    return {"name": topic.name, "partitions": topic.partition_count, "internal": topic.internal}


def _partition(detail: PartitionDetail) -> dict[str, Any]:
    """Without offsets and size if the broker that leads the partition did not tell."""
    if detail.error is not None:
        unknown = dict.fromkeys(("start_offset", "end_offset", "stable_offset", "bytes"))
        return {
            "partition": detail.partition,
            **unknown,
            "online": False,
            "error": refusal_fields(detail.error),
        }
    return {
        "partition": detail.partition,
        "start_offset": detail.start_offset,
        "end_offset": detail.high_watermark,
        "stable_offset": detail.last_stable_offset,
        "bytes": detail.size_bytes,
        "online": detail.is_online,
    }


def _read_configs(found: dict[str, Any], *, may_reset: bool = False) -> dict[str, str | None]:
    configs = found.get("configs", {})
    if not isinstance(configs, dict):
        raise InvalidRequest("'configs' must be an object of names and values")
    for name, value in configs.items():
        if not (isinstance(value, str) or (value is None and may_reset)):
            more = ", or null to reset it to its default" if may_reset else ""
            raise InvalidRequest(f"the setting {name[:100]!r} must be a string{more}")
    return configs
