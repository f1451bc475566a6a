"""Reassignments and elections of a cluster, as tools ask for them. A single node is in the tests of the Kafka door."""

from __future__ import annotations

from cluster_nodes import ClusterNodes, on_a_cluster, until
from penstock.core.errors import InvalidAssignment, InvalidRequest, NoEligibleLeader, UnknownTopic
from penstock.core.machines.cluster.values import NO_LEADER
from penstock.core.session import Session
from penstock.node.waist.placement import PlacementOutcome, PlacementVerbs, Reassignment
from penstock.node.waist.waist import Waist

ANN = Session("kafka", principal="User:ann")
PREFERRED, UNCLEAN = 0, 1


def verbs_of(nodes: ClusterNodes) -> PlacementVerbs:
    return Waist(nodes.brokers[1]).placement


def test_reassignments_start_are_listed_and_cancelled() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 3)
        verbs, leader = verbs_of(nodes), nodes.placed(1, "t")[0].leader
        target = leader % 3 + 1
        outcomes = await verbs.reassign_all(
            ANN,
            [
                Reassignment("t", 0, [target]),
                Reassignment("t", 1, None),
                Reassignment("t", 2, []),
                Reassignment("t", 9, [1]),
                Reassignment("u", 0, [1]),
                Reassignment("t", 1, [7]),
                Reassignment("t", 1, [1, 7]),
                Reassignment("t", 1, [1, 1]),
            ],
        )
        assert outcomes[:2] == [PlacementOutcome.DONE, PlacementOutcome.NO_MOVE]
        assert [type(one) for one in outcomes[2:]] == [
            InvalidAssignment,
            UnknownTopic,
            UnknownTopic,
            InvalidAssignment,
            InvalidAssignment,
            InvalidAssignment,
        ]
        told = [str(outcomes[index]) for index in (2, 6, 7)]
        assert "empty replica list" in told[0]
        assert "broker 7, but no such broker is registered" in told[1]
        assert "the broker 1 more than once" in told[2]
        (ongoing,) = verbs.reassignments(ANN)
        assert ongoing == ("t", 0, (target, leader), (target,), (leader,))
        assert list(verbs.reassignments(ANN, [("t", [0, 5]), ("u", [0])])) == [ongoing]
        assert list(verbs.reassignments(ANN, [("t", [1])])) == []
        assert await verbs.reassign_all(ANN, [Reassignment("t", 0, None)]) == [PlacementOutcome.DONE]
        assert list(verbs.reassignments(ANN)) == []

    on_a_cluster(play)


def test_elections() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 3)
        await nodes.converged()
        verbs = verbs_of(nodes)
        assert verbs.electable(ANN, PREFERRED) == verbs.electable(ANN, UNCLEAN) == [("t", [])]
        assert await verbs.elect_all(ANN, PREFERRED, [("t", 0)]) == [PlacementOutcome.NOT_NEEDED]
        index = next(one.partition for one in nodes.placed(1, "t") if one.leader == 3)
        nodes.kill(3)
        nodes.expire(3)
        await until(lambda: nodes.placed(1, "t")[index].leader == NO_LEADER)
        assert verbs.electable(ANN, UNCLEAN) == [("t", [index])]
        (nobody,) = await verbs.elect_all(ANN, UNCLEAN, [("t", index)])
        assert isinstance(nobody, NoEligibleLeader)
        (unknown, topic) = await verbs.elect_all(ANN, UNCLEAN, [("t", 9), ("u", 0)])
        assert isinstance(unknown, UnknownTopic) and isinstance(topic, UnknownTopic)
        (kind,) = await verbs.elect_all(ANN, 7, [("t", index)])
        assert isinstance(kind, InvalidRequest)

    on_a_cluster(play)


def test_an_incomplete_copy_leads_only_if_an_administrator_says_so() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 3)
        await nodes.converged()
        verbs = verbs_of(nodes)
        index = next(one.partition for one in nodes.placed(1, "t") if one.leader == 3)
        await verbs.reassign_all(ANN, [Reassignment("t", index, [1])])
        nodes.kill(3)
        nodes.expire(3)
        await until(lambda: nodes.placed(1, "t")[index].leader == NO_LEADER)
        assert await verbs.elect_all(ANN, UNCLEAN, [("t", index)]) == [PlacementOutcome.DONE]
        placed = nodes.placed(1, "t")[index]
        assert (placed.leader, placed.isr, placed.is_recovering) == (1, (1,), True)

    on_a_cluster(play)
