"""Serves a metadata log and its sessions to the brokers of one machine, over the metadata protocol. Decides nothing.

A peer first proves that it knows the cluster's secret; until then it gets nothing, and its frames are tiny. Requests of
a connection take effect in order, except renewals and waiting requests: those must not wait for the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from penstock.core.errors import (
    BrokerError,
    ClusterForbidden,
    Damaged,
    InvalidRequest,
    Malformed,
    Throttled,
    TimedOut,
    TooLarge,
    TornSegment,
    UnsupportedVersion,
    WrongCluster,
    message_of,
)
from penstock.core.limits import METADATA_APPEND_BYTES_MAX
from penstock.node.cluster.leases import Leases
from penstock.node.cluster.metadata_entries import decoded_events, encoded_entries
from penstock.node.cluster.metadata_file import MetadataFile
from penstock.node.cluster.metadata_log import Conflict, LiveSession
from penstock.node.connections.connection import Connection
from penstock.node.connections.framing import LengthPrefixed
from penstock.node.connections.outbox import Piece
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import Tasks
from penstock.wire.metadata.frames import (
    HELLO_BYTES_MAX,
    NONCE_BYTES,
    PROTOCOL_LEVEL,
    Append,
    AppendDone,
    Cancel,
    Challenge,
    Conflicting,
    EndSession,
    Failed,
    Hello,
    Message,
    OpenSession,
    Proof,
    ReadFrom,
    Renew,
    Renewed,
    SessionEnded,
    SessionOpened,
    SessionsNow,
    WatchSessions,
    Welcome,
    decode,
    encode,
)
from penstock.wire.metadata.handshake import is_proof, prove_broker, prove_coordinator

logger = logging.getLogger("penstock.metadata")

DOOR_NAME = "metadata"
ADMISSION_S_MAX = 5.0
"""How long a peer may take to prove that it knows the secret."""
WAITING_MAX = 64
"""Waiting requests of one connection: one per follower inside a broker."""
SESSIONS_MAX = 1_000
"""Live sessions: a few per broker."""
SESSION_NAME_CHARS_MAX = 100
TOKEN_BYTES_MAX = 32
FRAME_OVERHEAD_BYTES = 64


class GuardedFraming(LengthPrefixed):
    """Accepts only tiny frames until the peer is trusted."""

    def __init__(self) -> None:
        super().__init__(HELLO_BYTES_MAX)

    def trust(self) -> None:
        self._frame_bytes_max = METADATA_APPEND_BYTES_MAX + FRAME_OVERHEAD_BYTES


class MetadataService:
    """The dialect of the coordinator's port."""

    name = DOOR_NAME

    def __init__(
        self, log: MetadataFile, leases: Leases, runtime: Runtime, cluster_id: str, secret: bytes
    ) -> None:
        self.log = log
        self.leases = leases
        self.runtime = runtime
        self.cluster_id = cluster_id
        self.secret = secret
        self.tasks = Tasks()
        self.waiting = Tasks()
        self.failed: asyncio.Future[BrokerError] = asyncio.get_running_loop().create_future()
        """Set once the log accepts no more appends: the process must be restarted."""

    def open(self, connection: Connection) -> MetadataConversation:
        return MetadataConversation(self, connection)

    def release_waiting(self) -> None:
        self.waiting.cancel()

    async def stop(self) -> None:
        await self.waiting.stop()
        await self.tasks.finish()

    def fail(self, error: BrokerError) -> None:
        if not self.failed.done():
            logger.critical("the metadata log has failed; restart this process: %s", error)
            self.failed.set_result(error)


