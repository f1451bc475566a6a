"""The host of subscriptions on virtual time: turns, what comes back, what dies, what a restart keeps, bad wishes."""

from __future__ import annotations

import asyncio

import pytest

from group_node import Node, on_a_node, start_node
from penstock.core.errors import (
    BrokerError,
    DiskFailed,
    DiskFull,
    InvalidRequest,
    InvalidTopic,
    NotCoordinator,
    NotHeld,
    Offline,
    OffsetOutOfRange,
    UnknownGroup,
    UnknownTopic,
)
from penstock.core.machines.subscriptions.subscription import Outcome
from penstock.core.model import NewRecord
from penstock.core.records.build import build_batch
from penstock.node.coordinators.subscriptions import EARLIEST, LATEST, SubscriptionRequest
from sim.loop import SimLoop, run
from sim.machine import Machine
from subscription_node import SUBSCRIPTION, Member, letters, publish, subscribe, turns


def names(record_headers: object) -> dict[str, str]:
    return {header.key: (header.value or b"").decode() for header in record_headers}  # type: ignore[attr-defined]


def test_messages_go_round_and_no_further_than_windows() -> None:
    async def play(node: Node) -> None:
        live = await subscribe(node.broker)
        one, two = Member(live, "one", 2), Member(live, "two", 3)
        await publish(node.broker, *(b"%d" % number for number in range(9)))
        await turns()
        assert [offset for offset, _ in one.numbers] == [0, 2]
        assert [offset for offset, _ in two.numbers] == [1, 3, 4]
        one.say(one.given[0])
        await turns()
        assert [offset for offset, _ in one.numbers] == [0, 2, 5]

    on_a_node(play)


def test_every_partition_is_served_and_a_window_counts_over_all_of_them() -> None:
    async def play(node: Node) -> None:
        await node.broker.own_topic("wide", 3, {}, False)
        live = await subscribe(node.broker, SubscriptionRequest("wide", "wide"))
        member = Member(live, "one", 4)
        for partition in range(3):
            await publish(node.broker, b"a", b"b", topic="wide", partition=partition)
        await turns()
        assert len(member.given) == 4
        member.accept_all()
        await turns()
        assert sorted((one.partition, one.record.offset) for one in member.given) == [
            (partition, offset) for partition in range(3) for offset in range(2)
        ]

    on_a_node(play)


def test_what_nobody_settles_in_time_goes_to_another_and_is_counted() -> None:
    async def play(node: Node) -> None:
        live = await subscribe(node.broker, SubscriptionRequest(SUBSCRIPTION, "t", hold_ms=1_000))
        first = Member(live, "first", 1)
        await publish(node.broker, b"a")
        await turns()
        second = Member(live, "second", 1)
        await asyncio.sleep(1.5)
        assert (first.numbers, second.numbers) == ([(0, 1)], [(0, 2)])
        with pytest.raises(NotHeld):
            first.say(first.given[0])
        second.say(second.given[0])
        with pytest.raises(NotHeld):
            second.say(second.given[0])

    on_a_node(play)


def test_a_member_that_dies_counts_and_one_that_leaves_does_not() -> None:
    async def play(node: Node) -> None:
        live = await subscribe(node.broker)
        await publish(node.broker, b"a", b"b")
        leaver = Member(live, "leaver")
        await turns()
        assert await leaver.leave() is None
        dying = Member(live, "dying")
        await turns()
        assert dying.numbers == [(0, 1), (1, 1)]
        dying.say(dying.given[0])
        await dying.leave(is_counted=True)
        last = Member(live, "last")
        await turns()
        assert last.numbers == [(1, 2)]

    on_a_node(play)


def test_a_paused_member_is_passed_over() -> None:
    async def play(node: Node) -> None:
        live = await subscribe(node.broker)
        slow, quick = Member(live, "slow"), Member(live, "quick")
        live.pause("slow")
        await publish(node.broker, b"a", b"b")
        await turns()
        assert (len(slow.given), len(quick.given)) == (0, 2)
        live.resume("slow")
        await publish(node.broker, b"c")
        await turns()
        assert len(slow.given) == 1

    on_a_node(play)


