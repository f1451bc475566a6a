"""One rebalance of a classic group: its duration, its generations, and how its cost grows with the members.

All members are bare sockets in this process, so their own work is part of the time. No member sends other heartbeats.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from bench.figures import Figure, at_most, figure
from bench.group_client import expect, find_coordinator
from bench.group_frames import NO_MEMBER, heartbeat_frame, join_frame, sync_frame
from bench.session import TOPIC, Session
from penstock.apps.bench.harness.frames import make_batch, produce_frame
from penstock.apps.bench.harness.link import Address, UnexpectedResponse, gc_disabled
from penstock.apps.bench.harness.loader import Loader, body_of
from penstock.core.machines.consumer_group.protocol import decode_assignment
from penstock.wire.kafka import ErrorCode

PARTITIONS = 500
MEMBERS = 50
FEWER, MORE = MEMBERS // 2, MEMBERS * 4
TWICE_MAX = 3.0
FOURFOLD_MAX = 8.0
"""Between linear growth (2 and 4 times) and quadratic growth (4 and 16 times)."""
INITIAL_MS = 500
"""How long the first rebalance waits: enough for all members to join."""
REBALANCING = int(ErrorCode.REBALANCE_IN_PROGRESS)


class GroupMembers:
    """The members of one group, with one connection each. The leader is the first."""

    def __init__(self, address: Address, group: str, count: int) -> None:
        self._group = group
        self._loaders = [Loader(address) for _ in range(count)]
        self._ids: list[str] = []
        self._joins: list[bytes] = []
        self.generation = 0

    def close(self) -> None:
        for loader in self._loaders:
            loader.close()

    def __enter__(self) -> GroupMembers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def requests(self) -> int:
        """Requests of one rebalance: all members join and sync, and all but the leader learn of it by a heartbeat."""
        return 3 * len(self._loaders) - 1

    def form(self) -> None:
        """All members request an id and join the first rebalance, which must be the only one."""
        find_coordinator(self._loaders[0], self._group)
        first = join_frame(self._group, NO_MEMBER, TOPIC)
        for loader in self._loaders:
            response = loader.call(first)
            expect(response.error_code, int(ErrorCode.MEMBER_ID_REQUIRED), "the first JoinGroup")
            self._ids.append(response.member_id)
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
        """The SyncGroup requests of a generation; the leader assigns the partitions round-robin."""
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
        """Seconds from the leader's JoinGroup until every member has its assignment."""
        leader, *others = self._loaders
        beats = [heartbeat_frame(self._group, one, self.generation) for one in self._ids[1:]]
        syncs = self._syncs(self.generation + 1)
        with gc_disabled():
            start_ns = time.perf_counter_ns()
            leader.send(self._joins[0])
            # Requests of different connections are not ordered: repeat the first heartbeat until the rebalance began.
            while body_of(beats[0], others[0].ask(beats[0])).error_code != REBALANCING:
                continue
            for loader, frame in zip(others[1:], beats[1:], strict=True):
                loader.send(frame)
            notified = [loader.receive() for loader in others[1:]]
            for loader, frame in zip(others, self._joins[1:], strict=True):
                loader.send(frame)
            joined = [loader.receive() for loader in self._loaders]
            synced = self._ask_all(syncs)
            seconds = (time.perf_counter_ns() - start_ns) / 1e9
        for frame, response in zip(beats[1:], notified, strict=True):
            expect(body_of(frame, response).error_code, REBALANCING, "a heartbeat")
        self._check(joined, synced, syncs)
        return seconds

    def _check(self, joined: list[bytes], synced: list[bytes], syncs: list[bytes]) -> None:
        """All are of the next generation, and every partition is somebody's, once."""
        self.generation += 1
        for frame, raw in zip(self._joins, joined, strict=True):
            response = body_of(frame, raw)
            expect(response.error_code, 0, "JoinGroup")
            if response.generation_id != self.generation:
                raise UnexpectedResponse(f"generation {response.generation_id} instead of {self.generation}")
        owned: list[int] = []
        for frame, raw in zip(syncs, synced, strict=True):
            response = body_of(frame, raw)
            expect(response.error_code, 0, "SyncGroup")
            owned += decode_assignment(bytes(response.assignment))[TOPIC]
        if sorted(owned) != list(range(PARTITIONS)):
            raise UnexpectedResponse(f"{len(owned)} partitions are assigned instead of {PARTITIONS}")


@dataclass(slots=True)
class Rounds:
    """Samples of one group size."""

    times_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)


def measure(session: Session) -> list[Figure]:
    rounds = {count: Rounds() for count in (FEWER, MEMBERS, MORE)}
    plain: list[float] = []
    flags: dict[str, str | int] = {
        "durability": "fsync", "default_partitions": PARTITIONS, "group_initial_rebalance_ms": INITIAL_MS,
    }  # fmt: skip
    with session.broker(**flags) as server, Loader(server.address) as loader:
        session.step(f"groups of {FEWER}, {MEMBERS} and {MORE} members join")
        loader.create_topics([TOPIC])
        produce = produce_frame(TOPIC, make_batch(1, 64))
        response_bytes = loader.produce(produce)
        with (
            GroupMembers(server.address, "fewer", FEWER) as fewer,
            GroupMembers(server.address, "members", MEMBERS) as members,
            GroupMembers(server.address, "more", MORE) as more,
        ):
            groups = {FEWER: fewer, MEMBERS: members, MORE: more}
            for group in groups.values():
                group.form()
                group.round_s()
            for _ in range(session.pick(5, 3)):
                session.step("rebalances")
                for count, group in groups.items():
                    repeats = session.pick(20, 8) * MEMBERS // count
                    with server.process.cpu_time() as spent:
                        times_s = [group.round_s() for _ in range(max(4, repeats))]
                    rounds[count].cpu_ms.append(spent.cpu_s / len(times_s) * 1000)
                    rounds[count].times_ms.append(sum(times_s) / len(times_s) * 1000)
                plain.append(
                    loader.pipeline_s(produce, response_bytes, members.requests, members.requests) * 1000
                )
            requests = members.requests
    return _figures(rounds, plain, requests)


def _figures(rounds: dict[int, Rounds], plain: list[float], requests: int) -> list[Figure]:
    name = f"rebalance, {MEMBERS} members, {PARTITIONS} partitions"
    plain_ms = figure("plain", "ms", plain, "").value
    one = rounds[MEMBERS]
    twice = [more / fewer for more, fewer in zip(one.cpu_ms, rounds[FEWER].cpu_ms, strict=True)]
    fourfold = [more / fewer for more, fewer in zip(rounds[MORE].cpu_ms, one.cpu_ms, strict=True)]
    against = [ours / theirs for ours, theirs in zip(one.times_ms, plain, strict=True)]
    return [
        figure(name, "ms", one.times_ms, "one generation each, checked; including the work of the members"),
        figure(f"{name}, against produce", "×", against, f"{requests} produces with fsync: {plain_ms:.1f} ms"),
        figure(f"{name}, broker CPU", "ms", one.cpu_ms, f"{requests} requests"),
        figure(
            f"broker CPU, {MEMBERS} members against {FEWER}", "×", twice,
            "linear 2, quadratic 4", at_most(TWICE_MAX),
        ),
        figure(
            f"broker CPU, {MORE} members against {MEMBERS}", "×", fourfold,
            "linear 4, quadratic 16", at_most(FOURFOLD_MAX),
        ),
    ]  # fmt: skip
