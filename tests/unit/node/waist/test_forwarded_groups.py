"""JSON and HTTP clients of groups that another broker coordinates: joined, committed, described and left there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster_doors import DoorNodes, JsonClient, behind_doors, http_get
from penstock.core.errors import ClusterForbidden, InvalidRequest
from penstock.core.session import Session, broker_principal
from penstock.node.coordinators.groups import TOPIC as GROUPS_TOPIC
from penstock.node.lag import lag_of
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ApiKey, messages

PARTITIONS = 3


async def stage(nodes: DoorNodes, home: int) -> str:
    """A topic, and the name of a group that a broker coordinates."""
    await nodes.create(1, "t", PARTITIONS)
    await nodes.brokers[1].group_coordinator.open()
    await nodes.converged()
    host = nodes.brokers[1].group_coordinator.groups.host
    for number in range(1_000):
        name = f"readers-{number}"
        if nodes.brokers[1].leader_of(GROUPS_TOPIC, host.index_of(name)) == home:
            return name
    raise AssertionError(f"broker {home} coordinates nothing")


async def assigned(client: JsonClient, group: str, told: dict[str, Any], count: int) -> dict[str, Any]:
    """Heartbeat until the member has so many partitions, reporting what it has."""
    while len(told["assignment"]) != count:
        await asyncio.sleep(0.1)
        told = await client.ask(
            "HEARTBEAT",
            group=group,
            member=told["member"],
            epoch=told["epoch"],
            assignment=told["assignment"],
        )
        assert told["ok"], told
    return told


@pytest.mark.parametrize("entry", [1, 2, 3])
def test_a_member_joins_commits_and_leaves_through_any_broker(entry: int) -> None:
    async def play(nodes: DoorNodes) -> None:
        group = await stage(nodes, home=2)

        async def talk() -> None:
            client = await JsonClient.connect(entry)
            told = await client.ask("JOIN", group=group, topics=["t"])
            assert told["ok"], told
            told = await assigned(client, group, told, PARTITIONS)
            by = {"group": group, "member": told["member"], "epoch": told["epoch"]}
            offsets = [{"topic": "t", "partition": index, "offset": 0} for index in range(PARTITIONS)]
            assert (await client.ask("COMMIT", **by, offsets=offsets)) == {"ok": True}
            refused = await client.ask("COMMIT", **{**by, "epoch": told["epoch"] + 7}, offsets=offsets)
            assert refused["error"] == "STALE_MEMBER" and not refused["retriable"], refused

            status, found = await http_get(entry, f"/api/v1/groups/{group}")
            assert status == 200 and found["kind"] == "consumer"
            (member,) = found["members"]
            assert (member["member"], member["client_id"]) == (told["member"], "json")
            assert member["host"].startswith("/") and len(member["partitions"]) == PARTITIONS
            status, lag = await http_get(entry, f"/api/v1/groups/{group}/lag")
            assert status == 200 and lag["lag"] == 0
            status, _ = await http_get(entry, "/api/v1/groups/nobody")
            assert status == 404

            left = await client.ask("LEAVE", group=group, member=told["member"])
            assert left == {"ok": True}
            status, found = await http_get(entry, f"/api/v1/groups/{group}")
            assert found["members"] == []
            client.close()

        await nodes.spawn("client", talk())

    behind_doors(play)


def test_the_coordinator_tells_the_lag_in_partitions_of_other_brokers() -> None:
    async def play(nodes: DoorNodes) -> None:
        group = await stage(nodes, home=2)

        async def talk() -> None:
            client = await JsonClient.connect(1)
            offsets = [{"topic": "t", "partition": index, "offset": 0} for index in range(PARTITIONS)]
            assert (await client.ask("COMMIT", group=group, offsets=offsets)) == {"ok": True}
            client.close()

        await nodes.spawn("client", talk())
        broker = nodes.brokers[2]
        assert len(list(lag_of(broker, group))) < PARTITIONS
        await Waist(broker).groups.learn_bounds(Session("http"))
        assert [one.records for one in lag_of(broker, group)] == [0] * PARTITIONS

    behind_doors(play)


def test_members_of_different_brokers_share_the_partitions_and_survive_their_coordinator() -> None:
    async def play(nodes: DoorNodes) -> None:
        group = await stage(nodes, home=2)

        async def talk() -> None:
            clients = [await JsonClient.connect(entry) for entry in (1, 3)]
            told = [await one.ask("JOIN", group=group, topics=["t"]) for one in clients]
            shares: list[int] = []
            for _ in range(100):
                for place, client in enumerate(clients):
                    told[place] = await client.ask(
                        "HEARTBEAT",
                        group=group,
                        member=told[place]["member"],
                        epoch=told[place]["epoch"],
                        assignment=told[place]["assignment"],
                    )
                shares = [len(one["assignment"]) for one in told]
                if sum(shares) == PARTITIONS and min(shares) > 0:
                    break
                await asyncio.sleep(0.1)
            assert sum(shares) == PARTITIONS and min(shares) > 0, told
            nodes.kill(2)
            beat = {
                "group": group,
                "member": told[0]["member"],
                "epoch": told[0]["epoch"],
                "assignment": told[0]["assignment"],
            }
            waiting = asyncio.get_running_loop().create_task(clients[0].ask("HEARTBEAT", **beat))
            nodes.expire(2)
            answer = await waiting
            assert not answer["ok"] and answer["retriable"], answer
            await nodes.start(2)
            while not (answer := await clients[0].ask("HEARTBEAT", **beat))["ok"]:
                assert answer["retriable"], answer
                await asyncio.sleep(0.2)
            assert answer["epoch"] >= told[0]["epoch"]

        await nodes.spawn("client", talk())

    behind_doors(play)


def test_only_a_broker_may_forward_and_only_the_calls_of_clients() -> None:
    async def play(nodes: DoorNodes) -> None:
        peers = nodes.doors[1].waist.peers
        stranger = Session("kafka", address="10.0.0.9")
        with pytest.raises(ClusterForbidden, match="not a broker"):
            peers.client_of(stranger, "User:alice", "10.1.1.1")
        broker = Session("kafka", broker_principal(2))
        assert peers.client_of(broker, "User:alice", "10.1.1.1") == Session("kafka", "User:alice", "10.1.1.1")
        with pytest.raises(ClusterForbidden, match="not of other brokers"):
            peers.client_of(broker, broker_principal(3), "10.1.1.1")

    behind_doors(play, brokers=1)


def test_a_call_that_is_not_forwarded_is_refused_in_its_envelope() -> None:
    async def play(nodes: DoorNodes) -> None:
        from penstock.node.peers.group_calls import VERSIONS, GroupCoordinatorCall

        links = nodes.brokers[1].links
        assert links is not None
        call = GroupCoordinatorCall(links, 2, Session("json", "User:alice", "10.1.1.1"), "json")
        VERSIONS[ApiKey.METADATA] = 12
        try:
            with pytest.raises(InvalidRequest):
                await nodes.spawn("node-1", call.ask(messages.MetadataRequest(topics=None)))
        finally:
            del VERSIONS[ApiKey.METADATA]

    behind_doors(play, brokers=2)
