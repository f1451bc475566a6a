"""Committed offsets of groups over HTTP: read them, commit them. Kafka clients of the same group see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any

from penstock.core.errors import BrokerError, InvalidRequest
from penstock.core.limits import GROUP_CALL_ELEMENTS_MAX, PARTITIONS_PER_TOPIC_MAX
from penstock.core.model import NO_EPOCH, TopicPartition
from penstock.doors.http.errors import refusal_fields
from penstock.doors.http.exchange import Exchange
from penstock.doors.http.query import OFFSET_MAX
from penstock.node.runtime.slices import Sliced, chunks
from penstock.node.waist.committed import Committed, Committer, OffsetEntry
from penstock.node.waist.coordinators import CoordinatorKind
from penstock.node.waist.waist import Waist
from penstock.wire.http.messages import check_object, read_number, read_object, read_text
from penstock.wire.http.response import Response, json_rows

EPOCH_MAX = 2**31 - 1
_COMMIT_FIELDS = ("offsets", "member", "epoch", "instance")
_OFFSET_FIELDS = ("topic", "partition", "offset", "metadata")
_WHERE = "an offset"


class HttpOffsetHandlers:
    """Handlers of requests about committed offsets."""

    def __init__(self, waist: Waist) -> None:
        self._slices = waist.slices
        self._topics = waist.topics
        self._coordinators = waist.coordinators
        self._groups = waist.forwarded_groups

    async def committed(self, exchange: Exchange) -> Response:
        """GET /api/v1/groups/{group}/offsets"""
        group_id = exchange.parts["group"]
        await self._groups.outline(exchange.session, group_id)  # a group that does not exist has no offsets
        found = await self._groups.fetch(exchange.session, group_id, None)
        return await self._slices.run(json_rows({"group": group_id}, "offsets", _rows(found)))

    async def commit(self, exchange: Exchange) -> Response:
        """PUT /api/v1/groups/{group}/offsets"""
        session, group_id = exchange.session, exchange.parts["group"]
        found = read_object(exchange.request.body, _COMMIT_FIELDS)
        listed, by = found.get("offsets"), _committer(found)
        if not isinstance(listed, list) or not 1 <= len(listed) <= GROUP_CALL_ELEMENTS_MAX:
            raise InvalidRequest(
                f"the body needs 'offsets', a list of 1 to {GROUP_CALL_ELEMENTS_MAX} entries"
            )
        entries = await self._slices.run(self._entries(exchange, listed))
        await self._coordinators.open(session, CoordinatorKind.GROUP, [group_id])
        outcomes = await self._groups.commit(session, group_id, by, entries)
        errors = list(outcomes.errors)
        failed = sum(error is not None for error in errors)
        if failed == len(errors):
            first = errors[0]
            assert first is not None
            if all(type(error) is type(first) for error in errors):
                raise first
        head = {"group": group_id, "failed": failed}
        rows = (_outcome(entry, error) for entry, error in zip(entries, errors, strict=True))
        response = await self._slices.run(json_rows(head, "offsets", rows))
        return response._replace(status=HTTPStatus.MULTI_STATUS) if failed else response

    def _entries(self, exchange: Exchange, listed: Sequence[Any]) -> Sliced[list[OffsetEntry]]:
        entries: list[OffsetEntry] = []
        for some in chunks(listed):
            for one in some:
                entries.append(entry := _entry(one))
                self._topics.check_partition(exchange.session, entry.topic, entry.partition)
            yield len(some)
        return entries


def _committer(found: dict[str, Any]) -> Committer:
    """The committer: a member at its epoch, or a client outside the group."""
    if "member" not in found:
        if "epoch" in found or "instance" in found:
            raise InvalidRequest("'epoch' and 'instance' belong to a 'member'")
        return Committer()
    epoch = read_number(found, "epoch", 0, EPOCH_MAX, "the member")
    if epoch is None:
        raise InvalidRequest("a 'member' needs its 'epoch'")
    instance = read_text(found, "instance", "the member") if "instance" in found else None
    return Committer(read_text(found, "member", "the body"), epoch, instance)


def _entry(one: Any) -> OffsetEntry:
    found = check_object(one, _OFFSET_FIELDS, _WHERE)
    partition = read_number(found, "partition", 0, PARTITIONS_PER_TOPIC_MAX - 1, _WHERE)
    offset = read_number(found, "offset", 0, OFFSET_MAX, _WHERE)
    if offset is None:
        raise InvalidRequest(f"{_WHERE} needs a field 'offset'")
    metadata = read_text(found, "metadata", _WHERE) if "metadata" in found else ""
    return OffsetEntry(read_text(found, "topic", _WHERE), partition or 0, offset, NO_EPOCH, metadata)


def _rows(found: dict[TopicPartition, Committed | BrokerError | None]) -> Iterator[dict[str, Any]]:
    for place, one in sorted(found.items()):
        if isinstance(one, BrokerError):
            yield {**place._asdict(), "offset": None, "error": refusal_fields(one)}
        elif one is not None:
            yield {**place._asdict(), "offset": one.offset, "metadata": one.metadata}


def _outcome(entry: OffsetEntry, error: BrokerError | None) -> dict[str, Any]:
    row = {"topic": entry.topic, "partition": entry.partition, "offset": entry.offset}
    return row if error is None else {**row, "error": refusal_fields(error)}
