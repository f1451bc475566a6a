"""Settings of the node's addresses and identity. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.node.definitions.definition import INT32_MAX, Kind, count, port_of, setting


@dataclass(frozen=True, init=False, repr=False, eq=False)
class ServerSettings:
    """Where the node listens, what it tells clients, and who it is."""

    host: str = setting(
        Kind.HOST,
        "server",
        "127.0.0.1",
        "Address to listen on. Anything but loopback must be asked for: clients are not authenticated.",
    )
    port: int = count(
        "server",
        9092,
        "Port of the Kafka door; 0 takes a free one.",
        high=65535,
        aliases=("broker.base_port",),
    )
    text_port: int | None = port_of(9081, "text")
    json_port: int | None = port_of(9082, "JSON")
    queue_port: int | None = port_of(9999, "queue")
    http_port: int | None = port_of(9080, "HTTP")
    http_cors_origins: str = setting(
        Kind.TEXT,
        "server",
        "",
        "Origins of web pages that may use the HTTP door from a browser, such as https://app.example.com, or * for all;"
        " empty: none.",
        may_be_empty=True,
    )
    http_allowed_hosts: str = setting(
        Kind.TEXT,
        "server",
        "",
        "Further host names by which clients may address the HTTP door, such as penstock.internal, or .internal for all"
        " names below it, or * for any. Always accepted: IP addresses, localhost, host and advertised_host.",
        may_be_empty=True,
    )
    advertised_host: str = setting(
        Kind.HOST,
        "server",
        "",
        "Address that clients are told to connect to; empty: the listening address, or this machine's own "
        "address when listening on all.",
        may_be_empty=True,
    )
    advertised_port: int = count(
        "server", 0, "Port that clients are told to connect to; 0: the listening port.", high=65535
    )
    node_id: int = count(
        "server",
        0,
        "Number of this broker.",
        high=INT32_MAX,
        aliases=("broker_id", "broker.id"),
        kafka="node.id",
    )
