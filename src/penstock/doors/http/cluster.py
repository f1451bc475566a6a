"""The cluster over HTTP: brokers, partitions, ring, gossip. Read-only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.core.gossip.peer import GossipPeer
from penstock.core.model import Address
from penstock.doors.http.exchange import Exchange
from penstock.doors.http.query import Choice, Field
from penstock.node.runtime.slices import Sliced
from penstock.node.waist.overview import BrokerOverview, HealthFilter, PlacedPartition, RingShare
from penstock.node.waist.waist import Waist
from penstock.wire.http.response import Response, json_response, json_rows

_FLAG = Choice(("false", "true"))
_FILTERS = {
    "offline": "without a leader",
    "under_replicated": "of which a replica is not in sync",
    "under_min_isr": "with fewer in-sync replicas than writes with acks=all need",
    "at_min_isr": "with exactly as many in-sync replicas as writes with acks=all need",
}
"""In the order of `HealthFilter`."""
PARTITION_FIELDS = (
    *(
        Field(name, _FLAG, "false", f"Whether partitions {which} are listed; several filters add up.")
        for name, which in _FILTERS.items()
    ),
    Field("internal", _FLAG, "false", "Whether partitions of internal topics are listed."),
)

_SHARE_DIGITS = 4


class HttpClusterHandlers:
    """Handlers of requests about the cluster."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.overview()

    def describe(self, exchange: Exchange) -> Sliced[Response]:
        """GET /api/v1/cluster"""
        found = yield from self._verbs.cluster(exchange.session)
        head = {
            "cluster_id": found.cluster_id,
            "broker": found.broker_id,
            "controller": _broker_id(found.controller_id),
            "controller_epoch": found.controller_epoch,
            "metadata_index": found.metadata_index,
            "partitions": found.partitions,
            "offline_partitions": found.offline_partitions,
            "under_replicated_partitions": found.under_replicated_partitions,
            "under_min_isr_partitions": found.under_min_isr_partitions,
        }
        return (yield from json_rows(head, "brokers", map(_broker, found.brokers)))

    def topics(self, exchange: Exchange) -> Sliced[Response]:
        """GET /api/v1/cluster/topics"""
        query = exchange.query
        found = self._verbs.partitions(
            exchange.session,
            HealthFilter(*(query[name] == "true" for name in _FILTERS)),
            with_internal=query["internal"] == "true",
        )
        return json_rows({}, "partitions", map(_partition, found))

    def ring(self, exchange: Exchange) -> Response:
        """GET /api/v1/cluster/ring"""
        found = self._verbs.ring(exchange.session)
        return json_response(
            {
                "vnodes": found.vnodes,
                "slack_percent": found.slack_percent,
                "leaders_max": found.leaders_max,
                "replicas_max": found.replicas_max,
                "brokers": [_share(one) for one in found.brokers],
            }
        )

    def gossip(self, exchange: Exchange) -> Response:
        """GET /api/v1/cluster/gossip"""
        found = self._verbs.gossip(exchange.session)
        return json_response(
            {
                "broker": found.broker_id,
                "on": found.is_on,
                "health": found.health,
                "controller": _broker_id(found.controller_id),
                "peers": [_peer(one) for one in found.peers],
            }
        )


def _broker_id(broker_id: int) -> int | None:
    return None if broker_id < 0 else broker_id


def _addresses(addresses: Mapping[str, Address]) -> dict[str, str]:
    return {name: str(address) for name, address in addresses.items()}


def _broker(one: BrokerOverview) -> dict[str, Any]:
    return {
        "id": one.id,
        "addresses": _addresses(one.addresses),
        "rack": one.rack,
        "epoch": one.epoch,
        "fenced": one.is_fenced,
        "stopping": one.is_stopping,
        "draining": one.is_draining,
        "session_alive": one.has_session,
        "leaders": one.leaders,
        "replicas": one.replicas,
    }


def _partition(one: PlacedPartition) -> dict[str, Any]:
    state = one.state
    return {
        "topic": one.topic,
        "partition": state.partition,
        "leader": _broker_id(state.leader_id),
        "leader_epoch": state.leader_epoch,
        "partition_epoch": one.partition_epoch,
        "replicas": state.replica_ids,
        "isr": state.isr_ids,
        "min_isr": one.isr_size_min,
        "elr": list(one.elr),
        "last_known_elr": list(one.last_known),
        "offline": state.offline_ids,
        "adding": list(one.adding),
        "removing": list(one.removing),
    }


def _share(one: RingShare) -> dict[str, Any]:
    return {
        "id": one.id,
        "rack": one.rack,
        "share": round(one.share, _SHARE_DIGITS),
        "leaders": one.leaders,
        "replicas": one.replicas,
        "takes_replicas": one.is_candidate,
    }


def _peer(one: GossipPeer) -> dict[str, Any]:
    return {
        "id": one.id,
        "state": one.state.name.lower(),
        "incarnation": one.incarnation,
        "address": str(one.address),
        "attributes": dict(one.attributes),
    }
