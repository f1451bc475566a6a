"""Settings of connections: limits per client and in all. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.node.definitions.definition import INT32_MAX, count, duration, size

_MIB = 2**20


@dataclass(frozen=True, init=False, repr=False, eq=False)
class ConnectionSettings:
    """Over a limit a client gets an error, is not read from, or is closed."""

    drain_ms_max: int = duration(
        "server", 5_000, "How long a stopping broker lets requests in flight finish.", high=INT32_MAX
    )
    connections_max: int = count(
        "limits",
        5_000,
        "Connections in all; one more is closed at once.",
        low=1,
        high=INT32_MAX,
        aliases=("max_connections",),
        kafka="max.connections",
    )
    connections_per_address_max: int = count(
        "limits",
        5_000,
        "Connections from one client address.",
        low=1,
        high=INT32_MAX,
        kafka="max.connections.per.ip",
    )
    frame_bytes_max: int = size(
        "limits",
        100 * _MIB,
        "The largest request; a connection that announces more is closed.",
        low=1_024,
        high=INT32_MAX,
        kafka="socket.request.max.bytes",
    )
    frame_ms_max: int = duration(
        "limits",
        60_000,
        "A request that is not complete this long after its first bytes ends its connection.",
        low=1,
        high=INT32_MAX,
    )
    inflight_bytes_max: int = size(
        "limits",
        256 * _MIB,
        "Bytes of requests being worked on over all connections; beyond it, clients are not read from.",
        low=1_024,
        kafka="queued.max.request.bytes",
    )
    requests_in_flight_max: int = count(
        "limits",
        1_000,
        "Requests being worked on for one connection; beyond it, that client is not read from.",
        low=1,
        high=INT32_MAX,
    )
    response_queue_bytes_max: int = size(
        "limits",
        64 * _MIB,
        "Responses that may wait for one slow reader; beyond it, that client is not read from.",
        low=1_024,
    )
    idle_ms_max: int = duration(
        "limits",
        600_000,
        "A connection silent for longer than this is closed.",
        low=1,
        kafka="connections.max.idle.ms",
    )
    socket_receive_bytes: int = size(
        "limits",
        0,
        "Receive buffer of each socket; 0: what the system gives.",
        high=INT32_MAX,
        kafka="socket.receive.buffer.bytes",
    )
    socket_send_bytes: int = size(
        "limits",
        0,
        "Send buffer of each socket; 0: what the system gives.",
        high=INT32_MAX,
        kafka="socket.send.buffer.bytes",
    )