def test_what_comes_back_too_often_is_a_dead_letter_that_tells_its_story() -> None:
    async def play(node: Node) -> None:
        live = await subscribe(node.broker, SubscriptionRequest(SUBSCRIPTION, "t", deliveries_max=2))
        member = Member(live, "one")
        await publish(node.broker, b"bad", b"worse", b"good")
        await turns()
        member.say(member.given[0], Outcome.RELEASE, "first try")
        member.say(member.given[1], Outcome.REJECT)
        member.say(member.given[2])
        await turns()
        assert member.numbers[3:] == [(0, 2)]
        member.say(member.given[3], Outcome.RELEASE, "ValueError: no")
        await asyncio.sleep(1)
        worse, bad = letters(node.broker)
        assert (worse.value, bad.value) == (b"worse", b"bad")
        story = names(bad.headers)
        assert story.pop("penstock.dead.topic-id") == node.broker.catalog.topic("t").id.hex()
        assert story == {
            "penstock.dead.reason": "delivered 2 times, never acknowledged",
            "penstock.dead.error": "ValueError: no",
            "penstock.dead.subscription": SUBSCRIPTION,
            "penstock.dead.topic": "t",
            "penstock.dead.partition": "0",
            "penstock.dead.offset": "0",
            "penstock.dead.deliveries": "2",
        }
        assert names(worse.headers)["penstock.dead.reason"] == "rejected"
        progress = node.broker.subscriptions.progress(SUBSCRIPTION)[0]
        assert (progress.settled_offset, progress.unsettled_count, progress.dying_count) == (3, 0, 0)

    on_a_node(play)


def test_redriven_letters_come_back_to_their_subscription_alone_and_once() -> None:
    async def play(node: Node) -> None:
        live = await subscribe(node.broker)
        other = await subscribe(node.broker, SubscriptionRequest("other", "t"))
        member, bystander = Member(live, "one"), Member(other, "two")
        await publish(node.broker, b"a", b"b")
        await turns()
        member.say(member.given[0], Outcome.REJECT)
        member.say(member.given[1], Outcome.REJECT)
        bystander.accept_all()
        await asyncio.sleep(1)
        assert await node.broker.subscriptions.redrive(SUBSCRIPTION, 1) == 1
        assert await node.broker.subscriptions.redrive(SUBSCRIPTION) == 1
        assert await node.broker.subscriptions.redrive(SUBSCRIPTION) == 0
        assert await node.broker.subscriptions.redrive("other") == 0
        await turns()
        assert [one.record.value for one in member.given] == [b"a", b"b", b"a", b"b"]
        assert [one.record.value for one in bystander.given] == [b"a", b"b"]
        assert names(member.given[2].record.headers) == {"penstock.redriven-for": SUBSCRIPTION}

    on_a_node(play)


def test_a_restart_keeps_what_was_settled_and_how_often_the_rest_was_delivered() -> None:
    async def first(machine: Machine) -> None:
        node = await start_node(machine)
        live = await subscribe(node.broker)
        member = Member(live, "one")
        await publish(node.broker, *(b"%d" % number for number in range(6)))
        await turns()
        for place, outcome in ((0, Outcome.ACCEPT), (3, Outcome.ACCEPT), (2, Outcome.RELEASE)):
            member.say(member.given[place], outcome)
        await member.leave()

    async def second(machine: Machine) -> None:
        node = await start_node(machine)
        live = node.broker.subscriptions.find(SUBSCRIPTION)
        member = Member(live, "one")
        await turns()
        assert member.numbers == [(1, 1), (2, 2), (4, 1), (5, 1)]

    async def main(loop: SimLoop) -> None:
        machine = Machine(loop, "node")
        await machine.boot(first)
        machine.lose_power()
        await machine.boot(second)

    run(3, main)


def test_more_partitions_and_the_end_of_the_topic_are_followed() -> None:
    async def play(node: Node) -> None:
        broker = node.broker
        live = await subscribe(broker)
        member = Member(live, "one")
        await broker.change(lambda catalog: catalog.decide_add_partitions("t", 2))
        await publish(broker, b"a", partition=1)
        await turns()
        assert [(one.partition, one.number) for one in member.given] == [(1, 1)]
        await broker.change(lambda catalog: catalog.decide_delete_topic("t"))
        assert isinstance(member.ended, UnknownTopic)
        assert broker.subscriptions.list() == []
        with pytest.raises(UnknownGroup):
            broker.subscriptions.find(SUBSCRIPTION)

    on_a_node(play)


def test_a_topic_that_is_deleted_and_created_at_once_has_none_of_the_old_subscriptions() -> None:
    """Both changes wait for the same turn, and become one append."""

    async def play(node: Node) -> None:
        broker = node.broker
        member = Member(await subscribe(broker), "one")
        index = broker.metadata_end
        await asyncio.gather(
            broker.auto_create_topic("other"),
            broker.change(lambda catalog: catalog.decide_delete_topic("t")),
            broker.auto_create_topic("t"),
        )
        assert broker.metadata_end == index + 3
        assert isinstance(member.ended, UnknownTopic) and broker.subscriptions.list() == []
        again = Member(await subscribe(broker), "one")
        await publish(broker, b"a")
        await turns()
        assert [one.number for one in again.given] == [1]

    on_a_node(play)