class MetadataConversation:
    """The conversation with one broker."""

    answers_after_end = False

    def __init__(self, service: MetadataService, connection: Connection) -> None:
        self._service = service
        self._connection = connection
        self.framing = GuardedFraming()
        self._hello: Hello | None = None
        self._challenge: Challenge | None = None
        self._is_trusted = False
        self._waiting: dict[int, asyncio.Task[None]] = {}
        self._in_turn: dict[type[Message], Callable[[int, Any], Coroutine[Any, Any, list[bytes]]]] = {
            Append: self._append,
            ReadFrom: self._read,
            OpenSession: self._open_session,
            EndSession: self._end_session,
        }
        self._admission = asyncio.get_running_loop().call_later(ADMISSION_S_MAX, self._too_slow)

    def handle(self, frame: memoryview) -> None:
        number, message = decode(bytes(frame))
        if not self._is_trusted:
            self._admit(number, message)
        elif isinstance(message, Renew):
            self._push(number, self._renew(message))
        elif isinstance(message, WatchSessions) or (isinstance(message, ReadFrom) and message.is_waiting):
            self._wait(number, message)
        elif isinstance(message, Cancel):
            task = self._waiting.pop(number, None)
            if task is not None:
                task.cancel()
        elif type(message) in self._in_turn:
            self._start(number, message)
        else:
            raise Malformed(f"a broker does not send {type(message).__name__} at this point")

    def closing_reply(self, error: BrokerError) -> Sequence[Piece]:
        return (encode(0, _failure_of(error)),)

    # -- the handshake

    def _admit(self, number: int, message: Message) -> None:
        service = self._service
        if isinstance(message, Hello) and self._hello is None:
            self._check_hello(message)
            nonce = service.runtime.rng.bytes(NONCE_BYTES)
            challenge = Challenge(PROTOCOL_LEVEL, service.cluster_id, nonce, b"")
            proof = prove_coordinator(service.secret, message, challenge)
            self._hello, self._challenge = message, challenge
            self._push(number, challenge._replace(proof=proof))
        elif isinstance(message, Proof) and self._hello is not None and self._challenge is not None:
            if not is_proof(prove_broker(service.secret, self._hello, self._challenge), message.proof):
                raise ClusterForbidden("the peer does not know the cluster secret")
            self._is_trusted = True
            self._admission.cancel()
            self.framing.trust()
            self._connection.on_close(self._closed)
            self._push(number, Welcome(service.log.end_index, service.leases.ttl_ms))
        else:
            raise Malformed("the peer must first prove that it knows the cluster secret")

    def _too_slow(self) -> None:
        self._connection.fail(
            TimedOut(f"the peer did not prove within {ADMISSION_S_MAX:.0f} s that it knows the secret")
        )

    def _check_hello(self, hello: Hello) -> None:
        own = self._service.cluster_id
        if hello.level != PROTOCOL_LEVEL:
            raise UnsupportedVersion(
                f"broker {hello.broker_id} speaks level {hello.level} of the metadata protocol, this coordinator"
                f" level {PROTOCOL_LEVEL}: run the same version of Penstock on both sides"
            )
        if hello.cluster_id not in ("", own):
            raise WrongCluster(
                f"broker {hello.broker_id} belongs to cluster {hello.cluster_id!r}, this coordinator to {own!r}: check"
                " the coordinator's address and the broker's data directory"
            )
        if len(hello.nonce) != NONCE_BYTES:
            raise Malformed(f"the nonce has {len(hello.nonce)} bytes, not {NONCE_BYTES}")

    # -- requests in order

    def _start(self, number: int, message: Message) -> None:
        work = self._in_turn[type(message)]

        def begin(slot: ReplySlot) -> None:
            self._service.tasks.spawn(self._answer(number, slot, work(number, message)), self._crashed)

        self._connection.turns.in_turn(begin)

    async def _answer(self, number: int, slot: ReplySlot, work: Coroutine[Any, Any, list[bytes]]) -> None:
        try:
            frames = await work
        except BrokerError as error:
            if self._is_fatal(error):
                return
            frames = [encode(number, _failure_of(error))]
        slot.answer(frames)

    def _is_fatal(self, error: BrokerError) -> bool:
        """The log is beyond use: no reply, since the outcome is known only after a restart."""
        is_fatal = isinstance(error, Damaged) and not error.retriable and not isinstance(error, TornSegment)
        if is_fatal:
            self._service.fail(error)
            self._connection.close(f"the metadata log has failed: {error}")
        return is_fatal

    def _crashed(self, error: BaseException) -> None:
        self._connection.close(f"defect: {error!r}")

    async def _append(self, number: int, message: Append) -> list[bytes]:
        try:
            events = await self._service.runtime.slices.run(decoded_events(message.records))
        except TornSegment as error:
            raise InvalidRequest(
                f"the coordinator cannot read the events, nothing was appended: {error}"
            ) from None
        if not events:
            raise InvalidRequest("an append needs at least one event")
        outcome = await self._service.log.append(message.at_index, events)
        reply = Conflicting(outcome.index) if isinstance(outcome, Conflict) else AppendDone(outcome)
        return [encode(number, reply)]

    async def _read(self, number: int, message: ReadFrom) -> list[bytes]:
        service = self._service
        entries = await service.log.read_records(message.from_index)
        return await service.runtime.slices.run(encoded_entries(number, entries, service.log.end_index))

    async def _open_session(self, number: int, message: OpenSession) -> list[bytes]:
        if not 0 < len(message.name) <= SESSION_NAME_CHARS_MAX:
            raise InvalidRequest(f"the name of a session has 1 to {SESSION_NAME_CHARS_MAX} characters")
        if len(message.token) > TOKEN_BYTES_MAX:
            raise TooLarge(f"a token has at most {TOKEN_BYTES_MAX} bytes")
        leases = self._service.leases
        if len(leases.table.live) >= SESSIONS_MAX:
            raise Throttled(f"the limit of {SESSIONS_MAX} live sessions is reached")
        live = leases.open(*message)
        reply = Conflicting(self._service.log.end_index) if live is None else SessionOpened(live.number)
        return [encode(number, reply)]

    async def _end_session(self, number: int, message: EndSession) -> list[bytes]:
        self._service.leases.end(LiveSession(*message.session))
        return [encode(number, SessionEnded())]

    # -- requests beside them

    def _renew(self, message: Renew) -> Message:
        leases = self._service.leases
        rows = [LiveSession(*row) for row in message.sessions]
        return Renewed(tuple(live.number for live in rows if leases.renew(live)))

    def _wait(self, number: int, message: Message) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self._push(
                number, _failure_of(Throttled(f"{WAITING_MAX} requests of this connection are waiting"))
            )
            return
        if number in self._waiting:
            raise Malformed(f"request {number} is waiting already")
        self._waiting[number] = self._service.waiting.spawn(self._reply_later(number, message), self._crashed)

    async def _reply_later(self, number: int, message: Message) -> None:
        try:
            if isinstance(message, ReadFrom):
                await self._service.log.grown_beyond(message.from_index)
                frames = await self._read(number, message)
            else:
                assert isinstance(message, WatchSessions)
                table = self._service.leases.table
                await table.changed_since(message.version)
                frames = [encode(number, SessionsNow(table.version, table.live))]
        except BrokerError as error:
            if self._is_fatal(error):
                return
            frames = [encode(number, _failure_of(error))]
        self._waiting.pop(number, None)
        self._connection.push(frames)

    def _push(self, number: int, message: Message) -> None:
        self._connection.push([encode(number, message)])

    def _closed(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for task in waiting.values():
            task.cancel()


def _failure_of(error: BrokerError) -> Failed:
    return Failed(error.code, message_of(error))
