"""The consumer service: assembles Consumer and Topics for one process."""

from __future__ import annotations

from typing import Any

from penstock.apps.gateways.brokers import BrokerLookup
from penstock.apps.gateways.consume import ConsumerGateway
from penstock.apps.gateways.fetch import Fetcher
from penstock.apps.gateways.server import OpenedService
from penstock.apps.gateways.settings import ConsumerSettings
from penstock.apps.gateways.subscribe import Streams
from penstock.apps.gateways.topics import AdminLink, TopicsGateway
from penstock.v1 import consumer_pb2, consumer_pb2_grpc, topics_pb2, topics_pb2_grpc


def open_consumer_service(lookup: BrokerLookup, settings: ConsumerSettings) -> OpenedService:
    """The handlers of the consumer service. Connects to no broker yet."""
    fetcher = Fetcher(settings.fetches_max, lookup.connection)
    streams = Streams(settings, lookup.connection)
    link = AdminLink(lookup.connection)

    def register(server: Any) -> None:
        consumer_pb2_grpc.add_ConsumerServicer_to_server(ConsumerGateway(fetcher, streams, link), server)
        topics_pb2_grpc.add_TopicsServicer_to_server(TopicsGateway(link), server)

    async def close() -> None:
        await streams.close()
        fetcher.close()
        await link.close()

    names = [file.DESCRIPTOR.services_by_name[name].full_name for file, name in _SERVICES]
    return OpenedService(names, register, streams.end_streams, close)


_SERVICES = ((consumer_pb2, "Consumer"), (topics_pb2, "Topics"))
