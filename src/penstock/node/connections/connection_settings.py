"""Settings of connections: limits per client and in all. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.node.definitions.definition import (
    INT32_MAX,
    SettingKind,
    count_setting,
    define_setting,
    duration_setting,
    size_setting,
)

_MIB = 2**20


def _check_relay(text: str) -> None:
    # Imported on use: only a broker that relays needs it.
    from penstock.node.connections.addresses import parse_service

    parse_service(text)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class ConnectionSettings:
    """Over a limit a client gets an error, is throttled, or is disconnected."""

    drain_ms_max: int = duration_setting(
        "server", 5_000, "How long a stopping broker waits for requests in flight.", high=INT32_MAX
    )
    grpc_relay: str | None = define_setting(
        SettingKind.TEXT,
        "server",
        None,
        "Address of a gRPC service, such as 127.0.0.1:9193: connections to the Kafka port that begin with HTTP/2 are"
        " relayed to it; off: they are closed with an error.",
        check=_check_relay,
        metavar="HOST:PORT|off",
    )
    connections_max: int = count_setting(
        "limits",
        5_000,
        "Maximum number of connections; further ones are closed immediately.",
        low=1,
        high=INT32_MAX,
        aliases=("max_connections",),
        kafka="max.connections",
    )
    connections_per_address_max: int = count_setting(
        "limits",
        5_000,
        "Maximum number of connections from one client address.",
        low=1,
        high=INT32_MAX,
        kafka="max.connections.per.ip",
    )
    frame_bytes_max: int = size_setting(
        "limits",
        100 * _MIB,
        "Maximum size of a request; a connection that announces a larger one is closed.",
        low=1_024,
        high=INT32_MAX,
        kafka="socket.request.max.bytes",
    )
    frame_ms_max: int = duration_setting(
        "limits",
        60_000,
        "How long a request may take to arrive completely; then its connection is closed.",
        low=1,
        high=INT32_MAX,
    )
    inflight_bytes_max: int = size_setting(
        "limits",
        256 * _MIB,
        "Maximum bytes of requests in flight over all connections; beyond it, the broker stops reading from clients.",
        low=1_024,
        kafka="queued.max.request.bytes",
    )
    requests_in_flight_max: int = count_setting(
        "limits",
        1_000,
        "Maximum number of requests in flight per connection; beyond it, the broker stops reading from that client.",
        low=1,
        high=INT32_MAX,
    )
    response_queue_bytes_max: int = size_setting(
        "limits",
        64 * _MIB,
        "Maximum bytes of responses queued for one connection; beyond it, the broker stops reading from that client.",
        low=1_024,
    )
    idle_ms_max: int = duration_setting(
        "limits",
        600_000,
        "Connections that are idle for longer than this are closed.",
        low=1,
        kafka="connections.max.idle.ms",
    )
    socket_receive_bytes: int = size_setting(
        "limits",
        0,
        "Receive buffer of each socket; 0: the default of the system.",
        high=INT32_MAX,
        kafka="socket.receive.buffer.bytes",
    )
    socket_send_bytes: int = size_setting(
        "limits",
        0,
        "Send buffer of each socket; 0: the default of the system.",
        high=INT32_MAX,
        kafka="socket.send.buffer.bytes",
    )
