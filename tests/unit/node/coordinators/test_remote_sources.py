"""Subscriptions whose topics have partitions on other brokers: every message is delivered, redelivered, buried and
redriven as if all partitions were led here."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from cluster_doors import DoorNodes, behind_doors
from cluster_nodes import until
from penstock.core.machines.subscriptions.subscription import Outcome
from penstock.core.model import Record
from penstock.node.broker import Broker
from penstock.node.coordinators.live_subscription import LiveSubscription
from penstock.node.coordinators.subscriptions import LATEST, SubscriptionRequest
from penstock.node.replicas.committed_records import read_committed
from subscription_node import Member, publish

PARTITIONS = 6


async def spread(nodes: DoorNodes, home: int, **terms: int) -> tuple[Broker, LiveSubscription]:
    """A subscription that one broker coordinates, to a topic with partitions on all of them."""
    await nodes.create(1, "t", PARTITIONS)
    await nodes.open_subscriptions()
    name = nodes.subscription_at(home)
    broker = nodes.brokers[home]
    await nodes.spawn(f"node-{home}", broker.subscriptions.create(SubscriptionRequest(name, "t", **terms)))
    return broker, broker.subscriptions.find(name)


async def publish_everywhere(nodes: DoorNodes, *values: str) -> list[bytes]:
    """Each value to every partition, at its leader."""
    sent = []
    for placed in nodes.placed(1, "t"):
        broker = nodes.brokers[placed.leader]
        found = [f"{value}-{placed.partition}".encode() for value in values]
        await nodes.spawn(f"node-{placed.leader}", publish(broker, *found, partition=placed.partition))
        sent += found
    return sent


def leader_of(nodes: DoorNodes, topic: str, index: int = 0) -> int:
    return nodes.placed(next(iter(nodes.brokers)), topic)[index].leader


def letters_of(nodes: DoorNodes) -> list[Record]:
    partition = nodes.brokers[leader_of(nodes, "t.dlq")].partition("t.dlq", 0)
    return read_committed(partition, 0, 1 << 24).records


async def join(nodes: DoorNodes, home: int, live: LiveSubscription, name: str, window: int = 100) -> Member:
    """A member on the coordinator's own machine."""

    async def make() -> Member:
        return Member(live, name, window)

    member: Member = await nodes.spawn(f"node-{home}", make())
    return member


def test_a_member_gets_the_messages_of_every_partition_once() -> None:
    async def play(nodes: DoorNodes) -> None:
        broker, live = await spread(nodes, 2)
        before = await publish_everywhere(nodes, "a", "b")
        member = await join(nodes, 2, live, "one")
        await until(lambda: len(member.given) == len(before))
        member.accept_all()
        after = await publish_everywhere(nodes, "c")
        await until(lambda: len(member.given) == len(before) + len(after))
        for message in member.given[len(before) :]:
            member.say(message)
        assert sorted(one.record.value or b"" for one in member.given) == sorted(before + after)
        assert {one.number for one in member.given} == {1}
        await until(lambda: all(feed.machine.start_offset == 3 for feed in live.feeds))
        assert await nodes.spawn("node-2", broker.subscriptions.refresh(live.name)) == []
        progress = broker.subscriptions.progress(live.name)
        assert [(one.end_offset, one.unsettled_count) for one in progress] == [(3, 0)] * PARTITIONS

    behind_doors(play)


def test_a_returned_message_of_another_broker_is_read_again() -> None:
    async def play(nodes: DoorNodes) -> None:
        _, live = await spread(nodes, 1)
        sent = await publish_everywhere(nodes, "a", "b", "c")
        member = await join(nodes, 1, live, "one")
        await until(lambda: len(member.given) == len(sent))
        for message in list(member.given):
            member.say(message, Outcome.RELEASE)
        await until(lambda: len(member.given) == 2 * len(sent))
        again = member.given[len(sent) :]
        assert sorted(one.record.value or b"" for one in again) == sorted(sent)
        assert {one.number for one in again} == {2}
        for message in again:
            member.say(message, Outcome.RELEASE)
        await until(lambda: len(member.given) == 3 * len(sent))
        assert {one.number for one in member.given[2 * len(sent) :]} == {3}

    behind_doors(play)


