"""The table of routes: handler, parameters and responses of every path and method.

/openapi.json is generated from it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.doors.http.cluster import PARTITION_FIELDS, HttpClusterHandlers
from penstock.doors.http.exchange import Exchange
from penstock.doors.http.groups import HttpGroupHandlers
from penstock.doors.http.health import HealthHandlers
from penstock.doors.http.messages import READ_FIELDS, MessageHandlers
from penstock.doors.http.moves import DRY_RUN_FIELDS, HttpMoveHandlers
from penstock.doors.http.offsets import HttpOffsetHandlers
from penstock.doors.http.placement import HttpPlacementHandlers
from penstock.doors.http.query import Field
from penstock.doors.http.scrub import HttpScrubHandlers
from penstock.doors.http.subscriptions import HttpSubscriptionHandlers
from penstock.doors.http.tail import TAIL_FIELDS
from penstock.doors.http.topics import LIST_FIELDS, HttpTopicHandlers
from penstock.node.runtime.slices import Sliced
from penstock.wire.http.request import segments_of
from penstock.wire.http.response import Response

Handler = Callable[[Exchange], Response | Coroutine[Any, Any, Response] | Sliced[Any] | None]
"""Returns the response, a coroutine or sliced work that produces it, or None if it answers by itself later."""


class Route(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    call: str
    """Name in metrics and in /openapi.json."""
    summary: str
    handler: Handler | None
    """None: a WebSocket."""
    answers: Mapping[int, str | None]
    """The success statuses and the schema of each; problems have the same schema everywhere."""
    problems: tuple[int, ...] = ()
    body: str | None = None
    query: Sequence[Field] = ()
    is_write: bool = False
    """Starts without waiting for earlier requests: pipelined writes share batches."""


def make_routes(
    messages: MessageHandlers,
    topics: HttpTopicHandlers,
    groups: HttpGroupHandlers,
    offsets: HttpOffsetHandlers,
    subscriptions: HttpSubscriptionHandlers,
    cluster: HttpClusterHandlers,
    moves: HttpMoveHandlers,
    placement: HttpPlacementHandlers,
    scrub: HttpScrubHandlers,
    health: HealthHandlers,
    openapi: Handler,
) -> tuple[Route, ...]:
    """The table."""
    api = "/api/v1"
    one_topic = f"{api}/topics/{{topic}}"
    read_path = f"{one_topic}/partitions/{{partition}}/messages"
    return (
        Route("POST", f"{api}/messages", "publish", "Publish one message.", messages.publish,
              {200: "Published"}, (404, 413, 422), body="NewMessage", is_write=True),
        Route("POST", f"{api}/messages/batch", "publish_batch", "Publish many messages to one topic.",
              messages.publish_batch, {200: "PublishedBatch", 207: "PublishedBatch"}, (404, 413, 422),
              body="NewBatch", is_write=True),
        Route("GET", f"{api}/topics", "list_topics", "List topics.", topics.all,
              {200: "Topics"}, query=LIST_FIELDS),
        Route("POST", f"{api}/topics", "create_topic", "Create a topic.", topics.create,
              {201: "Topic"}, (409, 422), body="NewTopic"),
        Route("GET", one_topic, "describe_topic", "Describe a topic: partitions, offsets, sizes, settings.",
              topics.describe, {200: "Topic"}, (404,)),
        Route("PATCH", one_topic, "change_topic", "Change settings of a topic, or add partitions.",
              topics.change, {200: "Topic"}, (404, 422), body="TopicChange"),
        Route("DELETE", one_topic, "delete_topic", "Delete a topic and its records.", topics.delete,
              {204: None}, (404, 422)),
        Route("GET", read_path, "read", "Read messages of one partition, optionally waiting for them.",
              messages.read, {200: "Messages"}, (404, 416), query=READ_FIELDS),
        Route("GET", f"{one_topic}/tail", "tail", "A WebSocket that streams the messages of a topic.",
              None, {101: None}, (404, 426), query=TAIL_FIELDS),
        *_group_routes(f"{api}/groups", groups),
        *_offset_routes(f"{api}/groups/{{group}}/offsets", offsets),
        *_subscription_routes(f"{api}/subscriptions", subscriptions),
        *_cluster_routes(f"{api}/cluster", cluster),
        *_move_routes(f"{api}/cluster", moves),
        *_placement_routes(f"{api}/cluster", placement),
        *_scrub_routes(f"{api}/cluster/scrub", scrub),
        Route("GET", "/healthz", "healthz", "Whether the broker is alive.", health.alive, {200: "Alive"}),
        Route("GET", "/readyz", "readyz", "Whether the broker is ready for clients.", health.ready,
              {200: "Ready", 503: "Ready"}),
        Route("GET", "/metrics", "metrics", "Metrics in Prometheus' text format.", health.metrics, {200: None}),
        Route("GET", "/openapi.json", "openapi", "This description.", openapi, {200: "OpenApi"}),
    )  # fmt: skip


def _group_routes(path: str, groups: HttpGroupHandlers) -> tuple[Route, ...]:
    one = f"{path}/{{group}}"
    return (
        Route("GET", path, "list_groups", "List groups.", groups.all, {200: "Groups"}),
        Route("GET", one, "describe_group", "Describe a group and its members.", groups.describe,
              {200: "Group"}, (404,)),
        Route("GET", f"{one}/lag", "group_lag", "Lag of a group.", groups.lag, {200: "Lag"}, (404,)),
    )  # fmt: skip


def _offset_routes(path: str, offsets: HttpOffsetHandlers) -> tuple[Route, ...]:
    return (
        Route("GET", path, "group_offsets", "Committed offsets of a group.", offsets.committed,
              {200: "CommittedOffsets"}, (404,)),
        Route("PUT", path, "commit_offsets", "Commit offsets of a group.", offsets.commit,
              {200: "CommitResults", 207: "CommitResults"}, (404, 409, 413, 422), body="NewOffsets"),
    )  # fmt: skip


def _subscription_routes(path: str, subscriptions: HttpSubscriptionHandlers) -> tuple[Route, ...]:
    one = f"{path}/{{subscription}}"
    return (
        Route("GET", path, "list_subscriptions", "List subscriptions.", subscriptions.all,
              {200: "Subscriptions"}),
        Route("POST", path, "create_subscription", "Create a subscription to a topic.", subscriptions.create,
              {200: "Subscription", 201: "Subscription"}, (404, 409, 416, 422), body="NewSubscription"),
        Route("GET", one, "describe_subscription", "Describe a subscription: progress and members.",
              subscriptions.describe, {200: "Subscription"}, (404,)),
        Route("DELETE", one, "delete_subscription", "Delete a subscription; its dead letters stay.",
              subscriptions.delete, {204: None}, (404,)),
        Route("POST", f"{one}/redrive", "redrive", "Redeliver the dead letters of a subscription.",
              subscriptions.redrive, {200: "Redriven"}, (404,), body="NewRedrive"),
    )  # fmt: skip


def _cluster_routes(path: str, cluster: HttpClusterHandlers) -> tuple[Route, ...]:
    return (
        Route("GET", path, "describe_cluster", "Describe the cluster: brokers, controller, leaders.",
              cluster.describe, {200: "Cluster"}),
        Route("GET", f"{path}/topics", "cluster_topics", "List partitions with their leaders and replicas.",
              cluster.topics, {200: "ClusterPartitions"}, query=PARTITION_FIELDS),
        Route("GET", f"{path}/ring", "cluster_ring", "How partitions are placed: share, load, bound.",
              cluster.ring, {200: "ClusterRing"}),
        Route("GET", f"{path}/gossip", "cluster_gossip", "Peers as this broker hears of them.",
              cluster.gossip, {200: "ClusterGossip"}),
    )  # fmt: skip


def _move_routes(path: str, moves: HttpMoveHandlers) -> tuple[Route, ...]:
    drain = f"{path}/brokers/{{broker}}/drain"
    return (
        Route("GET", f"{path}/moves", "list_moves", "List the moves of partitions in progress.", moves.ongoing,
              {200: "Moves"}),
        Route("POST", f"{path}/rebalance", "rebalance", "Move partitions so that brokers hold as many each.",
              moves.rebalance, {200: "PlannedMoves"}, (400, 409), query=DRY_RUN_FIELDS),
        Route("POST", drain, "drain", "Move all partitions away from a broker.", moves.drain,
              {200: "PlannedMoves"}, (400, 404, 409), query=DRY_RUN_FIELDS),
        Route("DELETE", drain, "undrain", "Use a drained broker again.", moves.undrain, {204: None},
              (400, 404, 409)),
    )  # fmt: skip


def _placement_routes(path: str, placement: HttpPlacementHandlers) -> tuple[Route, ...]:
    return (
        Route("POST", f"{path}/elections", "elect", "Elect leaders: preferred replicas, or any if nobody leads.",
              placement.elect, {200: "Elections", 207: "Elections"}, (404, 413), body="NewElection"),
        Route("POST", f"{path}/reassignments", "reassign", "Change the replicas of partitions.", placement.reassign,
              {200: "PlannedMoves"}, (404, 409, 413, 422), body="NewReassignments", query=DRY_RUN_FIELDS),
    )  # fmt: skip


def _scrub_routes(path: str, scrub: HttpScrubHandlers) -> tuple[Route, ...]:
    return (
        Route("POST", path, "scrub", "Compare the replicas of partitions on all brokers.", scrub.start,
              {200: "Scrub"}, (400, 404, 409, 413), body="NewScrub"),
        Route("GET", path, "scrub_progress", "What the brokers have compared, and the differences.",
              scrub.progress, {200: "Scrub"}),
    )  # fmt: skip


class Match(NamedTuple):
    """The routes of a path by method, and its path parameters."""

    routes: Mapping[str, Route]
    parts: dict[str, str]

    @property
    def allow(self) -> str:
        """The value of the Allow header."""
        methods = set(self.routes) | {"OPTIONS"}
        if "GET" in methods:
            methods.add("HEAD")
        return ", ".join(sorted(methods))


class Router:
    """Finds the routes of a path."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._by_pattern: dict[tuple[str, ...], dict[str, Route]] = {}
        for route in routes:
            self._by_pattern.setdefault(tuple(route.path.split("/")[1:]), {})[route.method] = route

    def find(self, path: str) -> Match | None:
        segments = segments_of(path)
        if segments is None:
            return None
        for pattern, routes in self._by_pattern.items():
            if len(pattern) == len(segments) and all(
                wanted == found or (wanted[:1] == "{" and found)
                for wanted, found in zip(pattern, segments, strict=True)
            ):
                parts = {
                    wanted[1:-1]: found
                    for wanted, found in zip(pattern, segments, strict=True)
                    if wanted[:1] == "{"
                }
                return Match(routes, parts)
        return None
