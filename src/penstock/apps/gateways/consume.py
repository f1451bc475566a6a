"""The Consumer service: Fetch and Subscribe, and the offsets of groups through the admin client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from penstock.apps.gateways.errors import abort
from penstock.apps.gateways.fetch import Fetcher
from penstock.apps.gateways.subscribe import Streams
from penstock.apps.gateways.topics import AdminLink
from penstock.client.errors import BadArgument, ClientError
from penstock.client.messages import Position
from penstock.client.rdkafka.async_admin import AsyncAdmin
from penstock.v1 import consumer_pb2, consumer_pb2_grpc

Result = TypeVar("Result")


class ConsumerGateway(consumer_pb2_grpc.ConsumerServicer):
    """The handlers of penstock.v1.Consumer."""

    def __init__(self, fetcher: Fetcher, streams: Streams, link: AdminLink) -> None:
        self._fetcher = fetcher
        self._streams = streams
        self._link = link

    async def Fetch(self, request: consumer_pb2.FetchRequest, context: Any) -> consumer_pb2.FetchResponse:
        try:
            return await self._fetcher.fetch(request, context.time_remaining())
        except ClientError as error:
            await abort(context, error, request.request_id)

    async def Subscribe(self, requests: AsyncIterator[consumer_pb2.SubscribeRequest], context: Any) -> None:
        try:
            await self._streams.serve(requests, context)
        except ClientError as error:
            await abort(context, error)

    async def _call(
        self, context: Any, group: str | None, call: Callable[[AsyncAdmin], Awaitable[Result]]
    ) -> Result:
        try:
            if group == "":
                raise BadArgument("group is empty.")
            return await call(await self._link.opened())
        except ClientError as error:
            await abort(context, error)

    async def GetOffsets(
        self, request: consumer_pb2.GetOffsetsRequest, context: Any
    ) -> consumer_pb2.GetOffsetsResponse:
        found = await self._call(context, request.group, lambda admin: admin.lag(request.group))
        return consumer_pb2.GetOffsetsResponse(
            offsets=[
                consumer_pb2.GroupOffset(
                    topic=one.topic,
                    partition=one.partition,
                    committed=one.committed,
                    end_offset=one.end,
                    lag=one.lag,
                )
                for one in found
            ]
        )

    async def SetOffsets(
        self, request: consumer_pb2.SetOffsetsRequest, context: Any
    ) -> consumer_pb2.SetOffsetsResponse:
        positions = [Position(one.topic, one.partition, one.offset) for one in request.offsets]
        if any(not one.topic or one.partition < 0 or one.offset < 0 for one in positions):
            await abort(context, BadArgument("offsets: a topic is empty, or a number is negative."))
        await self._call(context, request.group, lambda admin: admin.move_group(request.group, positions))
        return consumer_pb2.SetOffsetsResponse()

    async def ListGroups(
        self, request: consumer_pb2.ListGroupsRequest, context: Any
    ) -> consumer_pb2.ListGroupsResponse:
        found = await self._call(context, None, lambda admin: admin.groups())
        return consumer_pb2.ListGroupsResponse(
            groups=[
                consumer_pb2.GroupSummary(group=one.group, kind=one.kind, state=one.state) for one in found
            ]
        )