def test_a_partition_that_is_led_elsewhere_for_a_while_is_read_from_there_and_then_here_again() -> None:
    async def play(nodes: DoorNodes) -> None:
        broker, live = await spread(nodes, 2)
        index = next(one.partition for one in nodes.placed(2, "t") if one.leader == 2)
        partition, feed = broker.partition("t", index), live.feeds[index]
        member = await join(nodes, 2, live, "one")
        await nodes.spawn("node-2", publish(broker, b"a", partition=index))
        await until(lambda: len(member.given) == 1)

        async def resign() -> None:
            partition.follow(partition.leader_epoch)
            broker.subscriptions.follow_role(partition)
            assert feed.partition is not partition

        async def lead() -> None:
            partition.lead(partition.leader_epoch)
            broker.subscriptions.follow_role(partition)
            assert feed.partition is partition

        await nodes.spawn("node-2", resign())
        member.say(member.given[0], Outcome.RELEASE)
        await asyncio.sleep(2)
        assert len(member.given) == 1, "nobody leads the partition: its messages are neither read nor lost"
        await nodes.spawn("node-2", lead())
        await until(lambda: len(member.given) == 2)
        await nodes.spawn("node-2", publish(broker, b"b", partition=index))
        await until(lambda: len(member.given) == 3)
        assert [(one.record.value, one.number) for one in member.given] == [(b"a", 1), (b"a", 2), (b"b", 1)]

    behind_doors(play)


def test_new_partitions_are_followed_wherever_they_are_placed() -> None:
    async def play(nodes: DoorNodes) -> None:
        _, live = await spread(nodes, 2)
        member = await join(nodes, 2, live, "one")
        more = 2 * PARTITIONS
        await nodes.spawn("node-1", broker_adds(nodes.brokers[1], more))
        await nodes.converged()
        sent = await publish_everywhere(nodes, "a")
        assert len(sent) == more
        await until(lambda: len(member.given) == more)
        assert sorted(one.record.value or b"" for one in member.given) == sorted(sent)

    behind_doors(play)


async def broker_adds(broker: Broker, total: int) -> None:
    await broker.change(lambda catalog: broker.creation.decide_growth(catalog, "t", total, None))


def test_a_small_window_bounds_what_is_fetched_ahead_and_nothing_is_lost() -> None:
    async def play(nodes: DoorNodes) -> None:
        _, live = await spread(nodes, 3)
        sent = await publish_everywhere(nodes, *(f"{number:03}" for number in range(40)))
        member = await join(nodes, 3, live, "one", window=2)
        for count in range(len(sent)):
            await until(lambda count=count: len(member.given) > count)  # type: ignore[misc]
            member.say(member.given[count])
        assert sorted(one.record.value or b"" for one in member.given) == sorted(sent)
        for index in range(PARTITIONS):
            offsets = [one.record.offset for one in member.given if one.partition == index]
            assert offsets == sorted(offsets), "a single member gets each partition in order"

    behind_doors(play)


def test_a_killed_leader_stalls_its_partitions_only_and_loses_nothing() -> None:
    async def play(nodes: DoorNodes) -> None:
        _, live = await spread(nodes, 1)
        sent = await publish_everywhere(nodes, "a")
        member = await join(nodes, 1, live, "one")
        await until(lambda: len(member.given) == len(sent))
        nodes.kill(3)
        nodes.expire(3)
        alive = [one.partition for one in nodes.placed(1, "t") if one.leader not in (3, -1)]
        for index in alive:
            leader = leader_of(nodes, "t", index)
            await nodes.spawn(
                f"node-{leader}", publish(nodes.brokers[leader], b"b-%d" % index, partition=index)
            )
        await until(lambda: len(member.given) == len(sent) + len(alive))
        await nodes.start(3)
        await nodes.converged()
        more = await publish_everywhere(nodes, "c")
        await until(lambda: len(member.given) == len(sent) + len(alive) + len(more))
        counted = Counter(one.record.value for one in member.given)
        assert set(counted.values()) == {1}, "nothing that is held is delivered again"

    behind_doors(play)


