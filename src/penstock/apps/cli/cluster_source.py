"""What a cluster says about itself and is told, from a bootstrap list alone: an HTTP door answers, else Kafka calls do.

Brokers name their HTTP doors in the setting `penstock.listeners`, which any Kafka client can read. Both sources give
the content of the HTTP API; what Kafka calls do not tell is None. Changes need an HTTP door.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPException, HTTPResponse
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

from penstock.apps.cli.client import CONNECT_SECONDS_MAX, check_code, connect_cluster, translated
from penstock.apps.cli.failures import NoBroker, ObjectNotFound, RefusedByBroker
from penstock.apps.cli.group_lag import GroupLagSummary, lag_summaries, listed_groups
from penstock.apps.cli.security_options import command_security
from penstock.client.errors import ClientError, TlsFailed
from penstock.client.http_link import authorization, http_connection
from penstock.client.raw.cluster import ANYONE, Node, TopicPartition
from penstock.client.raw.offsets import EARLIEST, LATEST, known_offsets
from penstock.core.model import Address
from penstock.wire.kafka import ApiKey, ErrorCode, error_name, messages

HTTP, KAFKA = "http", "kafka"
LISTENERS = "penstock.listeners"
REPLY_BYTES_MAX = 1 << 28
_BROKER_RESOURCE = 4
_METADATA_VERSION_MAX = 10
_OK, _NO_CONTENT, _MULTI_STATUS, _NOT_FOUND = 200, 204, 207, 404
_UNKNOWN_PATH = "NoSuchPath"

Content = dict[str, Any]
T = TypeVar("T")

_FILTERS_OF_KAFKA: dict[str, Callable[[Content], bool]] = {
    "offline": lambda one: one["leader"] is None,
    "under_replicated": lambda one: len(one["isr"]) < len(one["replicas"]),
}
"""Filters by health that the metadata of Kafka clients is enough for."""


class Found(NamedTuple):
    """An answer, and the protocol that it came over."""

    content: Content
    source: str
    why_not_http: str = ""


class TopicPlacement(NamedTuple):
    """Replicas by partition, and racks by broker."""

    replicas: list[list[int]]
    racks: dict[int, str]


class ClusterSource:
    """The cluster behind a bootstrap list. With a broker id, that broker answers. Raises NoBroker."""

    def __init__(self, bootstrap: str, broker_id: int | None = None) -> None:
        self._bootstrap = bootstrap
        self._broker_id = broker_id
        self._kafka = connect_cluster(bootstrap)
        self._why = ""
        """Why no HTTP door has answered."""

    def overview(self) -> Found:
        """Brokers, controller, and how much each broker holds."""
        return self._found("/api/v1/cluster", {}) or self._from_kafka(self._kafka_overview)

    def partitions(self, filters: Sequence[str] = (), *, with_internal: bool) -> Found:
        """Leaders and replicas of partitions; with filters only those that one of them takes."""
        path, query = "/api/v1/cluster/topics", {"internal": str(with_internal).lower()}
        query |= dict.fromkeys(filters, "true")

        def read() -> Content:
            topics = [one for one in self._metadata().topics if with_internal or not one.is_internal]
            listed = [
                one
                for one in _partitions(topics)
                if not filters or any(_FILTERS_OF_KAFKA[name](one) for name in filters)
            ]
            return {"partitions": listed}

        if not _FILTERS_OF_KAFKA.keys() >= set(filters):
            return self._only_http(path, query)
        return self._found(path, query) or self._from_kafka(read)

    def placement(self, topic: str) -> TopicPlacement:
        """The replicas of a topic's partitions, and the racks of the running brokers that have one."""
        with translated(self._bootstrap):
            found = self._metadata()
        racks = {one.node_id: one.rack for one in found.brokers if one.rack}
        placed = [
            list(one.replica_nodes) for each in found.topics if each.name == topic for one in each.partitions
        ]
        return TopicPlacement(placed, racks)

    def eligible(self, topic: str) -> dict[int, tuple[list[int], list[int]]]:
        """Per partition the eligible leader replicas and the last known ones; empty if the broker does not tell."""
        request = messages.DescribeTopicPartitionsRequest
        found: dict[int, tuple[list[int], list[int]]] = {}
        cursor = None
        while True:
            wanted = request(topics=[request.TopicRequest(name=topic)], cursor=cursor)
            try:
                answer = self._kafka.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, wanted, ANYONE)
            except ClientError:
                return found
            for one in (each for described in answer.topics for each in described.partitions):
                found[one.partition_index] = one.eligible_leader_replicas or [], one.last_known_elr or []
            after = answer.next_cursor
            if after is None:
                return found
            cursor = request.Cursor(topic_name=after.topic_name, partition_index=after.partition_index)

    def ring(self) -> Found:
        return self._only_http("/api/v1/cluster/ring")

    def gossip(self) -> Found:
        return self._only_http("/api/v1/cluster/gossip")

    def scrub(self) -> Content | None:
        """What the brokers have compared; None if no HTTP door tells."""
        try:
            found = self._found("/api/v1/cluster/scrub", {})
        except RefusedByBroker:  # a broker of an earlier version
            return None
        return None if found is None else found.content

    def moves(self) -> list[Content]:
        """The moves in progress, with what the brokers that take part know about them."""
        merged: dict[tuple[str, int], Content] = {}
        for content in self._from_everyone("/api/v1/cluster/moves"):
            for one in content["moves"]:
                known = merged.setdefault((one["topic"], one["partition"]), one)
                known.update({name: value for name, value in one.items() if value is not None})
        return [merged[place] for place in sorted(merged)]

    def sizes(self) -> dict[tuple[str, int], int]:
        """Bytes of every partition: the largest of its copies. Brokers that do not answer are left out."""
        found: dict[tuple[str, int], int] = {}
        with translated(self._bootstrap):
            brokers = self._kafka.brokers()
        for broker_id in sorted(brokers):
            try:
                answer = self._kafka.ask_once(
                    ApiKey.DESCRIBE_LOG_DIRS, messages.DescribeLogDirsRequest(topics=None), Node(broker_id)
                )
            except ClientError:
                continue
            for result in answer.results:
                for topic in result.topics:
                    for one in topic.partitions:
                        place = (topic.name, one.partition_index)
                        found[place] = max(found.get(place, 0), one.partition_size)
        return found

    def topics(self, *, with_internal: bool) -> list[Content]:
        """Topics with the number of their records and the bytes of one copy; None where a broker does not tell.

        Records are counted as offsets: compaction and transactions leave gaps.
        """
        with translated(self._bootstrap):
            listed = [one for one in self._metadata().topics if with_internal or not one.is_internal]
            leaders = {
                TopicPartition(topic.name or "", one.partition_index): one.leader_id
                for topic in listed
                for one in topic.partitions
            }
            starts, ends = (known_offsets(self._kafka, leaders, at) for at in (EARLIEST, LATEST))
        sizes = self.sizes()
        rows = []
        for topic in sorted(listed, key=lambda one: one.name or ""):
            places = [TopicPartition(topic.name or "", one.partition_index) for one in topic.partitions]
            rows.append(
                {
                    "topic": topic.name,
                    "partitions": len(places),
                    "replicas": max((len(one.replica_nodes) for one in topic.partitions), default=0),
                    "records": _sum(
                        [ends[one] - starts[one] if one in ends and one in starts else None for one in places]
                    ),
                    "bytes": _sum([sizes.get((one.topic, one.partition)) for one in places]),
                }
            )
        return rows

    def groups(self) -> list[GroupLagSummary]:
        """All groups with their lag."""
        with translated(self._bootstrap):
            return lag_summaries(self._kafka, listed_groups(self._kafka))

    def metrics(self) -> dict[int, str]:
        """The metrics of every broker with an HTTP door that answers. Raises NoBroker if there is none."""
        found = dict(self._texts("/metrics"))
        if not found:
            raise NoBroker(
                f"No HTTP door answers, which this command needs: {self._why}. Start brokers with an HTTP door"
                " (--http-port), and with addresses that this machine can reach."
            )
        return found

    # -- changes

    def change(
        self, path: str, *, method: str = "POST", body: Content | None = None, **query: str
    ) -> Content:
        """Make a change through the first HTTP door that answers. Raises RefusedByBroker."""
        return self._only_http(path, query, method, body).content

    def unregister(self, broker_id: int) -> None:
        """Remove a broker that is stopped and empty."""
        request = messages.UnregisterBrokerRequest(broker_id=broker_id)
        with translated(self._bootstrap):
            answer = self._kafka.ask(ApiKey.UNREGISTER_BROKER, request)
        if answer.error_code:
            raise RefusedByBroker(answer.error_message or f"broker {broker_id} cannot be removed")

    def cancel(self, places: Sequence[tuple[str, int]]) -> list[str]:
        """Cancel moves; returns the problems. A move that is over is none."""
        request = messages.AlterPartitionReassignmentsRequest
        topics = [
            request.ReassignableTopic(
                name=name, partitions=[request.ReassignablePartition(partition_index=index, replicas=None)]
            )
            for name, index in places
        ]
        with translated(self._bootstrap):
            answer = self._kafka.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request(topics=topics))
        check_code(answer.error_code, "cancel")
        return [
            f"{topic.name}-{one.partition_index}: {one.error_message or error_name(one.error_code)}"
            for topic in answer.responses
            for one in topic.partitions
            if one.error_code not in (0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        ]

    # -- HTTP

    def _only_http(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        method: str = "GET",
        body: Content | None = None,
    ) -> Found:
        found = self._found(path, query or {}, method, body)
        if found is None:
            raise NoBroker(
                f"No HTTP door answers, and Kafka calls do not tell this: {self._why}. Start brokers with an HTTP door"
                " (--http-port), and with addresses that this machine can reach."
            )
        return found

    def _found(
        self, path: str, query: Mapping[str, str], method: str = "GET", body: Content | None = None
    ) -> Found | None:
        """The answer of the first HTTP door that has one. Sets `_why` if there is none."""
        for found in self._answers(path, query, method, body):
            return Found(found, HTTP)
        return None

    def _from_everyone(self, path: str) -> list[Content]:
        """The answers of all HTTP doors that have one. Raises NoBroker if there is none."""
        return list(self._answers(path, {}, "GET")) or [self._only_http(path).content]

    def _answers(
        self, path: str, query: Mapping[str, str], method: str, body: Content | None = None
    ) -> Iterator[Content]:
        full_path = f"{path}?{urlencode(query)}" if query else path
        for _, content in self._ask_doors(lambda door: _send(method, door, full_path, body)):
            yield content

    def _texts(self, path: str) -> Iterator[tuple[int, str]]:
        return self._ask_doors(lambda door: _read_text(door, path))

    def _ask_doors(self, ask: Callable[[Address], T]) -> Iterator[tuple[int, T]]:
        """The answers of HTTP doors, by broker. Sets `_why` once all have been asked."""
        reasons = []
        with translated(self._bootstrap):
            brokers = self._kafka.brokers()
        if self._broker_id is not None:
            if self._broker_id not in brokers:
                raise ObjectNotFound(f"There is no broker {self._broker_id}, or it is not running.")
            brokers = {self._broker_id: brokers[self._broker_id]}
        for broker_id in sorted(brokers):
            try:
                door = self._http_door(broker_id)
            except ClientError as error:
                reasons.append(f"broker {broker_id}: {error.message}")
                continue
            if door is None:
                reasons.append(f"broker {broker_id} has none")
                continue
            try:
                yield broker_id, ask(door)
            except (OSError, HTTPException, ValueError, TlsFailed) as error:
                reasons.append(f"broker {broker_id} at {door}: {error}")
        self._why = "; ".join(reasons) or "no broker is running"

    def _http_door(self, broker_id: int) -> Address | None:
        wanted = messages.DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=_BROKER_RESOURCE, resource_name=str(broker_id), configuration_keys=[LISTENERS]
        )
        request = messages.DescribeConfigsRequest(resources=[wanted])
        answer = self._kafka.ask_once(ApiKey.DESCRIBE_CONFIGS, request, Node(broker_id))
        for result in answer.results:
            check_code(result.error_code, f"broker {broker_id}: settings")
            for config in result.configs:
                if config.name == LISTENERS and config.value:
                    return read_listeners(config.value).get(HTTP)
        return None

    # -- Kafka

    def _from_kafka(self, read: Callable[[], Content]) -> Found:
        with translated(self._bootstrap):
            return Found(read(), KAFKA, self._why)

    def _metadata(self) -> messages.MetadataResponse:
        request = messages.MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return self._kafka.ask(
            ApiKey.METADATA, request, ANYONE, version_max=_METADATA_VERSION_MAX, again_on=frozenset()
        )

    def _kafka_overview(self) -> Content:
        described = self._kafka.ask(ApiKey.DESCRIBE_CLUSTER, messages.DescribeClusterRequest())
        check_code(described.error_code, "the cluster")
        partitions = list(_partitions(self._metadata().topics))
        running = {one.broker_id: one for one in described.brokers}
        known = sorted({*running, *(broker_id for one in partitions for broker_id in one["replicas"])})
        return {
            "cluster_id": described.cluster_id,
            "broker": None,
            "controller": described.controller_id if described.controller_id >= 0 else None,
            "controller_epoch": None,
            "metadata_index": None,
            "partitions": len(partitions),
            "offline_partitions": sum(map(_FILTERS_OF_KAFKA["offline"], partitions)),
            "under_replicated_partitions": sum(map(_FILTERS_OF_KAFKA["under_replicated"], partitions)),
            "under_min_isr_partitions": None,
            "brokers": [
                {
                    "id": broker_id,
                    "addresses": (
                        {KAFKA: str(Address(running[broker_id].host, running[broker_id].port))}
                        if broker_id in running
                        else {}
                    ),
                    "rack": running[broker_id].rack if broker_id in running else None,
                    "epoch": None,
                    "fenced": broker_id not in running,
                    "stopping": None,
                    "draining": None,
                    "session_alive": None,
                    "leaders": sum(one["leader"] == broker_id for one in partitions),
                    "replicas": sum(broker_id in one["replicas"] for one in partitions),
                }
                for broker_id in known
            ],
        }


