"""Members on machines that are far too busy: delayed joins, syncs and heartbeats, lost connections, over the real wire.

Whatever happens meanwhile, the coordinator forgets nobody, and once the trouble ends all members share all partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

import pytest

from in_process_client import KAFKA_ONLY
from penstock.core.machine import Moment
from penstock.core.machines.classic_group.group import Group
from penstock.core.machines.classic_group.values import Touched
from penstock.node.settings import Settings
from sim import node
from sim.group_member import GROUP, PARTITIONS, REBALANCE_MS, SESSION_MS, SimMember
from sim.loop import SimLoop, run
from sim.machine import Machine

SETTINGS = Settings(host=node.NAME, port=node.PORT, **KAFKA_ONLY)
TROUBLE_S = 20.0
SETTLED_S_MAX = (SESSION_MS + REBALANCE_MS) / 1_000
"""An id whose answer got lost may hold a round up for a session, a member that lost its way for a rebalance timeout."""
STEP_S = 0.1
QUIET_S = 5.0


class Trial:
    """One seed."""

    def __init__(self, loop: SimLoop, count: int, *, are_static: bool) -> None:
        self.loop = loop
        self.history: list[str] = []
        self.members = [
            SimMember(loop, f"member{n}", self.history, instance=f"instance{n}" if are_static else None)
            for n in range(count)
        ]

    async def run(self) -> None:
        node_there = await Machine(self.loop, node.NAME).boot(partial(node.boot, settings=SETTINGS))
        works = [self.loop.spawn(one.name, one.run()) for one in self.members]
        await asyncio.sleep(TROUBLE_S)
        for one in self.members:
            one.has_trouble = False
        self.history.append(f"{self.loop.time():9.3f} the trouble is over")
        until_s = self.loop.time() + SETTLED_S_MAX
        while not self._is_shared() and self.loop.time() < until_s:
            await asyncio.sleep(STEP_S)
        assert self._is_shared(), self.story(node_there)
        generations = {one.generation for one in self.members}
        await asyncio.sleep(QUIET_S)
        assert self._is_shared() and {one.generation for one in self.members} == generations, self.story(
            node_there
        )
        assert not any(one.times_forgotten for one in self.members), self.story(node_there)
        for work in works:
            work.cancel()

    def _is_shared(self) -> bool:
        held = sorted(index for one in self.members for index in one.holds)
        return held == list(range(PARTITIONS)) and all(one.holds for one in self.members)

    def story(self, at: node.Node) -> str:
        group = at.broker.group_coordinator.groups.find(GROUP)
        return "\n".join([*self.history, f"the group: {vars(group) if group is not None else None}"])


def play(seeds: Iterable[int]) -> int:
    """How many answers were given in all."""
    answers = 0
    for seed in seeds:

        async def trial(loop: SimLoop, seed: int = seed) -> int:
            one = Trial(loop, 2 + seed % 3, are_static=seed % 4 == 0)
            await one.run()
            return len(one.history)

        answers += run(seed, trial)
    return answers


def test_nobody_is_forgotten_and_all_share_in_the_end() -> None:
    assert play(range(20)) > 1_000


def test_a_coordinator_that_forgets_a_member_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide_seen(self: Group, member_id: str, moment: Moment) -> list[Touched]:
        return [Touched(self.id, member_id, moment.now_ms + SESSION_MS // 10)]

    monkeypatch.setattr(Group, "decide_seen", decide_seen)
    with pytest.raises(AssertionError, match="UNKNOWN_MEMBER_ID"):
        play(range(8))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 3_000, 200))
def test_nobody_is_forgotten_in_many_more_runs(first: int) -> None:
    assert play(range(first, first + 200)) > 10_000
