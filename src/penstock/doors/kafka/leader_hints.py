"""Tells clients that asked the wrong broker who leads a partition, so that they need not look it up (KIP-951)."""

from __future__ import annotations

from typing import TypeVar

from penstock.core.errors import BrokerError, NotLeader
from penstock.wire.kafka import messages

PRODUCE_FROM, FETCH_FROM = 10, 16
"""The first versions with leaders and their addresses. Fetch could name the leader earlier, but not its address."""

# Quoted: the classes of messages are made on first use, and a start needs none of these.
ResponseT = TypeVar("ResponseT", "messages.ProduceResponse", "messages.FetchResponse")


def add_leader_hint(
    response: ResponseT,
    answer: messages.ProduceResponse.PartitionProduceResponse | messages.FetchResponse.PartitionData,
    error: BrokerError,
    version: int,
) -> None:
    """Name the leader in the partition's answer and its address in the response, if the error knows both and this
    version has fields for them."""
    if not isinstance(error, NotLeader) or error.leader_address is None:
        return
    if version < (PRODUCE_FROM if isinstance(response, messages.ProduceResponse) else FETCH_FROM):
        return
    kind = type(response)
    answer.current_leader = kind.LeaderIdAndEpoch(leader_id=error.leader_id, leader_epoch=error.leader_epoch)
    if all(one.node_id != error.leader_id for one in response.node_endpoints):
        host, port = error.leader_address
        response.node_endpoints.append(kind.NodeEndpoint(node_id=error.leader_id, host=host, port=port))
