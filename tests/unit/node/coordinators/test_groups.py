"""The host of groups on virtual time: timers end sessions and rounds, answers wait for the disk, restart is replay."""

from __future__ import annotations

import asyncio
from typing import Any

from group_node import Node, on_a_node, start_node
from penstock.core.errors import (
    CoordinatorUnavailable,
    DiskFull,
    GroupNotEmpty,
    InvalidGroup,
    NotCoordinator,
    Offline,
    Rebalancing,
    UnknownGroup,
    UnknownMember,
    UnstableOffset,
)
from penstock.core.machine import GroupKind
from penstock.node.coordinators.committed import Committer
from penstock.node.coordinators.groups import TOPIC as GROUPS_TOPIC
from penstock.node.coordinators.groups import ListedGroup
from sim.loop import SimLoop, run
from sim.machine import Machine


async def pair(node: Node, group: str = "g") -> tuple[Any, Any]:
    """Two members in a stable group; the leader first."""
    first, second = await asyncio.gather(node.join(group), node.join(group))
    leader, other = (first, second) if first.members else (second, first)
    assignments = {leader.member_id: b"p0", other.member_id: b"p1"}
    answers = await asyncio.gather(node.sync(group, other), node.sync(group, leader, assignments))
    assert [one.assignment for one in answers] == [b"p1", b"p0"]
    return leader, other


def test_members_that_join_together_are_one_generation() -> None:
    async def play(node: Node) -> None:
        leader, other = await pair(node)
        assert (leader.generation, other.generation) == (1, 1) and len(leader.members) == 2
        assert await node.beat("g", leader) is None

    on_a_node(play)


def test_a_member_that_falls_silent_is_dropped_by_the_timer() -> None:
    async def play(node: Node) -> None:
        leader, other = await pair(node)
        for _ in range(4):
            await asyncio.sleep(3)
            outcome = await node.beat("g", leader)
        assert isinstance(outcome, Rebalancing)
        again = await node.join("g", leader.member_id)
        assert [one.member_id for one in again.members] == [leader.member_id]
        assert isinstance(await node.beat("g", other), UnknownMember)

    on_a_node(play)


def test_a_round_ends_without_those_who_only_beat() -> None:
    async def play(node: Node) -> None:
        leader, other = await pair(node)
        joining = asyncio.ensure_future(node.join("g"))
        rejoining = asyncio.ensure_future(node.join("g", leader.member_id))
        for _ in range(8):
            await asyncio.sleep(4)
            await node.beat("g", other)
        assert (await joining).generation == (await rejoining).generation == 2
        assert isinstance(await node.beat("g", other), UnknownMember)

    on_a_node(play)


def test_the_earlier_of_two_equal_calls_is_let_go() -> None:
    async def play(node: Node) -> None:
        leader, _ = await pair(node)
        first = asyncio.ensure_future(node.join("g", leader.member_id))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(node.join("g", leader.member_id))
        assert isinstance(await first, Rebalancing)
        await asyncio.sleep(31)
        assert (await second).generation == 2

    on_a_node(play)


def test_groups_of_every_state_are_listed_and_only_empty_ones_removed() -> None:
    async def play(node: Node) -> None:
        await pair(node, "busy")
        await node.commit("simple", 5)
        groups = node.group_coordinator.groups
        assert groups.list() == [
            ListedGroup("busy", GroupKind.CLASSIC, "consumer", "Stable"),
            ListedGroup("simple", GroupKind.CLASSIC, "", "Empty"),
        ]
        assert isinstance(await node.ask(groups.remove, "busy"), GroupNotEmpty)
        assert isinstance(await node.ask(groups.remove, "nowhere"), UnknownGroup)
        assert isinstance(await node.ask(groups.remove, ""), InvalidGroup)
        assert await node.ask(groups.remove, "simple") is None
        assert [one.group_id for one in groups.list()] == ["busy"]
        assert await node.fetch("simple") is None

    on_a_node(play)


