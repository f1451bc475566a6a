"""Internal topics are as replicated as the cluster allows: decides how to raise those that were created earlier.

Raises only: a cluster that shrinks, or a lower setting, leaves their replicas where they are.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event, Topic, TopicSaved
from penstock.core.machines.catalog.replica_defaults import with_isr_size_min
from penstock.core.machines.cluster.assignment import default_factor, more_replicas
from penstock.core.machines.cluster.partition_state import decide_follow_config
from penstock.core.machines.cluster.reassignment import MOVES_PER_CHANGE, decide_reassign


def decide_raise_internal(catalog: Catalog, configured: int) -> list[Event]:
    """Add replicas to partitions of internal topics that have fewer than new topics get, as far as brokers are
    available. Once all partitions of a topic have them, its `min.insync.replicas` follows."""
    if not catalog.cluster.has_brokers:
        return []
    factor = default_factor(catalog.cluster, configured)
    events: list[Event] = []
    for topic in catalog.topics:
        if topic.internal:
            moves = _added_replicas(catalog, topic, factor)
            events += moves or _raised_isr_size_min(catalog, topic)
            if len(events) >= MOVES_PER_CHANGE:
                break
    return events


def _added_replicas(catalog: Catalog, topic: Topic, factor: int) -> list[Event]:
    cluster = catalog.cluster
    settled = [one for one in cluster.partitions_of(topic.id) if not one.is_moving]
    return [
        event
        for one, target in more_replicas(cluster, settled, factor)[:MOVES_PER_CHANGE]
        for event in decide_reassign(cluster, one.id, target)
    ]


def _raised_isr_size_min(catalog: Catalog, topic: Topic) -> list[Event]:
    """Not while partitions still move: a topic has one value for all of them."""
    cluster = catalog.cluster
    partitions = cluster.partitions_of(topic.id)
    if not partitions or any(one.is_moving for one in partitions):
        return []
    factor = min(len(one.replicas) for one in partitions)
    overrides = with_isr_size_min(topic.overrides, catalog.defaults, factor)
    if overrides == topic.overrides:
        return []
    config = catalog.config(topic.name)
    return [
        TopicSaved(replace(topic, overrides=overrides)),
        *decide_follow_config(cluster, topic.id, factor - 1, may_elect_unclean=config.unclean_election),
    ]
