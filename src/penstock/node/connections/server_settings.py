"""Settings of the node's addresses and identity. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.node.definitions.definition import (
    INT32_MAX,
    SettingKind,
    count_setting,
    define_setting,
    port_setting,
)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class ServerSettings:
    """Listening addresses, advertised address, and node id."""

    host: str = define_setting(
        SettingKind.HOST,
        "server",
        "127.0.0.1",
        "Address to listen on. The default is loopback only, because clients are not authenticated.",
    )
    port: int = count_setting(
        "server",
        9092,
        "Port of the Kafka protocol; 0 picks a free port.",
        high=65535,
        aliases=("broker.base_port",),
    )
    text_port: int | None = port_setting(9081, "text")
    json_port: int | None = port_setting(9082, "JSON")
    queue_port: int | None = port_setting(9999, "queue")
    http_port: int | None = port_setting(9080, "HTTP")
    http_cors_origins: str = define_setting(
        SettingKind.TEXT,
        "server",
        "",
        "Origins of web pages that may call the HTTP API from a browser, such as https://app.example.com, or * for all;"
        " empty: none.",
        may_be_empty=True,
    )
    http_allowed_hosts: str = define_setting(
        SettingKind.TEXT,
        "server",
        "",
        "Additional host names accepted by the HTTP API, such as penstock.internal, .internal for all names below it,"
        " or * for any. Always accepted: IP addresses, localhost, host and advertised_host.",
        may_be_empty=True,
    )
    advertised_host: str = define_setting(
        SettingKind.HOST,
        "server",
        "",
        "Address that clients are told to connect to; empty: the listening address, or the address of this machine "
        "when listening on all addresses.",
        may_be_empty=True,
    )
    advertised_port: int = count_setting(
        "server", 0, "Port that clients are told to connect to; 0: the listening port.", high=65535
    )
    node_id: int = count_setting(
        "server",
        0,
        "Id of this broker.",
        high=INT32_MAX,
        aliases=("broker_id", "broker.id"),
        kafka="node.id",
    )