def test_commits_are_fenced_by_the_group() -> None:
    async def play(node: Node) -> None:
        leader, _ = await pair(node)
        assert await node.commit("g", 7, Committer(leader.member_id, 1)) == [None]
        assert isinstance(await node.commit("g", 8), UnknownMember)
        assert isinstance(await node.commit("nowhere", 8, Committer("x", 1)), UnknownGroup)
        assert await node.fetch("g") == 7

    on_a_node(play)


def test_a_committing_member_needs_no_heartbeat() -> None:
    async def play(node: Node) -> None:
        leader, other = await pair(node)
        for offset in range(10):
            await asyncio.sleep(6)
            by = [Committer(leader.member_id, 1), Committer(other.member_id, 1)]
            assert [await node.commit("g", offset, one) for one in by] == [[None], [None]]

    on_a_node(play)


def test_offsets_of_an_open_transaction_are_held_back() -> None:
    async def play(node: Node) -> None:
        await node.commit("g", 1)
        assert await node.pend("g", (9, 0), 50) == [None]
        assert await node.fetch("g") == 1
        assert isinstance(await node.fetch("g", require_stable=True), UnstableOffset)
        assert await node.settle("g", 9, is_commit=True) is None
        assert await node.fetch("g", require_stable=True) == 50
        assert await node.settle("g", 9, is_commit=True) is None, "a second time does nothing"

    on_a_node(play)


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    async def play(node: Node) -> None:
        await node.commit("g", 5)
        await node.broker.change(lambda catalog: catalog.decide_delete_topic("t"))
        assert await node.fetch("g") is None

    on_a_node(play)


def test_unused_offsets_and_groups_go_after_their_retention() -> None:
    async def play(node: Node) -> None:
        leader, other = await pair(node)
        await node.commit("g", 5, Committer(leader.member_id, 1))
        await node.commit("simple", 5)
        for _ in range(12):
            await asyncio.sleep(5)
            await node.beat("g", leader)
            await node.beat("g", other)
        assert [one.group_id for one in node.group_coordinator.groups.list()] == ["g"], (
            "members keep their offsets"
        )
        await node.leave("g", leader.member_id)
        await node.leave("g", other.member_id)
        await asyncio.sleep(10)
        assert await node.fetch("g") == 5, "the retention counts from when the group became empty"
        await asyncio.sleep(60)
        assert node.group_coordinator.groups.list() == []

    on_a_node(play, offsets_retention_ms=30_000, offsets_check_ms=1_000)


def test_ids_given_out_and_never_used_leave_nothing_behind() -> None:
    async def play(node: Node) -> None:
        await node.join("g", session_ms=6_000, comes_back=False)
        assert [one.group_id for one in node.group_coordinator.groups.list()] == ["g"]
        await asyncio.sleep(7)
        assert node.group_coordinator.groups.list() == []

    on_a_node(play)


def test_who_waits_when_the_node_stops_is_told() -> None:
    async def play(node: Node) -> None:
        leader, _ = await pair(node)
        waiting = asyncio.ensure_future(node.join("g", leader.member_id))
        await asyncio.sleep(0.01)
        node.group_coordinator.release_waiting()
        assert isinstance(await waiting, NotCoordinator)

    on_a_node(play)


def test_before_anybody_looked_for_a_coordinator_there_is_none_and_no_topic() -> None:
    async def main(loop: SimLoop) -> None:
        async def scene(machine: Machine) -> None:
            node = await start_node(machine)
            await node.broker.stop()
            fresh = type(node.group_coordinator)(
                node.broker.settings,
                node.broker.runtime,
                node.broker.internal_topic,
                lambda name: True,
                lambda group_id: {},
            )
            assert fresh.groups.list() == []
            outcome: list[Any] = []
            fresh.classic.heartbeat("g", "m", None, 1, outcome.append)
            assert isinstance(outcome[0], CoordinatorUnavailable)

        await Machine(loop, "node").boot(scene)

    run(1, main)


