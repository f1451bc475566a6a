"""Fetch: batches from many partitions, optionally waiting for data. Records are sent with sendfile where possible.

Consumers get no fetch sessions: every response has session id 0, so they keep sending full requests. Other brokers do,
see `replica_sessions`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.core.errors import BrokerError, InvalidRequest
from penstock.core.limits import FETCH_BYTES_MAX, LARGE_FETCH_WAIT_MS_MAX
from penstock.core.model import Isolation
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.errors import code_of
from penstock.doors.kafka.leader_hints import add_leader_hint
from penstock.doors.kafka.replica_fetch import TOPIC_IDS_FROM, ReplicaReads, replica_of
from penstock.doors.kafka.replica_sessions import ReplicaSessions
from penstock.node.runtime.slices import CHUNK, Sliced, chunks
from penstock.node.waist.fetch import NO_PREFERENCE, Fetched, FetchSource, read_small
from penstock.node.waist.waist import Waist
from penstock.node.waist.waits import Waits
from penstock.wire.kafka import ErrorCode, messages

_SESSION_FINAL_EPOCH = -1


class FetchPass:
    """One pass over the partitions of a request: what was found, and whether any partition failed."""

    __slots__ = (
        "_min_bytes",
        "_runs",
        "_version",
        "body",
        "found_bytes",
        "isolation",
        "left_bytes",
        "must_answer",
        "rack",
        "replica",
        "sources",
    )

    def __init__(self, request: messages.FetchRequest, version: int) -> None:
        self.replica = replica_of(request)
        """The replica that fetches; None for a client."""
        self.rack = request.rack_id
        """Where the client is; empty if it does not say so."""
        self.body = messages.FetchResponse(responses=[])
        self.isolation = Isolation(request.isolation_level)
        self.left_bytes = min(request.max_bytes, FETCH_BYTES_MAX)
        self.found_bytes = 0
        self.must_answer = not request.topics
        self.sources: list[FetchSource] = []
        """Every partition found, for waiting."""
        self._min_bytes = request.min_bytes
        self._version = version
        self._runs: list[tuple[FetchSource, int]] = []

    def found(self, source: FetchSource, run_bytes: int) -> None:
        self.found_bytes += run_bytes
        self.left_bytes -= run_bytes
        self._runs.append((source, run_bytes))

    def refuse(
        self, answer: messages.FetchResponse.PartitionData, error: BrokerError
    ) -> messages.FetchResponse.PartitionData:
        """The partition fails, so that the response waits for nothing."""
        answer.error_code = code_of(error)
        add_leader_hint(self.body, answer, error, self._version)
        self.must_answer = True
        return answer

    def refer(
        self, answer: messages.FetchResponse.PartitionData, broker_id: int
    ) -> messages.FetchResponse.PartitionData:
        """The client should read the partition from another broker, and hears of it at once."""
        answer.preferred_read_replica = broker_id
        self.must_answer = True
        return answer

    @property
    def is_enough(self) -> bool:
        return bool(self.must_answer or self.found_bytes >= self._min_bytes)

    def answer(self) -> messages.FetchResponse:
        """The response body; counts its bytes as sent."""
        for source, run_bytes in self._runs:
            source.traffic.out_bytes += run_bytes
        return self.body


class FetchHandler:
    """Handler of Fetch."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.fetch
        self._slices = waist.slices
        self._replicas = ReplicaReads(waist)
        self._waits = Waits()
        self._sessions = ReplicaSessions(self._replicas, waist.slices, self._waits)

    def fetch(
        self, call: Call, request: messages.FetchRequest
    ) -> messages.FetchResponse | Sliced[messages.FetchResponse | None] | None:
        """Answer immediately if there is enough data, an error, or no wait time; otherwise wait."""
        refusal = self._check_request(call, request)
        if refusal is not None:
            return messages.FetchResponse(error_code=refusal, responses=[])
        replica = replica_of(request)
        has_session = request.session_epoch != _SESSION_FINAL_EPOCH and call.version >= TOPIC_IDS_FROM
        if replica is not None and has_session:
            return self._sessions.fetch(call, request, replica)
        if call.is_large or _entries(request) > CHUNK:
            return self._fetch_large(call, request)
        fetch_pass = self.read(call, request)
        if fetch_pass.is_enough or request.max_wait_ms <= 0:
            return fetch_pass.answer()
        answer = call.answer_later()

        def look() -> bool:
            fetch_pass = self.read(call, request)
            if fetch_pass.is_enough:
                answer(fetch_pass.answer())
            return fetch_pass.is_enough

        self._waits.start(
            call.connection,
            fetch_pass.sources,
            request.max_wait_ms,
            look,
            lambda: answer(self.read(call, request).answer()),
        )
        return None

    def _check_request(self, call: Call, request: messages.FetchRequest) -> int | None:
        """Reject replicas that are no brokers, and fetch sessions of consumers, which this broker does not create."""
        replica = replica_of(request)
        if replica is not None:
            try:
                self._replicas.check(call.session, replica)
            except BrokerError as error:
                return code_of(error)
        elif request.session_id != 0 and request.session_epoch != _SESSION_FINAL_EPOCH:
            return int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if request.isolation_level not in (0, 1):
            raise InvalidRequest(
                f"isolation level {request.isolation_level} is not supported; it must be 0 or 1"
            )
        return None

    def release_waiting(self) -> None:
        self._waits.release()

    def read(self, call: Call, request: messages.FetchRequest) -> FetchPass:
        """Read what is available, in request order, within the limits of the request."""
        fetch_pass = FetchPass(request, call.version)
        for topic in request.topics:
            answers = [self._read_one(call, topic, one, fetch_pass) for one in topic.partitions]
            fetch_pass.body.responses.append(_topic(topic, answers))
        return fetch_pass

    # -- many partitions

    def _fetch_large(
        self, call: Call, request: messages.FetchRequest
    ) -> Sliced[messages.FetchResponse | None]:
        """The same in slices. The wait time is shorter for large requests."""
        wait_ms = min(request.max_wait_ms, LARGE_FETCH_WAIT_MS_MAX if call.is_large else request.max_wait_ms)
        until_s = asyncio.get_running_loop().time() + wait_ms / 1000
        fetch_pass = yield from self._read_large(call, request)
        if fetch_pass.is_enough or wait_ms <= 0:
            return fetch_pass.answer()
        self._wait_large(call, request, fetch_pass, until_s, call.answer_later())
        return None

    def _wait_large(
        self,
        call: Call,
        request: messages.FetchRequest,
        fetch_pass: FetchPass,
        until_s: float,
        answer: Callable[[messages.FetchResponse], None],
    ) -> None:
        """Read again, in slices, when a partition changes or the time is up."""
        loop = asyncio.get_running_loop()

        def read_again(outcome: FetchPass | Exception) -> None:
            if isinstance(outcome, Exception):
                call.connection.close(f"Fetch: {outcome}")
            elif outcome.is_enough or loop.time() >= until_s:
                answer(outcome.answer())
            else:
                self._wait_large(call, request, outcome, until_s, answer)

        def look() -> bool:
            self._slices.queue(self._read_large(call, request), read_again)
            return True

        def give_up() -> None:
            self._slices.queue(
                self._read_large(call, request),
                lambda outcome: (
                    answer(outcome.answer()) if isinstance(outcome, FetchPass) else read_again(outcome)
                ),
            )

        wait_ms = max(1, round((until_s - loop.time()) * 1000))
        self._waits.start(call.connection, list(dict.fromkeys(fetch_pass.sources)), wait_ms, look, give_up)

    def _read_large(self, call: Call, request: messages.FetchRequest) -> Sliced[FetchPass]:
        fetch_pass = FetchPass(request, call.version)
        for topic in request.topics:
            answers: list[Any] = []
            for some in chunks(topic.partitions):
                answers += [self._read_one(call, topic, one, fetch_pass, reads_small=True) for one in some]
                yield 1 + len(some)
            fetch_pass.body.responses.append(_topic(topic, answers))
        return fetch_pass

    def _read_one(
        self,
        call: Call,
        topic: messages.FetchRequest.FetchTopic,
        one: messages.FetchRequest.FetchPartition,
        fetch_pass: FetchPass,
        *,
        reads_small: bool = False,
    ) -> messages.FetchResponse.PartitionData:
        """`reads_small`: read short runs here, in slices; otherwise all of them would be read in one loop iteration
        when sending."""
        if fetch_pass.replica is not None:
            return self._read_for_replica(call, topic, one, fetch_pass)
        left_bytes, isolation = fetch_pass.left_bytes, fetch_pass.isolation
        answer = messages.FetchResponse.PartitionData(
            partition_index=one.partition,
            high_watermark=-1,
            records=b"",
            aborted_transactions=[] if isolation is Isolation.READ_COMMITTED else None,
        )
        try:
            found = self._verbs.read(
                call.session,
                topic.topic_id if call.version >= TOPIC_IDS_FROM else topic.topic,
                one.partition,
                one.fetch_offset,
                min(one.partition_max_bytes, max(left_bytes, 0)),
                isolation,
                one.current_leader_epoch,
                fetch_pass.rack,
            )
            run = found.run
            is_taken = run is not None and (run.length <= left_bytes or not fetch_pass.found_bytes)
            records = read_small(run) if run is not None and is_taken and reads_small else run
        except BrokerError as error:
            return fetch_pass.refuse(answer, error)
        answer.high_watermark = found.high_watermark
        answer.last_stable_offset = found.last_stable_offset
        answer.log_start_offset = found.start_offset
        if found.error is not None:
            return fetch_pass.refuse(answer, found.error)
        if found.preferred_id != NO_PREFERENCE:
            return fetch_pass.refer(answer, found.preferred_id)
        fetch_pass.sources.append(found.source)
        if run is not None and is_taken:
            answer.records = records
            fetch_pass.found(found.source, run.length)
            if isolation is Isolation.READ_COMMITTED:
                answer.aborted_transactions = _aborted(found, one.fetch_offset, run.end_offset)
        return answer

    def _read_for_replica(
        self,
        call: Call,
        topic: messages.FetchRequest.FetchTopic,
        one: messages.FetchRequest.FetchPartition,
        fetch_pass: FetchPass,
    ) -> messages.FetchResponse.PartitionData:
        assert fetch_pass.replica is not None
        left_bytes = fetch_pass.left_bytes
        answer = messages.FetchResponse.PartitionData(
            partition_index=one.partition, high_watermark=-1, records=b"", aborted_transactions=None
        )
        bytes_max = min(one.partition_max_bytes, max(left_bytes, 0))
        try:
            found = self._replicas.read(call, fetch_pass.replica, topic, one, bytes_max)
        except BrokerError as error:
            return fetch_pass.refuse(answer, error)
        answer.high_watermark, answer.log_start_offset = found.high_watermark, found.start_offset
        fetch_pass.sources.append(found.source)
        # A DeleteRecords call waits until the replicas have the new start offset.
        fetch_pass.must_answer |= found.is_news or one.log_start_offset < found.start_offset
        if found.error is not None:
            fetch_pass.refuse(answer, found.error)
        elif found.diverging is not None:
            answer.diverging_epoch = messages.FetchResponse.EpochEndOffset(
                epoch=found.diverging.epoch, end_offset=found.diverging.end_offset
            )
            fetch_pass.must_answer = True
        elif found.run is not None and (found.run.length <= left_bytes or not fetch_pass.found_bytes):
            answer.records = found.run
            fetch_pass.found(found.source, found.run.length)
        return answer


def _entries(request: messages.FetchRequest) -> int:
    return sum(len(topic.partitions) for topic in request.topics)


def _topic(
    requested: messages.FetchRequest.FetchTopic, partitions: list[messages.FetchResponse.PartitionData]
) -> messages.FetchResponse.FetchableTopicResponse:
    return messages.FetchResponse.FetchableTopicResponse(
        topic=requested.topic, topic_id=requested.topic_id, partitions=partitions
    )


def _aborted(found: Fetched, start: int, end: int) -> list[messages.FetchResponse.AbortedTransaction]:
    """The aborted transactions that a read_committed reader must skip from `start` up to `end`."""
    return [
        messages.FetchResponse.AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
        for one in found.source.aborted_between(start, end)
    ]
