"""The producer service: assembles Producer and Topics for one process."""

from __future__ import annotations

from typing import Any

from penstock.apps.gateways.brokers import BrokerLookup
from penstock.apps.gateways.produce import ProducerGateway
from penstock.apps.gateways.senders import Senders
from penstock.apps.gateways.server import OpenedService
from penstock.apps.gateways.settings import ProducerSettings
from penstock.apps.gateways.topics import AdminLink, TopicsGateway
from penstock.v1 import producer_pb2, producer_pb2_grpc, topics_pb2, topics_pb2_grpc


def open_producer_service(lookup: BrokerLookup, settings: ProducerSettings) -> OpenedService:
    """The handlers of the producer service. Connects to no broker yet."""
    senders = Senders(settings, lookup.connection)
    link = AdminLink(lookup.connection)
    gateway = ProducerGateway(senders, settings)

    def register(server: Any) -> None:
        producer_pb2_grpc.add_ProducerServicer_to_server(gateway, server)
        topics_pb2_grpc.add_TopicsServicer_to_server(TopicsGateway(link), server)

    async def close() -> None:
        await senders.close()
        await link.close()

    names = [file.DESCRIPTOR.services_by_name[name].full_name for file, name in _SERVICES]
    return OpenedService(names, register, gateway.end_streams, close)


_SERVICES = ((producer_pb2, "Producer"), (topics_pb2, "Topics"))
