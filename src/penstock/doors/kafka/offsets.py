"""ListOffsets and OffsetForLeaderEpoch.

Reads at most the one batch that contains the timestamp.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from penstock.core.errors import BrokerError, OffsetNotAvailable
from penstock.core.model import Isolation
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.errors import code_of
from penstock.doors.kafka.exact_offsets import ExactOffsets
from penstock.node.runtime.slices import CHUNK, Sliced, chunks
from penstock.node.waist.positions import Edge, TimedOffset
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ErrorCode, messages

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
_EDGES = {
    LATEST: Edge.LATEST,
    EARLIEST: Edge.EARLIEST,
    MAX_TIMESTAMP: Edge.NEWEST,
    EARLIEST_LOCAL: Edge.EARLIEST,
}
"""Kafka's special timestamps; other negative values match nothing."""
_EPOCH_FROM = 4
_NOT_AVAILABLE_FROM = 5
"""First version whose clients know OFFSET_NOT_AVAILABLE."""
_SEARCH_UNITS = 100
"""Cost of a lookup by timestamp: searches an index, then reads, decompresses and scans a batch."""
_NOTHING = TimedOffset(offset=-1, timestamp_ms=-1, leader_epoch=-1)


class OffsetHandlers:
    """Handlers of offset lookups."""

    def __init__(self, waist: Waist) -> None:
        self._waist = waist
        self._verbs = waist.positions

    def list_offsets(
        self, call: Call, request: messages.ListOffsetsRequest
    ) -> Sliced[messages.ListOffsetsResponse | None]:
        """An offset for each requested timestamp."""
        isolation = Isolation.READ_COMMITTED if request.isolation_level == 1 else Isolation.READ_UNCOMMITTED
        response = messages.ListOffsetsResponse
        topics = []
        exact = ExactOffsets()
        for topic in request.topics:
            partitions: list[Any] = []
            units = 1
            for one in topic.partitions:
                partitions.append(self._list_one(call, topic.name, one, isolation, exact))
                units += _units(one)
                if units >= CHUNK:
                    yield units
                    units = 0
            yield units
            topics.append(response.ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        if not exact:
            return response(topics=topics)
        exact.answer(call, self._waist.submit, response(topics=topics))
        return None

    def _list_one(
        self,
        call: Call,
        topic: str,
        one: messages.ListOffsetsRequest.ListOffsetsPartition,
        isolation: Isolation,
        exact: ExactOffsets,
    ) -> messages.ListOffsetsResponse.ListOffsetsPartitionResponse:
        answer = messages.ListOffsetsResponse.ListOffsetsPartitionResponse(
            partition_index=one.partition_index
        )
        find = partial(
            self._verbs.find,
            call.session,
            topic,
            one.partition_index,
            _EDGES.get(one.timestamp, one.timestamp),
            isolation,
            one.current_leader_epoch,
        )
        try:
            found = find() or _NOTHING
        except BrokerError as error:
            is_old = isinstance(error, OffsetNotAvailable) and call.version < _NOT_AVAILABLE_FROM
            code = code_of(error)
            answer.error_code = int(ErrorCode.LEADER_NOT_AVAILABLE) if is_old else code
            return answer
        fill = partial(_fill, answer, call.version)
        fill(found)
        if found.search is not None:
            exact.add(find, fill)
        return answer

    def epoch_ends(
        self, call: Call, request: messages.OffsetForLeaderEpochRequest
    ) -> Sliced[messages.OffsetForLeaderEpochResponse]:
        """The end offset of each requested leader epoch."""
        response = messages.OffsetForLeaderEpochResponse
        topics = []
        for topic in request.topics:
            partitions: list[Any] = []
            for some in chunks(topic.partitions):
                partitions += [self._epoch_end(call, topic.topic, one) for one in some]
                yield 1 + len(some)
            topics.append(response.OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
        return response(topics=topics)

    def _epoch_end(
        self, call: Call, topic: str, one: messages.OffsetForLeaderEpochRequest.OffsetForLeaderPartition
    ) -> messages.OffsetForLeaderEpochResponse.EpochEndOffset:
        answer = messages.OffsetForLeaderEpochResponse.EpochEndOffset(partition=one.partition)
        try:
            answer.leader_epoch, answer.end_offset = self._verbs.epoch_end(
                call.session, topic, one.partition, one.leader_epoch, one.current_leader_epoch
            )
        except BrokerError as error:
            answer.error_code = code_of(error)
        return answer


def _fill(
    answer: messages.ListOffsetsResponse.ListOffsetsPartitionResponse, version: int, found: TimedOffset
) -> None:
    answer.offset, answer.timestamp = found.offset, found.timestamp_ms
    if version >= _EPOCH_FROM:
        answer.leader_epoch = found.leader_epoch


def _units(requested: messages.ListOffsetsRequest.ListOffsetsPartition) -> int:
    return _SEARCH_UNITS if requested.timestamp >= 0 or requested.timestamp == MAX_TIMESTAMP else 1
