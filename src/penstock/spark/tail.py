"""Waits for new records at the end of topics with one long-poll fetch per leader. Never returns the records."""

from __future__ import annotations

import select
from collections.abc import Mapping

from penstock.client.access import Access
from penstock.client.errors import ClientError
from penstock.client.raw.cluster import Cluster, Node, TopicPartition
from penstock.client.raw.connection import BrokerConnection
from penstock.client.raw.fetch import FETCH_VERSION_MAX, fetch_request
from penstock.wire.kafka import ApiKey


class TopicTail:
    """One fetch per leader, over dedicated connections: a response may stay unread until the next wait."""

    def __init__(self, access: Access) -> None:
        self._cluster = Cluster(access)
        self._open: dict[int, BrokerConnection] = {}

    def wait(self, offsets: Mapping[TopicPartition, int], isolation: int, wait_ms: int) -> None:
        """Return once a partition has a record at its offset, after `wait_ms`, or on a failed connection."""
        try:
            for node_id, places in self._cluster.led_by(offsets).items():
                self._ask(node_id, {place: offsets[place] for place in places}, isolation, wait_ms)
            ready, _, _ = select.select(list(self._open.values()), [], [], wait_ms / 1000)
            for node_id, connection in list(self._open.items()):
                if connection in ready:
                    del self._open[node_id]
                    connection.receive()
        except ClientError:
            self.close()

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        self._cluster.close()

    def _ask(self, node_id: int, offsets: Mapping[TopicPartition, int], isolation: int, wait_ms: int) -> None:
        stale = self._open.pop(node_id, None)
        if stale is not None:
            stale.close()
        connection = self._cluster.connection_to(Node(node_id))
        version = connection.version_of(ApiKey.FETCH, FETCH_VERSION_MAX)
        body = fetch_request(offsets, isolation, wait_ms=wait_ms, bytes_max=1, partition_bytes_max=1)
        connection.send(ApiKey.FETCH, body, version=version)
        self._open[node_id] = connection
