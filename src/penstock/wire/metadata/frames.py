"""The messages of the metadata protocol and their frames. Validates every length; no I/O.

    [4 length][1 message type][4 request number][fields of the message]

`length` counts what follows it. A reply carries the number of its request. `MESSAGE_FIELDS` is the specification:
the type of a message is its place in that table.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from penstock.core.errors import Malformed
from penstock.wire.frame_fields import FrameFields
from penstock.wire.metadata.fields import (
    BLOB,
    FLAG,
    LONG,
    LONGS,
    SESSION,
    SESSIONS,
    SHORT,
    SIGNED,
    TEXT,
    FieldKind,
)

PROTOCOL_LEVEL = 1
"""Raised whenever the two sides of an older level would misunderstand each other."""

NONCE_BYTES = 32
HELLO_BYTES_MAX = 1_024
"""A peer that has not proven that it knows the secret sends no larger frames."""

LENGTH_BYTES = 4
_LENGTH = Struct(">I")
_HEAD = Struct(">BI")

SessionRow = tuple[str, int, int]
"""Name, holder and number of a session."""


class Hello(NamedTuple):
    """First message of a broker. An empty cluster id accepts any cluster."""

    level: int
    broker_id: int
    cluster_id: str
    nonce: bytes


class Challenge(NamedTuple):
    """The coordinator's answer: it proves that it knows the secret, and asks for the same proof."""

    level: int
    cluster_id: str
    nonce: bytes
    proof: bytes


class Proof(NamedTuple):
    """The broker's proof, in answer to the challenge."""

    proof: bytes


class Welcome(NamedTuple):
    """The broker is admitted. Sessions last `ttl_ms` without renewal."""

    end_index: int
    ttl_ms: int


class Append(NamedTuple):
    """Append these records if the log ends at `at_index`."""

    at_index: int
    records: bytes


class AppendDone(NamedTuple):
    """The records are durable, and the log ends at `end_index`."""

    end_index: int


class Conflicting(NamedTuple):
    """The log ended at `end_index` instead, or the name has a live session. Nothing was changed."""

    end_index: int


class ReadFrom(NamedTuple):
    """Ask for the entries after `from_index`; with `is_waiting`, the reply waits until there are some."""

    from_index: int
    is_waiting: bool


class EntryPart(NamedTuple):
    """Records of the entry that ends at `end_index`. A reply is one or more parts; an entry may span several."""

    end_index: int
    records: bytes
    is_snapshot: bool
    ends_entry: bool
    ends_reply: bool


class OpenSession(NamedTuple):
    """Open a session. Repeating the request with the same token returns the same session."""

    name: str
    holder: int
    token: bytes


class SessionOpened(NamedTuple):
    """The session is alive."""

    number: int


class Renew(NamedTuple):
    """Renew these sessions. Without any it is a ping."""

    sessions: tuple[SessionRow, ...]


class Renewed(NamedTuple):
    """The numbers of those that are alive; the others have ended."""

    numbers: tuple[int, ...]


class EndSession(NamedTuple):
    """End this session, if it is alive."""

    session: SessionRow


class SessionEnded(NamedTuple):
    """The session is not alive, whether it was ended now or before."""


class WatchSessions(NamedTuple):
    """Ask for the live sessions as soon as their version is not `version`; 0 asks for those of now."""

    version: int


class SessionsNow(NamedTuple):
    """All live sessions, oldest first."""

    version: int
    sessions: tuple[SessionRow, ...]


class Cancel(NamedTuple):
    """The reply to the waiting request of this number is no longer wanted. Has no reply."""


class Failed(NamedTuple):
    """The request failed. `code` is the name of the error."""

    code: str
    message: str


Message = (
    Hello
    | Challenge
    | Proof
    | Welcome
    | Append
    | AppendDone
    | Conflicting
    | ReadFrom
    | EntryPart
    | OpenSession
    | SessionOpened
    | Renew
    | Renewed
    | EndSession
    | SessionEnded
    | WatchSessions
    | SessionsNow
    | Cancel
    | Failed
)

MESSAGE_FIELDS: dict[type[Message], tuple[FieldKind, ...]] = {
    Hello: (SHORT, SIGNED, TEXT, BLOB),
    Challenge: (SHORT, TEXT, BLOB, BLOB),
    Proof: (BLOB,),
    Welcome: (LONG, LONG),
    Append: (LONG, BLOB),
    AppendDone: (LONG,),
    Conflicting: (LONG,),
    ReadFrom: (LONG, FLAG),
    EntryPart: (LONG, BLOB, FLAG, FLAG, FLAG),
    OpenSession: (TEXT, SIGNED, BLOB),
    SessionOpened: (LONG,),
    Renew: (SESSIONS,),
    Renewed: (LONGS,),
    EndSession: (SESSION,),
    SessionEnded: (),
    WatchSessions: (LONG,),
    SessionsNow: (LONG, SESSIONS),
    Cancel: (),
    Failed: (TEXT, TEXT),
}

REPLIES_TO: dict[type[Message], tuple[type[Message], ...]] = {
    Append: (AppendDone, Conflicting),
    ReadFrom: (EntryPart,),
    OpenSession: (SessionOpened, Conflicting),
    Renew: (Renewed,),
    EndSession: (SessionEnded,),
    WatchSessions: (SessionsNow,),
}
"""What the coordinator answers to each request; any of them may fail instead."""

_KINDS = tuple(MESSAGE_FIELDS)
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS, 1)}


def encode(number: int, message: Message) -> bytes:
    """The whole frame, including its length."""
    kind = type(message)
    fields = b"".join(
        [field.encode(value) for field, value in zip(MESSAGE_FIELDS[kind], message, strict=True)]
    )
    return b"".join((_LENGTH.pack(_HEAD.size + len(fields)), _HEAD.pack(_NUMBERS[kind], number), fields))


def decode(frame: bytes) -> tuple[int, Message]:
    """Request number and message of a frame without its length. Raises Malformed."""
    if len(frame) < _HEAD.size:
        raise Malformed(f"{len(frame)} bytes are too few for a frame of the metadata protocol")
    kind_number, number = _HEAD.unpack_from(frame)
    if not 1 <= kind_number <= len(_KINDS):
        raise Malformed(f"unknown message type {kind_number} of the metadata protocol")
    kind: Any = _KINDS[kind_number - 1]
    fields = FrameFields(frame, _HEAD.size)
    message: Message = kind._make([field.decode(fields) for field in MESSAGE_FIELDS[kind]])
    if fields.left_bytes:
        raise Malformed(f"{fields.left_bytes} bytes follow the last field of {kind.__name__}")
    return number, message
