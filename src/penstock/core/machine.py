"""The vocabulary of decide/apply machines and the interface of groups towards their host.

A group is a machine: `decide_*` reads and returns a Decision, `apply` writes and never fails. Persisted events have a
record form (see `Records`), the others are volatile; replaying the persisted ones restores the persisted state. Time is
an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from penstock.core.errors import BrokerError, TornSegment

NEVER_MS = 2**62
"""A deadline that never passes."""


class GroupKind(StrEnum):
    """Group types, by the names that Kafka's tools filter on."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


class Moment(NamedTuple):
    """The time of a decision: `now_ms` is monotonic, for sessions; `wall_ms` is the wall clock, for persisted times."""

    now_ms: int
    wall_ms: int


EventT = TypeVar("EventT", bound=tuple[Any, ...])


def event_type(cls: type[EventT]) -> type[EventT]:
    """Class decorator of events, which are named tuples: equal only if their types are equal too."""
    cls.__eq__ = _is_same_event  # type: ignore[method-assign]
    cls.__ne__ = _is_other_event  # type: ignore[assignment]
    return cls


def group_event_type(kind: GroupKind) -> Callable[[type[EventT]], type[EventT]]:
    """Class decorator of events of one group of this type, which have `kind` and a field `group_id`."""

    def decorate(cls: type[EventT]) -> type[EventT]:
        cls.kind = kind  # type: ignore[attr-defined]
        return event_type(cls)

    return decorate


def _is_same_event(event: tuple[Any, ...], other: object) -> bool:
    return type(event) is type(other) and tuple.__eq__(event, other)


def _is_other_event(event: tuple[Any, ...], other: object) -> bool:
    return not _is_same_event(event, other)


class Waiter(NamedTuple):
    """A pending call: what it waits for ("join", "sync") and for which member."""

    slot: str
    member_id: str


AnswerT = TypeVar("AnswerT")
"""The response type of a successful call."""


@dataclass(slots=True)
class Decision(Generic[AnswerT]):
    """The result of a decision. The host persists and applies `events` and responds once they are durable.

    `answer` is the response to the caller; None with `waits` set parks the call under that waiter. `replies` are
    responses to parked calls, which may include this one.
    """

    events: list[Any] = field(default_factory=list)
    answer: AnswerT | BrokerError | None = None
    waits: Waiter | None = None
    replies: list[tuple[Waiter, Any]] = field(default_factory=list)


class GroupMachine(Protocol):
    """One group of any type, as its host and the admin APIs see it."""

    @property
    def id(self) -> str: ...

    @property
    def kind(self) -> GroupKind: ...

    @property
    def state_name(self) -> str:
        """Kafka's name of the state: Empty, Stable, Dead, …"""

    @property
    def protocol_type(self) -> str | None:
        """The protocol type of the members ("consumer", "connect"); None until a member joins."""

    @property
    def wake_ms(self) -> int:
        """The monotonic time at which `decide_tick` is due; NEVER_MS if there is no deadline."""

    @property
    def is_empty(self) -> bool:
        """The group has no members: offsets may be reset and the group may be deleted."""

    @property
    def is_vacant(self) -> bool:
        """The group was never persisted and has neither members nor pending joins."""

    @property
    def is_dead(self) -> bool:
        """The group was deleted; its registry removes it."""

    def apply(self, event: Any) -> None: ...

    def decide_tick(self, moment: Moment) -> Decision[None]:
        """Expire sessions and rebalances whose deadline has passed."""

    def decide_revive(self, moment: Moment) -> Decision[None]:
        """The node has replayed its log: sessions of known members restart now."""

    def decide_remove(self) -> list[Any]:
        """Events that delete the group. Raises GroupNotEmpty while it has members."""

    def check_commit(
        self, member_id: str, epoch: int, instance_id: str | None, *, transactional: bool
    ) -> None:
        """Raises unless this member may commit offsets at this generation or member epoch."""

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raises unless this member may read committed offsets."""

    def decide_seen(self, member_id: str, moment: Moment) -> list[Any]:
        """A member was active with a request other than a heartbeat."""

    def check_remove_offsets(self) -> None:
        """Raises GroupNotEmpty unless offsets of topics without subscribers may be deleted by an administrator."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member is subscribed to this topic, which protects its offsets from deletion."""

    def offsets_expire_from_ms(self, topic: str, commit_ms: int) -> int | None:
        """The wall-clock time from which an offset's retention counts; None if it does not expire now."""


Fields = tuple[bytes, bytes | None]
"""Key and value of a record."""


VERSION_BYTES = 2
"""Every key starts with its version."""


class Records:
    """Record formats of events: encoders by event type, decoders by the key's version."""

    def __init__(
        self,
        encoders: Mapping[type, Callable[[Any], Fields]],
        decoders: Mapping[int, Callable[[bytes, bytes | None], Any]],
    ) -> None:
        self._encoders = dict(encoders)
        self._decoders = dict(decoders)

    def __or__(self, other: Records) -> Records:
        assert not self._decoders.keys() & other._decoders.keys(), "two kinds of records share a key version"
        return Records(self._encoders | other._encoders, self._decoders | other._decoders)

    def is_persisted(self, event: object) -> bool:
        """Whether this event is persisted."""
        return type(event) in self._encoders

    def encode(self, event: object) -> Fields:
        return self._encoders[type(event)](event)

    def decode(self, key: bytes | None, value: bytes | None) -> Any | None:
        """The event of a record; None for unknown key versions. Raises TornSegment if the record is invalid."""
        if key is None or len(key) < VERSION_BYTES:
            raise TornSegment(f"unexpected record key {key!r} in a coordinator's topic")
        decoder = self._decoders.get(int.from_bytes(key[:VERSION_BYTES], "big", signed=True))
        return None if decoder is None else decoder(key, value)
