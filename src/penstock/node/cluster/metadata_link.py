"""One connection of a broker to the coordinator: handshake, requests, replies by number. Never reconnects by itself.

Once the connection is lost, every call fails with ConnectionError, and a new link is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from penstock.core.errors import (
    BrokerError,
    ClusterForbidden,
    DiskFull,
    InvalidRequest,
    Malformed,
    Offline,
    OutOfDescriptors,
    Throttled,
    TimedOut,
    TooLarge,
    TornSegment,
    UnsupportedVersion,
    WrongCluster,
)
from penstock.core.limits import METADATA_APPEND_BYTES_MAX
from penstock.core.model import Address
from penstock.core.ports import Rng
from penstock.node.runtime.tasks import Tasks
from penstock.wire.metadata.frames import (
    LENGTH_BYTES,
    NONCE_BYTES,
    PROTOCOL_LEVEL,
    REPLIES_TO,
    Cancel,
    Challenge,
    EntryPart,
    Failed,
    Hello,
    Message,
    Proof,
    Welcome,
    decode,
    encode,
)
from penstock.wire.metadata.handshake import is_proof, prove_broker, prove_coordinator

FRAME_BYTES_MAX = 2 * METADATA_APPEND_BYTES_MAX

_Reply = TypeVar("_Reply", Challenge, Welcome)

_ERRORS: Mapping[str, type[BrokerError]] = {
    error.__name__: error
    for error in (
        ClusterForbidden,
        DiskFull,
        InvalidRequest,
        Malformed,
        Offline,
        OutOfDescriptors,
        Throttled,
        TimedOut,
        TooLarge,
        TornSegment,
        UnsupportedVersion,
        WrongCluster,
    )
}


@dataclass(frozen=True, slots=True)
class CoordinatorAccess:
    """What a broker needs to reach its coordinator."""

    address: Address
    secret: bytes
    broker_id: int
    cluster_id: str = ""
    """Empty: accept any cluster that knows the secret."""

    def __str__(self) -> str:
        return f"the metadata coordinator at {self.address}"


class MetadataLink:
    """An open connection after a successful handshake. Created by `connect_coordinator`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = count(1)
        self._replies: dict[int, asyncio.Future[Message]] = {}
        self._parts: dict[int, list[EntryPart]] = {}
        self._tasks = Tasks()
        self.cluster_id = ""
        self.welcome = Welcome(0, 0)
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Set, with the reason, once the connection is gone."""

    # -- calls

    async def call(self, message: Message) -> Message:
        """Send a request and wait for its reply. Raises the error that the coordinator answered, or ConnectionError."""
        _, reply = await self._call(message)
        return reply

    async def call_for_entries(self, message: Message) -> list[EntryPart]:
        """The same for a request whose reply consists of parts."""
        number, reply = await self._call(message)
        assert isinstance(reply, EntryPart)
        return [*self._parts.pop(number, ()), reply]

    async def _call(self, message: Message) -> tuple[int, Message]:
        number = next(self._numbers)
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._write(number, message)
        self._replies[number] = reply
        try:
            found = await reply
        except asyncio.CancelledError:
            self._parts.pop(number, None)
            if self._replies.pop(number, None) is not None and not self._is_closing:
                self._write(number, Cancel())
            raise
        if isinstance(found, Failed):
            raise error_of(found)
        if type(found) not in REPLIES_TO[type(message)]:
            why = f"the coordinator answered {type(message).__name__} with {type(found).__name__}"
            self.close(why)
            raise ConnectionResetError(why)
        return number, found

    def _write(self, number: int, message: Message) -> None:
        """Raises ConnectionResetError if the connection is gone, which this link may not have heard of yet."""
        if self._is_closing:
            self.close("the connection was reset")
            raise ConnectionResetError(self.lost.result())
        self._writer.write(encode(number, message))

    @property
    def _is_closing(self) -> bool:
        return self._writer.transport.is_closing()

    # -- receive

    def start(self) -> None:
        """Begin to receive replies."""
        self._tasks.spawn(self._receive())

    async def _receive(self) -> None:
        try:
            while True:
                number, message = await self.next_message()
                if isinstance(message, EntryPart) and not message.ends_reply:
                    if number in self._replies:
                        self._parts.setdefault(number, []).append(message)
                    continue
                reply = self._replies.pop(number, None)
                if reply is not None and not reply.done():
                    reply.set_result(message)
        except (OSError, EOFError) as error:
            self.close(str(error) or type(error).__name__)
        except Malformed as error:
            self.close(f"the coordinator sent a malformed message: {error}")

    async def next_message(self) -> tuple[int, Message]:
        """Raises OSError, EOFError, and Malformed."""
        length = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES), "big")
        if length > FRAME_BYTES_MAX:
            raise Malformed(f"a frame of {length} bytes exceeds the limit of {FRAME_BYTES_MAX}")
        return decode(await self._reader.readexactly(length))

    def send(self, message: Message) -> None:
        """Send a message whose reply is read with `next_message`: during the handshake only."""
        self._write(0, message)

    def close(self, why: str) -> None:
        """Close the connection; fails all calls. Safe to call again."""
        if self.lost.done():
            return
        self.lost.set_result(why)
        self._tasks.cancel()
        self._writer.transport.abort()
        replies, self._replies = self._replies, {}
        for reply in replies.values():
            if not reply.done():
                reply.set_exception(ConnectionResetError(why))


async def connect_coordinator(access: CoordinatorAccess, rng: Rng) -> MetadataLink:
    """Connect and prove each other's identity. Raises OSError, EOFError, or the BrokerError that stands against it."""
    reader, writer = await asyncio.open_connection(access.address.host, access.address.port)
    link = MetadataLink(reader, writer)
    try:
        hello = Hello(PROTOCOL_LEVEL, access.broker_id, access.cluster_id, rng.bytes(NONCE_BYTES))
        link.send(hello)
        challenge = await _expect(link, Challenge)
        if not is_proof(prove_coordinator(access.secret, hello, challenge), challenge.proof):
            raise ClusterForbidden(
                f"whoever listens as {access} does not know the cluster secret: check the address, and that both sides"
                " use the same secret file"
            )
        link.send(Proof(prove_broker(access.secret, hello, challenge)))
        link.welcome = await _expect(link, Welcome)
    except BaseException:
        link.close("the handshake failed")
        raise
    link.cluster_id = challenge.cluster_id
    link.start()
    return link


async def _expect(link: MetadataLink, kind: type[_Reply]) -> _Reply:
    _, message = await link.next_message()
    if isinstance(message, Failed):
        raise error_of(message)
    if not isinstance(message, kind):
        raise Malformed(f"the coordinator sent {type(message).__name__} instead of {kind.__name__}")
    return message


def error_of(failed: Failed) -> BrokerError:
    """The error that the coordinator answered. One that this version does not know may be retried."""
    return _ERRORS.get(failed.code, TimedOut)(failed.message)