def test_a_full_disk_refuses_a_commit_and_nothing_changes_until_there_is_room() -> None:
    async def main(loop: SimLoop) -> None:
        async def scene(machine: Machine) -> None:
            node = await start_node(machine)
            leader, _ = await pair(node)
            by = Committer(leader.member_id, 1)
            assert await node.commit("g", 5, by) == [None]
            machine.disk.fill_after(10)
            assert isinstance(await node.commit("g", 6, by), DiskFull)
            assert isinstance(await node.leave("g", leader.member_id), list), (
                "what needs no record still works"
            )
            assert await node.fetch("g") == 5
            await asyncio.sleep(20)
            assert node.group_coordinator.groups.list()[0].state_name == "PreparingRebalance", (
                "emptiness must be kept first"
            )
            machine.disk.enlarge()
            await asyncio.sleep(2)
            assert node.group_coordinator.groups.list()[0].state_name == "Empty"
            assert await node.commit("g", 7) == [None] and await node.fetch("g") == 7

        await Machine(loop, "node").boot(scene)

    run(1, main)


def test_fifty_members_agree_in_one_round_and_one_record() -> None:
    async def play(node: Node) -> None:
        members = await asyncio.gather(*(node.join("g") for _ in range(50)))
        assert {one.generation for one in members} == {1}
        (leader,) = [one for one in members if one.members]
        partition = node.group_coordinator.groups.shard_of("g").partition
        before = partition.end_offset
        shares = {one.member_id: b"ten partitions" for one in members}
        answers = await asyncio.gather(
            *(node.sync("g", one, shares if one is leader else None) for one in members)
        )
        assert {one.assignment for one in answers} == {b"ten partitions"}
        assert partition.end_offset == before + 1

    on_a_node(play)


def test_who_waits_for_a_round_is_told_when_the_disk_fails() -> None:
    async def main(loop: SimLoop) -> None:
        async def scene(machine: Machine) -> None:
            node = await start_node(machine)
            leader, _ = await pair(node)
            waiting = asyncio.ensure_future(node.join("g", leader.member_id))
            await asyncio.sleep(0.01)
            machine.disk.fail_sync_at(1)
            assert isinstance(await node.commit("g", 1, Committer(leader.member_id, 1)), Offline)
            assert isinstance(await waiting, NotCoordinator)

        await Machine(loop, "node").boot(scene)

    run(1, main)


def test_a_failed_flush_is_never_answered_as_done_and_ends_the_coordination_of_that_partition() -> None:
    async def main(loop: SimLoop) -> None:
        async def scene(machine: Machine) -> None:
            node = await start_node(machine)
            assert await node.commit("g", 5) == [None]
            machine.disk.fail_sync_at(1)
            assert isinstance(await node.commit("g", 6), Offline)
            assert isinstance(await node.fetch("g"), Offline)

        await Machine(loop, "node").boot(scene)

    run(1, main)


def test_after_a_restart_members_and_offsets_are_still_there() -> None:
    async def main(loop: SimLoop) -> None:
        machine = Machine(loop, "node")
        seen: dict[str, Any] = {}

        async def first_life(machine: Machine) -> None:
            node = await start_node(machine)
            seen["leader"], seen["other"] = await pair(node)
            await node.commit("g", 42, Committer(seen["leader"].member_id, 1))
            await node.pend("h", (9, 0), 50)

        async def second_life(machine: Machine) -> None:
            node = await start_node(machine)
            assert node.broker.catalog.topic(GROUPS_TOPIC).internal
            assert await node.fetch("g") == 42
            assert await node.beat("g", seen["leader"]) is None
            again = await node.sync("g", seen["other"])
            assert again.assignment == b"p1"
            assert await node.settle("h", 9, is_commit=True) is None and await node.fetch("h") == 50
            for _ in range(3):
                await asyncio.sleep(4)
                outcome = await node.beat("g", seen["leader"])
            assert isinstance(outcome, Rebalancing), "who does not come back within a session is dropped"

        await machine.boot(first_life)
        machine.kill()
        await machine.boot(second_life)

    run(3, main)
