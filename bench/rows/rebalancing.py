"""One round of a classic group's rebalance: how long, how many generations, and how its work grows with the members.

All members are bare sockets of this process, so the clock also runs for them. Never lets a member heartbeat unasked.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from bench.group_client import expect, find_coordinator
from bench.group_frames import NOBODY, heartbeat_frame, join_frame, sync_frame
from bench.session import TOPIC, Session
from penstock.apps.measuring.figures import Figure, at_most, figure
from penstock.apps.measuring.frames import make_batch, produce_frame
from penstock.apps.measuring.loader import Address, Loader, UnexpectedAnswer, body_of, no_collector
from penstock.core.machines.consumer_group.protocol import decode_assignment
from penstock.wire.kafka import ErrorCode

PARTITIONS = 500
MEMBERS = 50
FEWER, MORE = MEMBERS // 2, MEMBERS * 4
TWICE_MAX = 3.0
FOURFOLD_MAX = 8.0
"""Between what work in proportion would take (2 and 4 times) and what quadratic work would (4 and 16 times)."""
INITIAL_MS = 500
"""How long the first round stays open: time enough for all members to come."""
REBALANCING = int(ErrorCode.REBALANCE_IN_PROGRESS)


class Crowd:
    """The members of one group, a connection each. The first to come leads."""

    def __init__(self, address: Address, group: str, count: int) -> None:
        self._group = group
        self._loaders = [Loader(address) for _ in range(count)]
        self._ids: list[str] = []
        self._joins: list[bytes] = []
        self.generation = 0

    def close(self) -> None:
        for loader in self._loaders:
            loader.close()

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def requests(self) -> int:
        """How many a round takes: all join and sync, all but the leader are told of it by a heartbeat."""
        return 3 * len(self._loaders) - 1

    def form(self) -> None:
        """Everybody asks for an id and joins the first round; it has to be the only one."""
        find_coordinator(self._loaders[0], self._group)
        first = join_frame(self._group, NOBODY, TOPIC)
        for loader in self._loaders:
            answer = loader.call(first)
            expect(answer.error_code, int(ErrorCode.MEMBER_ID_REQUIRED), "a first join")
            self._ids.append(answer.member_id)
        self._joins = [join_frame(self._group, one, TOPIC) for one in self._ids]
        for loader, frame in zip(self._loaders, self._joins, strict=True):
            loader.send(frame)
        answers = [loader.receive() for loader in self._loaders]
        at = self._ids.index(body_of(self._joins[0], answers[0]).leader)
        answers.insert(0, answers.pop(at))
        self._lead(at)
        syncs = self._syncs(1)
        self._check(answers, self._ask_all(syncs), syncs)

    def _lead(self, at: int) -> None:
        """Put the leader first."""
        self._loaders.insert(0, self._loaders.pop(at))
        self._ids.insert(0, self._ids.pop(at))
        self._joins.insert(0, self._joins.pop(at))

    def _syncs(self, generation: int) -> list[bytes]:
        """Every member's sync of a generation to come; the leader deals the partitions out in turn."""
        count = len(self._ids)
        shares = {one: range(at, PARTITIONS, count) for at, one in enumerate(self._ids)}
        return [
            sync_frame(self._group, one, generation, TOPIC, {} if at else shares)
            for at, one in enumerate(self._ids)
        ]

    def _ask_all(self, frames: list[bytes]) -> list[bytes]:
        for loader, frame in zip(self._loaders, frames, strict=True):
            loader.send(frame)
        return [loader.receive() for loader in self._loaders]

    def round_s(self) -> float:
        """Seconds from the leader's wish for a new round until every member has its share of it."""
        leader, *others = self._loaders
        beats = [heartbeat_frame(self._group, one, self.generation) for one in self._ids[1:]]
        syncs = self._syncs(self.generation + 1)
        with no_collector():
            start_ns = time.perf_counter_ns()
            leader.send(self._joins[0])
            # Connections are not ordered among each other: the first one asks until the leader was heard.
            while body_of(beats[0], others[0].ask(beats[0])).error_code != REBALANCING:
                continue
            for loader, frame in zip(others[1:], beats[1:], strict=True):
                loader.send(frame)
            told = [loader.receive() for loader in others[1:]]
            for loader, frame in zip(others, self._joins[1:], strict=True):
                loader.send(frame)
            joined = [loader.receive() for loader in self._loaders]
            synced = self._ask_all(syncs)
            seconds = (time.perf_counter_ns() - start_ns) / 1e9
        for frame, answer in zip(beats[1:], told, strict=True):
            expect(body_of(frame, answer).error_code, REBALANCING, "a heartbeat")
        self._check(joined, synced, syncs)
        return seconds

    def _check(self, joined: list[bytes], synced: list[bytes], syncs: list[bytes]) -> None:
        """All are of the next generation, and every partition is somebody's, once."""
        self.generation += 1
        for frame, raw in zip(self._joins, joined, strict=True):
            answer = body_of(frame, raw)
            expect(answer.error_code, 0, "a join")
            if answer.generation_id != self.generation:
                raise UnexpectedAnswer(f"generation {answer.generation_id} came, {self.generation} was next")
        owned: list[int] = []
        for frame, raw in zip(syncs, synced, strict=True):
            answer = body_of(frame, raw)
            expect(answer.error_code, 0, "a sync")
            owned += decode_assignment(bytes(answer.assignment))[TOPIC]
        if sorted(owned) != list(range(PARTITIONS)):
            raise UnexpectedAnswer(f"{len(owned)} assigned partitions are not the {PARTITIONS} there are")


