"""The Topics service: topics and brokers, through the admin client. Served by both processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from penstock.apps.gateways.brokers import Connect
from penstock.apps.gateways.errors import abort
from penstock.client.descriptions import TopicDescription
from penstock.client.errors import BadArgument, ClientError, NotFound
from penstock.client.rdkafka.async_admin import AsyncAdmin
from penstock.client.rdkafka.group_member import PROPAGATION_S_MAX, PROPAGATION_STEP_S
from penstock.v1 import topics_pb2, topics_pb2_grpc

Result = TypeVar("Result")


class AdminLink:
    """The admin client of a service, opened on first use: the service starts without a broker."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._lock = asyncio.Lock()
        self._admin: AsyncAdmin | None = None

    async def opened(self) -> AsyncAdmin:
        """The client. Raises Unreachable."""
        async with self._lock:
            if self._admin is None:
                options: dict[str, Any] = {
                    **await self._connect(),
                    "client_id": "penstock-grpc-service",
                }
                admin = AsyncAdmin(**options)
                await admin.start()
                self._admin = admin
            return self._admin

    async def close(self) -> None:
        if self._admin is not None:
            await self._admin.close()


class TopicsGateway(topics_pb2_grpc.TopicsServicer):
    """The handlers of penstock.v1.Topics."""

    def __init__(self, link: AdminLink) -> None:
        self._link = link

    async def _call(self, context: Any, call: Callable[[AsyncAdmin], Awaitable[Result]]) -> Result:
        try:
            return await call(await self._link.opened())
        except ClientError as error:
            await abort(context, error)

    async def ListTopics(
        self, request: topics_pb2.ListTopicsRequest, context: Any
    ) -> topics_pb2.ListTopicsResponse:
        found = await self._call(context, lambda admin: admin.topics(internal=request.internal))
        return topics_pb2.ListTopicsResponse(
            topics=[
                topics_pb2.TopicSummary(name=one.topic, partitions=one.partitions, replicas=one.replicas)
                for one in found
            ]
        )

    async def DescribeTopic(
        self, request: topics_pb2.DescribeTopicRequest, context: Any
    ) -> topics_pb2.DescribeTopicResponse:
        await _check_name(context, request.name)
        found = await self._call(context, lambda admin: _describe(admin, request.name))
        return topics_pb2.DescribeTopicResponse(
            name=found.topic,
            partitions=[
                topics_pb2.PartitionState(
                    partition=one.partition,
                    leader=one.leader,
                    replicas=one.replicas,
                    in_sync=one.in_sync,
                    start_offset=one.start_offset,
                    end_offset=one.end_offset,
                )
                for one in found.partitions
            ],
            configs={one.name: one.value for one in found.configs},
        )

    async def CreateTopic(
        self, request: topics_pb2.CreateTopicRequest, context: Any
    ) -> topics_pb2.CreateTopicResponse:
        await _check_name(context, request.name)
        if request.partitions < 0 or request.replicas < 0:
            await abort(context, BadArgument("partitions and replicas cannot be negative."))
        created = await self._call(
            context,
            lambda admin: admin.create_topic(
                request.name,
                request.partitions or None,
                dict(request.configs),
                replicas=request.replicas or None,
                if_not_exists=request.if_not_exists,
            ),
        )
        return topics_pb2.CreateTopicResponse(created=created)

    async def DeleteTopic(
        self, request: topics_pb2.DeleteTopicRequest, context: Any
    ) -> topics_pb2.DeleteTopicResponse:
        await _check_name(context, request.name)
        await self._call(context, lambda admin: admin.delete_topic(request.name))
        return topics_pb2.DeleteTopicResponse()

    async def GetCluster(
        self, request: topics_pb2.GetClusterRequest, context: Any
    ) -> topics_pb2.GetClusterResponse:
        found = await self._call(context, lambda admin: admin.describe_cluster())
        return topics_pb2.GetClusterResponse(
            cluster_id=found.cluster_id,
            brokers=[
                topics_pb2.BrokerAddress(id=one.id, host=one.host, port=one.port) for one in found.brokers
            ],
        )


async def _describe(admin: AsyncAdmin, name: str) -> TopicDescription:
    """Raises NotFound if no broker has heard of the topic for a while: a new one reaches each broker by itself."""
    deadline_s = time.monotonic() + PROPAGATION_S_MAX
    while True:
        try:
            return await admin.describe_topic(name)
        except NotFound:
            if time.monotonic() >= deadline_s:
                raise
        await asyncio.sleep(PROPAGATION_STEP_S)


async def _check_name(context: Any, name: str) -> None:
    if not name:
        await abort(context, BadArgument("name is empty."))