def test_a_subscription_starts_where_it_is_told() -> None:
    async def play(node: Node) -> None:
        await publish(node.broker, b"a", b"b", b"c")
        for name, offset, wanted in (("x", 0, 0), ("y", 2, 2), ("z", LATEST, 3), ("e", EARLIEST, 0)):
            live = await subscribe(node.broker, SubscriptionRequest(name, "t", start_offset=offset))
            assert live.feeds[0].machine.start_offset == wanted
        for offset in (4, -3):
            with pytest.raises(OffsetOutOfRange, match="outside of 0 to 3"):
                await subscribe(node.broker, SubscriptionRequest("w", "t", start_offset=offset))

    on_a_node(play)


def test_the_same_wish_again_changes_nothing_and_another_is_refused() -> None:
    async def play(node: Node) -> None:
        create = node.broker.subscriptions.create
        await node.broker.auto_create_topic("u")
        assert await create(SubscriptionRequest(SUBSCRIPTION, "t"))
        assert not await create(SubscriptionRequest(SUBSCRIPTION, "t", start_offset=99))
        for request in (
            SubscriptionRequest(SUBSCRIPTION, "u"),
            SubscriptionRequest(SUBSCRIPTION, "t", hold_ms=5),
        ):
            with pytest.raises(InvalidRequest, match="already"):
                await create(request)
        await node.broker.subscriptions.remove(SUBSCRIPTION)
        assert await create(SubscriptionRequest(SUBSCRIPTION, "u"))

    on_a_node(play)


BAD_REQUESTS: list[tuple[SubscriptionRequest, type[BrokerError]]] = [
    (SubscriptionRequest("", "t"), InvalidRequest),
    (SubscriptionRequest("a\nb", "t"), InvalidRequest),
    (SubscriptionRequest("n" * 250, "t"), InvalidRequest),
    (SubscriptionRequest("w", "nowhere"), UnknownTopic),
    (SubscriptionRequest("w", "__subscriptions"), InvalidTopic),
    (SubscriptionRequest("w", "t" * 247), InvalidTopic),
    (SubscriptionRequest("w", "t", hold_ms=0), InvalidRequest),
    (SubscriptionRequest("w", "t", deliveries_max=-1), InvalidRequest),
]


@pytest.mark.parametrize(("wanted", "error"), BAD_REQUESTS)
def test_invalid_subscription_requests_are_refused(
    wanted: SubscriptionRequest, error: type[BrokerError]
) -> None:
    async def play(node: Node) -> None:
        await node.broker.auto_create_topic("t" * 247)
        await node.broker.subscriptions.open()
        with pytest.raises(error):
            await node.broker.subscriptions.create(wanted)
        assert node.broker.subscriptions.list() == []

    on_a_node(play)


def test_members_are_told_when_the_broker_stops() -> None:
    async def play(node: Node) -> Member:
        live = await subscribe(node.broker)
        with pytest.raises(InvalidRequest, match="already"):
            Member(Member(live, "one").live, "one")
        return Member(live, "two")

    assert isinstance(on_a_node(play).ended, NotCoordinator)


def test_what_cannot_be_kept_for_a_while_is_kept_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(node: Node) -> None:
        live = await subscribe(node.broker)
        member = Member(live, "one", 2)
        await publish(node.broker, *(b"%d" % number for number in range(4)))
        await turns()
        owner = live.shard.partition
        append = owner.append_own

        def full(_: object) -> None:
            raise DiskFull("no space")

        monkeypatch.setattr(owner, "append_own", full)
        member.accept_all()
        await turns()
        assert len(member.given) == 2, "nothing is dealt out while progress cannot be kept"
        monkeypatch.setattr(owner, "append_own", append)
        await asyncio.sleep(2)
        assert len(member.given) == 4

    on_a_node(play)


def test_a_partition_that_cannot_be_read_does_not_hold_up_the_others() -> None:
    async def play(node: Node) -> None:
        broker = node.broker
        await broker.own_topic("wide", 2, {}, False)
        live = await subscribe(broker, SubscriptionRequest("wide", "wide"))
        for partition in range(2):
            await publish(broker, b"a", topic="wide", partition=partition)
        broker.partition("wide", 0).fail(DiskFailed("broken"))
        member = Member(live, "one")
        await turns()
        assert [one.partition for one in member.given] == [1]
        member.accept_all()
        await turns()
        progress = broker.subscriptions.progress("wide")
        assert [one.settled_offset for one in progress] == [0, 1]

    on_a_node(play)