def read_listeners(value: str) -> dict[str, Address]:
    """`kafka://host:9092,http://host:9192` by name. What is not an address is left out."""
    found = {}
    for part in value.split(","):
        url = urlsplit(part.strip())
        try:
            if url.hostname and url.port:
                found[url.scheme] = Address(url.hostname, url.port)
        except ValueError:
            continue  # the port is not a number
    return found


def _send(method: str, door: Address, path: str, body: Content | None) -> Content:
    """Raises OSError, HTTPException or ValueError if the door does not answer, RefusedByBroker if it refuses."""
    response, reply = _exchange(method, door, path, body)
    if response.status == _NO_CONTENT:
        return {}
    content = json.loads(reply)
    if response.status == _NOT_FOUND and content.get("code") in (None, _UNKNOWN_PATH):
        raise ValueError("it does not know this request; upgrade the broker")
    if not isinstance(content, dict):
        raise ValueError("the response is not a JSON object")
    if response.status not in (_OK, _MULTI_STATUS):
        refusal = f"{door}: {content.get('detail', response.reason)}"
        raise (ObjectNotFound if response.status == _NOT_FOUND else RefusedByBroker)(refusal)
    return content


def _read_text(door: Address, path: str) -> str:
    """Raises OSError or HTTPException if the door does not answer, ValueError if it refuses."""
    response, content = _exchange("GET", door, path, None)
    if response.status != _OK:
        raise ValueError(f"it answered {response.status} {response.reason}")
    return content.decode()


