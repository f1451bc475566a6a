"""A stage for one classic group: members act by short names, and what they are told is written down line by line."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import BrokerError, MemberIdRequired
from penstock.core.machine import Decision, Moment, Waiter
from penstock.core.machines.classic_group.group import Group
from penstock.core.machines.classic_group.records import GROUP_RECORDS
from penstock.core.machines.classic_group.values import (
    Assigned,
    GroupLimits,
    JoinCommand,
    Joined,
    LeaveCommand,
    Protocol,
    SyncCommand,
)

LIMITS = GroupLimits(
    session_ms_min=6_000,
    session_ms_max=60_000,
    initial_rebalance_ms=50,
    initial_rebalance_static_ms=50,
    size_max=100,
)
WALL_MS = 1_700_000_000_000


def subscription(*topics: str) -> bytes:
    """What a consumer says about itself: version 0, topics, no user data."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


class Play:
    """Carries decisions out as a host does, on a clock that stands until it is told to move."""

    def __init__(self, limits: GroupLimits = LIMITS, name: str = "g") -> None:
        self.group = Group(name, limits)
        self.now_ms = 0
        self.lines: list[str] = []
        self.answers: dict[str, Any] = {}
        """Member id → what it was told last."""
        self.kept: list[Any] = []
        self.event_counts: list[int] = []
        """How many events each decision had."""
        self._waiting: dict[Waiter, str] = {}
        self._serial = 0

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, WALL_MS + self.now_ms)

    @property
    def transcript(self) -> str:
        return "\n".join(self.lines)

    def _carry_out(self, who: str, act: str, decision: Decision) -> Any:
        self.lines.append(f"{self.now_ms:>6} {act}" + (" and waits" if decision.waits is not None else ""))
        self.event_counts.append(len(decision.events))
        for event in decision.events:
            self.group.apply(event)
            if GROUP_RECORDS.is_persisted(event):
                self.kept.append(event)
                self.lines.append("         (kept)")
        if decision.waits is not None:
            self._waiting[decision.waits] = decision.waits.member_id
        elif who:
            self._tell(who, decision.answer)
        for waiter, answer in decision.replies:
            self._tell(self._waiting.pop(waiter), answer)
        return decision.answer

    def _tell(self, who: str, answer: Any) -> None:
        self.answers[who] = answer
        self.lines.append(f"         {who} ← {told(answer)}")

    def act(self, who: str, act: str, decide: Any) -> Any:
        try:
            decision = decide()
        except BrokerError as error:
            self.lines.append(f"{self.now_ms:>6} {act}")
            self._tell(who, error)
            return error
        return self._carry_out(who, act, decision)

    def join(
        self,
        who: str = "",
        *,
        fresh: str = "",
        instance: str | None = None,
        protocols: str = "range",
        protocol_type: str = "consumer",
        metadata: bytes = b"",
        known_id: bool = False,
        may_skip: bool = True,
        session_ms: int = 10_000,
        rebalance_ms: int = 30_000,
    ) -> Any:
        """`who` joins with that id; with "" it joins as new, and gets the id `fresh` if it needs one."""
        self._serial += 1
        fresh = fresh or f"m{self._serial}"
        command = JoinCommand(
            member_id=who,
            fresh_id=fresh,
            instance_id=instance,
            client_id="client",
            client_host="/127.0.0.1",
            session_ms=session_ms,
            rebalance_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=tuple(Protocol(name, metadata) for name in protocols.split()),
            needs_known_id=known_id,
            may_skip=may_skip,
        )
        label = who or (f"somebody as {instance}" if instance else "somebody")
        return self.act(who or fresh, f"{label} joins", lambda: self.group.decide_join(command, self.moment))

    def sync(self, who: str, generation: int | None = None, **assignments: bytes) -> Any:
        command = SyncCommand(
            member_id=who,
            instance_id=self._instance(who),
            generation=self.group.generation if generation is None else generation,
            protocol_type=None,
            protocol=None,
            assignments=dict(assignments),
        )
        act = f"{who} assigns" if assignments else f"{who} asks for its assignment"
        return self.act(who, act, lambda: self.group.decide_sync(command, self.moment))

    def _instance(self, who: str) -> str | None:
        member = self.group.members.get(who)
        return member.instance_id if member else None

    def beat(self, who: str, generation: int | None = None, instance: str | None = None) -> Any:
        generation = self.group.generation if generation is None else generation
        return self.act(
            who, f"{who} beats", lambda: self.group.decide_heartbeat(who, instance, generation, self.moment)
        )

    def leave(self, *who: str, instance: str | None = None) -> Any:
        leaving = [LeaveCommand(one, instance) for one in who]
        return self.act(
            ", ".join(who), f"{', '.join(who)} leaves", lambda: self.group.decide_leave(leaving, self.moment)
        )

    def wait(self, ms: int) -> None:
        """Let time pass, waking the group whenever it wants to be woken."""
        until_ms = self.now_ms + ms
        while self.group.wake_ms <= until_ms:
            self.now_ms = max(self.now_ms, self.group.wake_ms)
            before = len(self.lines)
            self._carry_out("", "time passes", self.group.decide_tick(self.moment))
            if len(self.lines) == before + 1:
                self.lines.pop()
        self.now_ms = until_ms

    def stable(self, *names: str, **more: Any) -> None:
        """Bring the group to Stable with these members; the first leads and each is assigned its own name."""
        for name in names:
            self.join(fresh=name, **more)
        self.wait(100)
        leader = self.group.leader
        assert leader is not None
        self.sync(leader, **{name: name.encode() for name in names})
        for name in names:
            if name != leader:
                self.sync(name)
        assert self.group.state_name == "Stable", self.transcript


def told(answer: Any) -> str:
    """An answer in few words."""
    match answer:
        case None:
            return "fine"
        case MemberIdRequired():
            return f"come back as {answer.member_id}"
        case BrokerError():
            return answer.code
        case Joined():
            text = f"generation {answer.generation}, {answer.protocol}, led by {answer.leader}"
            if answer.members:
                text += f", of {' '.join(one.member_id for one in answer.members)}"
            return text + (", nothing to assign" if answer.skip_assignment else "")
        case Assigned():
            return f"assigned {answer.assignment.decode() or 'nothing'}"
        case list():
            return ", ".join(told(one) for one in answer)
    return repr(answer)