def test_a_deleted_subscription_buries_nobody_in_the_name_of_its_successor() -> None:
    async def play(node: Node) -> None:
        broker = node.broker
        live = await subscribe(broker)
        member = Member(live, "one")
        await publish(broker, b"a")
        await turns()
        member.say(member.given[0], Outcome.REJECT)
        await asyncio.sleep(0)
        progress = broker.subscriptions.progress(SUBSCRIPTION)[0]
        assert (progress.dying_count, progress.unsettled_count) == (1, 1)
        await broker.subscriptions.remove(SUBSCRIPTION)
        again = await subscribe(broker)
        assert again is not live
        await asyncio.sleep(5)
        successor = Member(again, "two")
        await turns()
        assert successor.numbers == [(0, 1)]

    on_a_node(play)


def test_what_members_said_before_a_clean_stop_is_kept() -> None:
    async def first(machine: Machine) -> None:
        node = await start_node(machine)
        member = Member(await subscribe(node.broker), "one")
        await publish(node.broker, b"a", b"b")
        await turns()
        member.say(member.given[0])
        await node.broker.stop()
        assert isinstance(member.ended, NotCoordinator)

    async def second(machine: Machine) -> None:
        node = await start_node(machine)
        member = Member(node.broker.subscriptions.find(SUBSCRIPTION), "one")
        await turns()
        assert member.numbers == [(1, 1)]

    async def main(loop: SimLoop) -> None:
        machine = Machine(loop, "node")
        await machine.boot(first)
        await machine.boot(second)

    run(5, main)


def test_a_member_takes_its_time_if_it_says_so() -> None:
    async def play(node: Node) -> None:
        live = await subscribe(node.broker, SubscriptionRequest(SUBSCRIPTION, "t", hold_ms=1_000))
        member = Member(live, "one")
        await publish(node.broker, b"a")
        for _ in range(5):
            await asyncio.sleep(0.5)
            live.renew("one", 0, 0)
        assert member.numbers == [(0, 1)]
        await asyncio.sleep(1.1)
        assert member.numbers == [(0, 1), (0, 2)]

    on_a_node(play)


def test_what_the_log_lets_go_of_nobody_has_to_settle() -> None:
    async def play(node: Node) -> None:
        live = await subscribe(node.broker)
        member = Member(live, "one", 2)
        await publish(node.broker, *(b"%d" % number for number in range(6)))
        await turns()
        assert await node.broker.partition("t", 0).delete_records(4) == 4
        await publish(node.broker, b"6")
        await turns()
        assert [offset for offset, _ in member.numbers] == [0, 1, 4, 5]
        with pytest.raises(NotHeld):
            member.say(member.given[0])

    on_a_node(play)


def test_what_came_back_waits_for_its_own_flush_and_for_no_other() -> None:
    """Others on the same topic write all the time: a message that came back is delivered all the same."""

    async def play(node: Node) -> None:
        broker = node.broker
        live = await subscribe(broker)
        member = Member(live, "one")
        await publish(broker, b"a")
        await turns()
        member.say(member.given[0], Outcome.RELEASE)
        for number in range(200):
            live.shard.persist(live.shard.book.decide_redriven(SUBSCRIPTION, number))
            await asyncio.sleep(0.0005)
            if len(member.given) == 2:
                break
        assert member.numbers == [(0, 1), (0, 2)]

    on_a_node(play)


def test_a_damaged_topic_stops_no_broker_and_is_said() -> None:
    async def first(machine: Machine) -> None:
        node = await start_node(machine)
        live = await subscribe(node.broker)
        live.shard.partition.append_own(build_batch([NewRecord(b"\x03\xe8bad", b"")], 1_000))
        await node.broker.stop()

    async def second(machine: Machine) -> None:
        node = await start_node(machine)
        assert node.broker.catalog.find("t") is not None
        for ask in (node.broker.subscriptions.find, node.broker.subscriptions.progress):
            with pytest.raises(Offline):
                ask(SUBSCRIPTION)
        with pytest.raises(Offline):
            node.broker.subscriptions.list()
        await node.broker.change(lambda catalog: catalog.decide_delete_topic("t"))

    async def main(loop: SimLoop) -> None:
        machine = Machine(loop, "node")
        await machine.boot(first)
        await machine.boot(second)

    run(6, main)
