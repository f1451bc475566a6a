"""Runs one gRPC service as a process: server, health, reflection, signals, ready file. Knows no call of the service."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from penstock.apps.gateways.brokers import BrokerLookup
from penstock.apps.gateways.settings import GatewaySettings
from penstock.apps.process import loop_factory, settle_memory
from penstock.apps.ready import StartError, remove_ready_file, write_json

logger = logging.getLogger("penstock.gateways.server")

PROBE_S = 1.0
PROBE_SOON_S = 0.2
"""The same while no broker answers: a service is often started together with its brokers."""
GRACE_S = 5.0
"""How long calls in progress may take after the signal to stop. Streams are told at once."""

CALLS_MAX = 5_000
"""Calls in progress; more fail with RESOURCE_EXHAUSTED."""

KEEPALIVE_MS = 20_000
"""Silent connections are probed this often: a client that is gone without a word ends its streams."""


@dataclass(frozen=True, slots=True)
class OpenedService:
    """What a process serves: names, how to register the handlers, how to end streams, and how to close."""

    names: Sequence[str]
    register: Callable[[Any], None]
    end_streams: Callable[[], None]
    close: Callable[[], Awaitable[None]]


OpenService = Callable[[BrokerLookup], OpenedService]


def serve_gateway(settings: GatewaySettings, open_service: OpenService) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code. Raises StartError if it cannot start."""
    if settings.ready_file is not None:
        remove_ready_file(settings.ready_file)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(_serve(settings, open_service))
    finally:
        if settings.ready_file is not None:
            remove_ready_file(settings.ready_file)


async def _serve(settings: GatewaySettings, open_service: OpenService) -> int:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    lookup = BrokerLookup(settings)
    service = open_service(lookup)
    server = grpc.aio.server(
        options=_server_options(settings.message_bytes_max), maximum_concurrent_rpcs=CALLS_MAX
    )
    service.register(server)
    status = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(status, server)
    reflection.enable_server_reflection(
        (*service.names, health.SERVICE_NAME, reflection.SERVICE_NAME), server
    )
    names = ("", *service.names)
    await _set_health(status, names, is_serving=False)
    port = _bind(server, settings)
    await server.start()
    watching = asyncio.ensure_future(_watch_brokers(lookup, status, names))
    settle_memory()
    ready = {"host": settings.host, "port": port, "pid": os.getpid(), "services": list(service.names)}
    if settings.ready_file is not None:
        write_json(settings.ready_file, ready)
    logger.info("serving", extra=ready)
    print(f"penstock: {service.names[0]} on {settings.host}:{port}", flush=True)
    await stopping.wait()
    watching.cancel()
    await status.enter_graceful_shutdown()
    service.end_streams()
    await server.stop(GRACE_S)
    await service.close()
    logger.info("stopped cleanly")
    return 0


def _server_options(message_bytes_max: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", message_bytes_max),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_MS // 2),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ]


def _bind(server: Any, settings: GatewaySettings) -> int:
    try:
        port: int = server.add_insecure_port(f"{settings.host}:{settings.port}")
    except RuntimeError as error:
        raise StartError(
            f"Cannot listen on {settings.host}:{settings.port}: the port is in use or the address is not of this"
            " machine; stop the other process or choose another --port."
        ) from error
    return port


async def _watch_brokers(lookup: BrokerLookup, status: Any, names: Sequence[str]) -> None:
    """Report SERVING while a broker answers. The service accepts calls meanwhile: they fail or wait by themselves."""
    was_serving: bool | None = None
    while True:
        is_serving = await lookup.is_answered()
        if is_serving != was_serving:
            logger.log(
                logging.INFO if is_serving else logging.WARNING,
                "brokers answer" if is_serving else "no broker answers, reporting NOT_SERVING",
            )
            await _set_health(status, names, is_serving=is_serving)
            was_serving = is_serving
        await asyncio.sleep(PROBE_S if is_serving else PROBE_SOON_S)


async def _set_health(status: Any, names: Sequence[str], *, is_serving: bool) -> None:
    code = health_pb2.HealthCheckResponse
    for name in names:
        await status.set(name, code.SERVING if is_serving else code.NOT_SERVING)
