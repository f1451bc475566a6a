"""What all kinds of groups have in common: events, decisions, and what a host may ask. Knows the inside of none.

A group is a machine: `decide_*` reads and returns a Decision, `apply` writes and never refuses. Some of its events
are kept (they have a record form, see `Records`), the others live only as long as the node: replaying those that are
kept gives back what was kept. Time is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from penstock.core.errors import BrokerError, TornSegment

NEVER_MS = 2**62
"""A time that does not come."""


class GroupKind(StrEnum):
    """Kinds of groups, by the names that Kafka's tools filter on."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


class Moment(NamedTuple):
    """When a decision is made: `now_ms` is steady, for sessions; `wall_ms` is the calendar, for what is kept."""

    now_ms: int
    wall_ms: int


class GroupEvent(Protocol):
    """Something that happened to one group. The kind says which sort of group it happens to."""

    kind: ClassVar[GroupKind]

    @property
    def group_id(self) -> str: ...


class Waiter(NamedTuple):
    """A call that is not answered yet: what it waits for ("join", "sync") and for which member."""

    slot: str
    member_id: str


AnswerT = TypeVar("AnswerT")
"""What a call is answered with when it is not refused: a value of the machine's own."""


@dataclass(slots=True)
class Decision(Generic[AnswerT]):
    """What is to happen. The host keeps and applies `events`, then answers once what was kept is durable.

    `answer` is for whoever asked; None with `waits` set means: not yet, file the call under that waiter. `replies`
    answer calls filed earlier, or the one just filed, each with what a call of its kind is answered with.
    """

    events: list[Any] = field(default_factory=list)
    answer: AnswerT | BrokerError | None = None
    waits: Waiter | None = None
    replies: list[tuple[Waiter, Any]] = field(default_factory=list)


class GroupMachine(Protocol):
    """One group, of any kind, as its host and the admin calls see it."""

    @property
    def id(self) -> str: ...

    @property
    def kind(self) -> GroupKind: ...

    @property
    def state_name(self) -> str:
        """Kafka's word for the state: Empty, Stable, Dead, …"""

    @property
    def protocol_type(self) -> str | None:
        """What the members coordinate ("consumer", "connect"); None while nobody ever joined."""

    @property
    def wake_ms(self) -> int:
        """The steady time at which `decide_tick` is due; NEVER_MS when nothing is waited for."""

    @property
    def is_empty(self) -> bool:
        """No members: offsets may be set from outside and the group may be removed."""

    @property
    def is_vacant(self) -> bool:
        """Nothing worth keeping: never kept, no members, nobody on the way in."""

    @property
    def is_dead(self) -> bool:
        """It was removed; its registry forgets it."""

    def apply(self, event: Any) -> None: ...

    def decide_tick(self, moment: Moment) -> Decision[None]:
        """Time has passed: sessions and rounds that end with it."""

    def decide_revive(self, moment: Moment) -> Decision[None]:
        """The node has just replayed its log: sessions of known members start now."""

    def decide_remove(self) -> list[Any]:
        """Events that make the group gone. Raises GroupNotEmpty while it has members."""

    def check_commit(
        self, member_id: str, epoch: int, instance_id: str | None, *, transactional: bool
    ) -> None:
        """May this member, at this generation or member epoch, commit offsets? Raises if not."""

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """May this member read committed offsets? Raises if not."""

    def decide_seen(self, member_id: str, moment: Moment) -> list[Any]:
        """A member showed that it lives by doing something else than a heartbeat."""

    def check_remove_offsets(self) -> None:
        """May offsets be removed from outside, where no member reads the topic? Raises GroupNotEmpty if not."""

    def is_subscribed(self, topic: str) -> bool:
        """Does a member read this topic now? Its offsets are then not to be removed from outside."""

    def offsets_expire_from_ms(self, topic: str, commit_ms: int) -> int | None:
        """From which calendar time on the retention of an offset counts; None: not while the group is as it is."""


Fields = tuple[bytes, bytes | None]
"""Key and value of a record."""


class Records:
    """The record forms of events: encoders by type of event, decoders by the version that a key starts with."""

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
        """Is this event kept, or does it end with the node?"""
        return type(event) in self._encoders

    def encode(self, event: object) -> Fields:
        return self._encoders[type(event)](event)

    def decode(self, key: bytes | None, value: bytes | None) -> Any | None:
        """The event in a record; None for key versions that nobody here writes. TornSegment when it makes no sense."""
        if key is None or len(key) < 2:
            raise TornSegment(f"a record with the key {key!r} among those of groups")
        decoder = self._decoders.get(int.from_bytes(key[:2], "big", signed=True))
        return None if decoder is None else decoder(key, value)