def _exchange(method: str, door: Address, path: str, body: Content | None) -> tuple[HTTPResponse, bytes]:
    """One request with the security of the command. Raises OSError, HTTPException and TlsFailed."""
    security = command_security()
    headers = {} if body is None else {"Content-Type": "application/json"}
    headers |= authorization(security, door)
    connection = http_connection(door, security, CONNECT_SECONDS_MAX)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response, response.read(REPLY_BYTES_MAX)
    finally:
        connection.close()


def _sum(numbers: Sequence[int | None]) -> int | None:
    """None if one of them is unknown."""
    known = [one for one in numbers if one is not None]
    return sum(known) if len(known) == len(numbers) else None


def _partitions(topics: Sequence[messages.MetadataResponse.MetadataResponseTopic]) -> Iterator[Content]:
    for topic in topics:
        for one in topic.partitions:
            yield {
                "topic": topic.name,
                "partition": one.partition_index,
                "leader": one.leader_id if one.leader_id >= 0 else None,
                "leader_epoch": one.leader_epoch,
                "partition_epoch": None,
                "replicas": list(one.replica_nodes),
                "isr": list(one.isr_nodes),
                "min_isr": None,
                "elr": None,
                "last_known_elr": None,
                "offline": list(one.offline_replicas),
                "adding": None,
                "removing": None,
            }
