"""Fetch sessions of other brokers: a replica names only the partitions whose fetch has changed, and is told only of
those with something new. A fetch therefore costs what has changed, not what is replicated (KIP-227).

A session belongs to a connection, and there is one for each broker; consumers get none. A partition that is answered
with an error leaves the session. A new request of a session ends the wait of the one before it, so that a replica can
name more partitions at any time. All partitions are read at least twice a second: what a replica has not named again
is still what it has, and it is told of offsets that have moved without records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from penstock.core.errors import BrokerError
from penstock.core.limits import FETCH_BYTES_MAX
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.errors import code_of
from penstock.doors.kafka.leader_hints import add_leader_hint
from penstock.doors.kafka.replica_fetch import ReplicaReads
from penstock.node.connections.connection import Connection
from penstock.node.runtime.slices import CHUNK, Sliced, Slices, chunks, run_unsliced
from penstock.node.waist.replicas import ReplicaIdentity
from penstock.node.waist.waits import Waits
from penstock.wire.kafka import ErrorCode, messages

if TYPE_CHECKING:
    from penstock.node.waist.replicas import ReplicaRead, ReplicaSource

NO_SESSION, FIRST_EPOCH = 0, 0
"""Session id and epoch of a request that begins a session."""
WHOLE_S = 0.5
"""All partitions of a session are read this often."""
CHECKED_MAX = 100
"""In sessions with up to this many partitions, those that have grown are found before their listeners are called, which
is a turn of the loop later: answers become larger, and fewer."""
SESSION_IDS = 1 << 31

Key = tuple[bytes, int]
"""Topic id and partition."""


class SessionPartition:
    """A partition as the replica has named it last, and what it was told."""

    __slots__ = ("listener", "one", "source", "told", "topic")

    def __init__(self, topic_id: bytes, listener: Callable[[], None]) -> None:
        self.topic = messages.FetchRequest.FetchTopic(topic_id=topic_id, partitions=[])
        self.one = messages.FetchRequest.FetchPartition()
        self.listener = listener
        self.source: ReplicaSource | None = None
        """What the listener listens to."""
        self.told: tuple[int, int] | None = None
        """High watermark and start offset."""

    @property
    def has_grown(self) -> bool:
        """Whether there are records after those that the replica has."""
        return self.source is not None and self.source.end_offset > self.one.fetch_offset

    def listen(self, source: ReplicaSource) -> None:
        """The partition may have been opened again since the last read."""
        if self.source is None or not source.is_like(self.source):
            self.leave()
            self.source = source
            source.add_listener(self.listener)

    def leave(self) -> None:
        if self.source is not None:
            self.source.remove_listener(self.listener)
            self.source = None


class ReplicaSession:
    """The partitions that one broker fetches from this one over one connection."""

    def __init__(self, session_id: int, replica: ReplicaIdentity, connection: Connection) -> None:
        self.id = session_id
        self.replica = replica
        self.connection = connection
        self.next_epoch = FIRST_EPOCH
        self.whole_s = 0.0
        """When all partitions were read last."""
        self._partitions: dict[Key, SessionPartition] = {}
        self._fresh: dict[Key, None] = {}
        """Partitions to read next, in this order: named by the last request, or changed since."""
        self._listener: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._is_due = False
        self.ended: Callable[[], None] = self.close
        """Called when the connection is lost."""

    def take(self, request: messages.FetchRequest) -> None:
        """Adopt what a request names and forgets."""
        self.next_epoch += 1
        for gone in request.forgotten_topics_data:
            for index in gone.partitions:
                self.drop((gone.topic_id, index))
        for topic in request.topics:
            for one in topic.partitions:
                key = topic.topic_id, one.partition
                known = self._partitions.get(key)
                if known is None:
                    known = self._partitions[key] = SessionPartition(
                        topic.topic_id, partial(self._changed, key)
                    )
                known.one = one
                self._fresh.pop(key, None)
                self._fresh[key] = None

    def drop(self, key: Key) -> None:
        known = self._partitions.pop(key, None)
        self._fresh.pop(key, None)
        if known is not None:
            known.leave()

    def find(self, key: Key) -> SessionPartition | None:
        return self._partitions.get(key)

    def due(self, now_s: float, count_max: int | None = None) -> Sequence[Key]:
        """The partitions to read now: those that have changed, or all if that is due and `count_max` is not given."""
        if count_max is None and now_s - self.whole_s >= WHOLE_S:
            self.whole_s = now_s
            # Those that had no place in the last answer come first.
            keys = list(dict.fromkeys((*self._fresh, *self._partitions)))
            self._fresh.clear()
            return keys
        if len(self._partitions) <= CHECKED_MAX:
            for key, known in self._partitions.items():
                if known.has_grown:
                    self._fresh[key] = None
        keys = list(self._fresh)[:count_max]
        for key in keys:
            del self._fresh[key]
        return keys

    def keep(self, key: Key) -> None:
        """The partition has more than this answer can hold."""
        self._fresh[key] = None

    # -- a waiting fetch listens to the session

    def add_listener(self, listener: Callable[[], None]) -> None:
        self._listener = listener

    def remove_listener(self, listener: Callable[[], None]) -> None:
        if self._listener == listener:
            self._listener = None

    def _changed(self, key: Key) -> None:
        """All partitions that change in one turn of the loop are told together."""
        self._fresh[key] = None
        if self._listener is not None and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._notify)

    def _notify(self) -> None:
        self._is_due = False
        if self._listener is not None:
            self._listener()

    def supersede(self) -> None:
        """Another request of the session has come: the waiting one is answered."""
        if self._listener is not None:
            self._listener()

    def close(self) -> None:
        for known in self._partitions.values():
            known.leave()
        self._partitions.clear()
        self._fresh.clear()


class SessionAnswer:
    """The partitions of one answer."""

    __slots__ = ("_sent", "_told", "_topics", "body", "found_bytes", "left_bytes", "must_answer", "version")

    def __init__(self, session: ReplicaSession, request: messages.FetchRequest, version: int) -> None:
        self.body = messages.FetchResponse(session_id=session.id, responses=[])
        self.version = version
        self.left_bytes = min(request.max_bytes, FETCH_BYTES_MAX)
        self.found_bytes = 0
        self.must_answer = False
        self._topics: dict[bytes, messages.FetchResponse.FetchableTopicResponse] = {}
        self._sent: list[tuple[ReplicaSource, int]] = []
        self._told: list[tuple[SessionPartition, tuple[int, int]]] = []

    @property
    def is_enough(self) -> bool:
        return self.must_answer or self.found_bytes > 0

    def add(self, topic_id: bytes, part: messages.FetchResponse.PartitionData) -> None:
        topic = self._topics.get(topic_id)
        if topic is None:
            topic = messages.FetchResponse.FetchableTopicResponse(topic_id=topic_id, partitions=[])
            self._topics[topic_id] = topic
            self.body.responses.append(topic)
        topic.partitions.append(part)

    def found(self, source: ReplicaSource, run_bytes: int) -> None:
        self.found_bytes += run_bytes
        self.left_bytes -= run_bytes
        self._sent.append((source, run_bytes))

    def refuse(self, topic_id: bytes, part: messages.FetchResponse.PartitionData, error: BrokerError) -> None:
        part.error_code = code_of(error)
        add_leader_hint(self.body, part, error, self.version)
        self.must_answer = True
        self.add(topic_id, part)

    def tell(
        self, known: SessionPartition, told: tuple[int, int], part: messages.FetchResponse.PartitionData
    ) -> None:
        self._told.append((known, told))
        self.add(known.topic.topic_id, part)

    def complete(self) -> messages.FetchResponse:
        """The response, which is sent: not every pass leads to one."""
        for source, run_bytes in self._sent:
            source.traffic.out_bytes += run_bytes
        for known, told in self._told:
            known.told = told
        return self.body


class ReplicaSessions:
    """The sessions of all brokers that replicate from this one."""

    def __init__(self, reads: ReplicaReads, slices: Slices, waits: Waits) -> None:
        self._reads = reads
        self._slices = slices
        self._waits = waits
        self._sessions: dict[int, ReplicaSession] = {}
        self._last_id = 0

    def fetch(
        self, call: Call, request: messages.FetchRequest, replica: ReplicaIdentity
    ) -> messages.FetchResponse | Sliced[messages.FetchResponse | None] | None:
        """Answer a request that begins or continues a session; the caller has checked who asks."""
        if request.session_id == NO_SESSION:
            session = self._begin(call, replica)
        else:
            found = self._sessions.get(replica.broker_id)
            if found is None or (found.id, found.replica) != (request.session_id, replica):
                return _refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            if found.connection is not call.connection:
                return _refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            if found.next_epoch != request.session_epoch:
                return _refusal(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            session = found
        session.take(request)
        session.supersede()
        keys = session.due(asyncio.get_running_loop().time())
        steps = self._answer(session, call, request, keys)
        return steps if len(keys) > CHUNK or call.is_large else run_unsliced(steps)

    def _begin(self, call: Call, replica: ReplicaIdentity) -> ReplicaSession:
        before = self._sessions.pop(replica.broker_id, None)
        if before is not None:
            before.connection.not_on_close(before.ended)
            before.supersede()
            before.close()
        self._last_id = self._last_id % (SESSION_IDS - 1) + 1
        session = ReplicaSession(self._last_id, replica, call.connection)
        self._sessions[replica.broker_id] = session
        session.ended = partial(self._end, session)
        call.connection.on_close(session.ended)
        return session

    def _end(self, session: ReplicaSession) -> None:
        """Its connection is lost, and with it whoever waits."""
        if self._sessions.get(session.replica.broker_id) is session:
            del self._sessions[session.replica.broker_id]
        session.close()

    def _answer(
        self, session: ReplicaSession, call: Call, request: messages.FetchRequest, keys: Sequence[Key]
    ) -> Sliced[messages.FetchResponse | None]:
        answer = yield from self._read(session, call, request, keys)
        if answer.is_enough or request.max_wait_ms <= 0 or not self._is_last(session, request):
            return answer.complete()
        self._wait(session, call, request)
        return None

    def _is_last(self, session: ReplicaSession, request: messages.FetchRequest) -> bool:
        """Whether no later request of the session has come, and it has not ended."""
        is_current = self._sessions.get(session.replica.broker_id) is session
        epoch = FIRST_EPOCH if request.session_id == NO_SESSION else request.session_epoch
        return is_current and session.next_epoch == epoch + 1

    def _wait(self, session: ReplicaSession, call: Call, request: messages.FetchRequest) -> None:
        send, loop = call.answer_later(), asyncio.get_running_loop()

        def look() -> bool:
            is_over = not self._is_last(session, request)
            keys = () if is_over else session.due(loop.time(), CHUNK)
            answer = run_unsliced(self._read(session, call, request, keys))
            if is_over or answer.is_enough:
                send(answer.complete())
            return is_over or answer.is_enough

        def give_up() -> None:
            session.whole_s = loop.time() - WHOLE_S
            steps = self._read(session, call, request, session.due(loop.time()))
            self._slices.go(steps, told)

        def told(outcome: SessionAnswer | Exception) -> None:
            if isinstance(outcome, Exception):
                call.connection.close(f"Fetch: {outcome}")
            else:
                send(outcome.complete())

        self._waits.start(call.connection, [session], request.max_wait_ms, look, give_up)

    def _read(
        self, session: ReplicaSession, call: Call, request: messages.FetchRequest, keys: Sequence[Key]
    ) -> Sliced[SessionAnswer]:
        answer = SessionAnswer(session, request, call.version)
        for some in chunks(keys):
            for key in some:
                known = session.find(key)
                if known is not None:
                    self._read_one(session, key, known, call, answer)
            yield 1 + len(some)
        return answer

    def _read_one(
        self, session: ReplicaSession, key: Key, known: SessionPartition, call: Call, answer: SessionAnswer
    ) -> None:
        one, left_bytes = known.one, answer.left_bytes
        part = messages.FetchResponse.PartitionData(
            partition_index=one.partition, high_watermark=-1, records=b"", aborted_transactions=None
        )
        try:
            bytes_max = min(one.partition_max_bytes, max(left_bytes, 0))
            found: ReplicaRead = self._reads.read(call, session.replica, known.topic, one, bytes_max)
        except BrokerError as error:
            session.drop(key)
            answer.refuse(key[0], part, error)
            return
        part.high_watermark, part.log_start_offset = found.high_watermark, found.start_offset
        if found.error is not None:
            session.drop(key)
            answer.refuse(key[0], part, found.error)
            return
        known.listen(found.source)
        # A DeleteRecords call waits until the replicas have the new start offset.
        is_news = found.is_news or one.log_start_offset < found.start_offset
        if found.diverging is not None:
            part.diverging_epoch = messages.FetchResponse.EpochEndOffset(
                epoch=found.diverging.epoch, end_offset=found.diverging.end_offset
            )
            is_news = True
        elif found.run is not None and (found.run.length <= left_bytes or not answer.found_bytes):
            part.records = found.run
            answer.found(found.source, found.run.length)
        elif found.run is not None:
            session.keep(key)
        answer.must_answer |= is_news
        told = found.high_watermark, found.start_offset
        if is_news or part.records or told != known.told:
            answer.tell(known, told, part)


def _refusal(code: ErrorCode) -> messages.FetchResponse:
    return messages.FetchResponse(error_code=int(code), responses=[])
