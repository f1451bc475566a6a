"""Internal topics that were created in a small cluster are raised when it grows."""

from __future__ import annotations

from cluster_play import ClusterPlay, topic_id
from penstock.core.machines.catalog.events import TopicSaved
from penstock.core.machines.catalog.internal_topics import decide_raise_internal
from penstock.core.machines.cluster.brokers import decide_drain

NAME = "__subscriptions"


def grown(count: int = 3, partitions: int = 4) -> ClusterPlay:
    """A topic that a cluster of one broker created, and more brokers since."""
    play = ClusterPlay(1)
    play.run(
        play.catalog.decide_create_topic(
            NAME, partitions, {}, topic_id=topic_id(NAME), now_ms=0, internal=True
        )
    )
    play.start(*range(2, count + 1))
    return play


def raise_internal(play: ClusterPlay, configured: int = 0) -> int:
    return len(play.run(decide_raise_internal(play.catalog, configured)))


def arrive(play: ClusterPlay) -> None:
    """Every added replica has caught up."""
    for one in play.cluster.partitions_of(topic_id(NAME)):
        play.set_isr(NAME, *one.replicas, index=one.partition)


def sizes(play: ClusterPlay) -> set[int]:
    return {len(one.target) for one in play.cluster.partitions_of(topic_id(NAME))}


def test_partitions_get_a_replica_on_every_machine() -> None:
    play = grown(3)
    assert raise_internal(play) == 4
    assert all(one.adding and one.leader == 1 for one in play.cluster.partitions_of(topic_id(NAME)))
    assert sizes(play) == {3} and raise_internal(play) == 0, "they are on their way"
    arrive(play)
    assert play.catalog.config(NAME).insync_replicas_min == 1
    assert raise_internal(play) == 1
    assert play.catalog.topic(NAME).overrides == {"min.insync.replicas": "2"}
    assert raise_internal(play) == 0


def test_the_replicas_are_spread() -> None:
    play = grown(5, partitions=12)
    raise_internal(play)
    counts = [play.cluster.replica_count(broker_id) for broker_id in range(2, 6)]
    assert max(counts) - min(counts) <= 1


def test_a_second_machine_raises_to_two_and_a_third_to_three() -> None:
    play = grown(2)
    raise_internal(play)
    assert sizes(play) == {2}
    arrive(play)
    assert raise_internal(play) == 0
    play.start(3)
    raise_internal(play)
    assert sizes(play) == {3}


def test_a_configured_factor_counts_as_far_as_there_are_brokers() -> None:
    play = grown(2)
    assert raise_internal(play, configured=1) == 0
    raise_internal(play, configured=5)
    assert sizes(play) == {2}


def test_brokers_that_cannot_take_replicas_wait() -> None:
    play = grown(3)
    play.fence(3)
    raise_internal(play)
    assert sizes(play) == {2}
    arrive(play)
    play.run(decide_drain(play.cluster, 3, is_draining=True))
    play.unfence(3)
    assert raise_internal(play) == 0
    play.run(decide_drain(play.cluster, 3, is_draining=False))
    raise_internal(play)
    assert sizes(play) == {3}


def test_other_topics_and_a_value_that_somebody_set_stay() -> None:
    play = grown(3)
    play.create("orders", [1])
    play.run(play.catalog.decide_set_configs(NAME, {"min.insync.replicas": "1"}))
    raise_internal(play)
    arrive(play)
    events = decide_raise_internal(play.catalog, 0)
    assert not any(isinstance(one, TopicSaved) for one in events)
    assert len(play.partition("orders").replicas) == 1


def test_a_single_node_has_nothing_to_raise() -> None:
    assert decide_raise_internal(ClusterPlay().catalog, 3) == []