@pytest.mark.parametrize("seed", range(8))
def test_dead_letters_are_written_once_though_their_broker_is_killed(seed: int) -> None:
    written: list[int] = []

    async def play(nodes: DoorNodes) -> None:
        await nodes.create(1, "t.dlq", 1)
        await nodes.converged()
        letters_at = leader_of(nodes, "t.dlq")
        home = next(one for one in (1, 2, 3) if one != letters_at)
        broker, live = await spread(nodes, home)
        sent = await publish_everywhere(nodes, "a", "b")
        member = await join(nodes, home, live, "one")
        await until(lambda: len(member.given) == len(sent))
        for message in list(member.given):
            member.say(message, Outcome.REJECT)
        await until(lambda: len(letters_of(nodes)) > seed)
        written.append(len(letters_of(nodes)))
        nodes.kill(letters_at)
        nodes.expire(letters_at)
        await asyncio.sleep(3)
        await nodes.start(letters_at)
        await until(lambda: all(not feed.machine.dying for feed in live.feeds))
        await until(lambda: all(feed.machine.start_offset == 2 for feed in live.feeds))
        assert sorted(one.value or b"" for one in letters_of(nodes)) == sorted(sent)

        moved = await nodes.spawn(f"node-{home}", broker.subscriptions.redrive(live.name))
        assert moved == len(sent)
        await until(lambda: len(member.given) == 2 * len(sent))
        again = member.given[len(sent) :]
        assert sorted(one.record.value or b"" for one in again) == sorted(sent)
        assert await nodes.spawn(f"node-{home}", broker.subscriptions.redrive(live.name)) == 0

    behind_doors(play, seed=seed)
    assert written[0] < 2 * PARTITIONS, "it was not killed in the middle"


def test_a_subscription_can_start_at_the_end_of_partitions_elsewhere() -> None:
    async def play(nodes: DoorNodes) -> None:
        await nodes.create(1, "t", PARTITIONS)
        await nodes.open_subscriptions()
        await publish_everywhere(nodes, "old")
        name, broker = nodes.subscription_at(2), nodes.brokers[2]
        await nodes.spawn("node-2", broker.subscriptions.create(SubscriptionRequest(name, "t", LATEST)))
        live = broker.subscriptions.find(name)
        member = await join(nodes, 2, live, "one")
        sent = await publish_everywhere(nodes, "new")
        await until(lambda: len(member.given) == len(sent))
        assert sorted(one.record.value or b"" for one in member.given) == sorted(sent)

    behind_doors(play)


def test_the_restart_of_a_coordinator_redelivers_only_what_was_not_settled() -> None:
    async def play(nodes: DoorNodes) -> None:
        _, live = await spread(nodes, 2)
        sent = await publish_everywhere(nodes, "a", "b")
        member = await join(nodes, 2, live, "one")
        await until(lambda: len(member.given) == len(sent))
        settled = [one for one in member.given if (one.record.value or b"").startswith(b"a")]
        for message in settled:
            member.say(message)
        await until(lambda: live.shard.partition.high_watermark >= live.shard.end_offset > 0)
        await asyncio.sleep(0.1)
        nodes.kill(2)
        nodes.expire(2)
        await asyncio.sleep(1)
        await nodes.start(2)
        await nodes.converged()
        broker = nodes.brokers[2]
        await nodes.spawn("node-2", broker.subscriptions.loaded())
        again = await join(nodes, 2, broker.subscriptions.find(live.name), "two")
        left = [value for value in sent if value.startswith(b"b")]
        await until(lambda: len(again.given) == len(left))
        assert sorted(one.record.value or b"" for one in again.given) == sorted(left)

    behind_doors(play)