@dataclass(slots=True)
class Rounds:
    """Samples of a crowd of one size."""

    times_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)


def measure(session: Session) -> list[Figure]:
    rounds = {count: Rounds() for count in (FEWER, MEMBERS, MORE)}
    plain: list[float] = []
    flags: dict[str, str | int] = {
        "durability": "fsync", "default_partitions": PARTITIONS, "group_initial_rebalance_ms": INITIAL_MS,
    }  # fmt: skip
    with session.broker(**flags) as server, Loader(server.address) as loader:
        session.step(f"groups of {FEWER}, {MEMBERS} and {MORE} members come together")
        loader.create_topics([TOPIC])
        produce = produce_frame(TOPIC, make_batch(1, 64))
        answer_bytes = loader.produce(produce)
        with (
            Crowd(server.address, "fewer", FEWER) as fewer,
            Crowd(server.address, "members", MEMBERS) as members,
            Crowd(server.address, "more", MORE) as more,
        ):
            crowds = {FEWER: fewer, MEMBERS: members, MORE: more}
            for crowd in crowds.values():
                crowd.form()
                crowd.round_s()
            for _ in range(session.pick(5, 3)):
                session.step("one round after another")
                for count, crowd in crowds.items():
                    repeats = session.pick(20, 8) * MEMBERS // count
                    before_s = server.cpu_s()
                    times_s = [crowd.round_s() for _ in range(max(4, repeats))]
                    rounds[count].cpu_ms.append((server.cpu_s() - before_s) / len(times_s) * 1000)
                    rounds[count].times_ms.append(sum(times_s) / len(times_s) * 1000)
                plain.append(
                    loader.pipeline_s(produce, answer_bytes, members.requests, members.requests) * 1000
                )
            requests = members.requests
    return _figures(rounds, plain, requests)


def _figures(rounds: dict[int, Rounds], plain: list[float], requests: int) -> list[Figure]:
    words = f"rebalance, {MEMBERS} members, {PARTITIONS} partitions"
    usual = figure("plain", "ms", plain, "").value
    one = rounds[MEMBERS]
    twice = [more / fewer for more, fewer in zip(one.cpu_ms, rounds[FEWER].cpu_ms, strict=True)]
    fourfold = [more / fewer for more, fewer in zip(rounds[MORE].cpu_ms, one.cpu_ms, strict=True)]
    against = [ours / theirs for ours, theirs in zip(one.times_ms, plain, strict=True)]
    return [
        figure(words, "ms", one.times_ms, "one generation each, checked; the members' own work included"),
        figure(f"{words}, against produce", "×", against, f"{requests} produces with fsync: {usual:.1f} ms"),
        figure(f"{words}, broker CPU", "ms", one.cpu_ms, f"{requests} requests"),
        figure(
            f"broker CPU, {MEMBERS} members against {FEWER}", "×", twice,
            "in proportion 2, quadratic 4", at_most(TWICE_MAX),
        ),
        figure(
            f"broker CPU, {MORE} members against {MEMBERS}", "×", fourfold,
            "in proportion 4, quadratic 16", at_most(FOURFOLD_MAX),
        ),
    ]  # fmt: skip
