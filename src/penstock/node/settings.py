"""Every setting of a node, defined once: name, default, bounds, unit, meaning. Never reads a file.

`settings_loader` does that. Flags, file keys, `penstock config explain` and docs/settings.md derive from here.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields

from penstock.core.limits import PARTITIONS_PER_TOPIC_MAX, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN
from penstock.core.model import Durability, Storage
from penstock.node.definition import Definition, Kind, count, duration, port_of, setting, size
from penstock.node.log_choices import LogFormat, LogLevel

_GIB = 2**30
_MIB = 2**20
_DAY_MS = 86_400_000
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one node. Every value is valid by the time one of these exists outside of tests."""

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
        high=_INT32_MAX,
        aliases=("broker_id", "broker.id"),
        kafka="node.id",
    )
    drain_ms_max: int = duration(
        "server", 5_000, "How long a stopping broker lets requests in flight finish.", high=_INT32_MAX
    )

    data_dir: str = setting(
        Kind.TEXT,
        "storage",
        "./penstock-data",
        "Directory of all topics, private to the user that runs the broker (directories 0700, files 0600). A relative"
        " path starts where the broker was started.",
        aliases=("log_dir", "storage.dir", "storage.path"),
        kafka="log.dirs",
    )
    storage: Storage = setting(
        Kind.CHOICE,
        "storage",
        Storage.DISK,
        "Keep the log on disk, or in memory only: then a restart forgets everything.",
        choices=Storage,
        aliases=("storage.type",),
    )
    durability: Durability = setting(
        Kind.CHOICE,
        "storage",
        Durability.FSYNC,
        "When a record counts as kept: after fdatasync, flushed at intervals, or handed to the operating "
        "system. Topics may differ.",
        choices=Durability,
        kafka="penstock.durability",
    )
    flush_interval_ms: int = duration(
        "storage",
        1_000,
        "With durability `interval`: flush at least this often.",
        low=1,
        kafka="log.flush.interval.ms",
    )
    flush_messages: int = count(
        "storage",
        0,
        "With durability `interval`: flush also after this many records; 0: never by count.",
        kafka="log.flush.interval.messages",
    )
    segment_bytes: int = size(
        "storage",
        _GIB,
        "A segment that would grow beyond this is closed and the next one started.",
        low=SEGMENT_BYTES_MIN,
        high=SEGMENT_BYTES_MAX,
        kafka="log.segment.bytes",
    )
    segment_ms: int = duration(
        "storage",
        7 * _DAY_MS,
        "A segment whose first record is older than this is closed.",
        low=1,
        kafka="log.roll.ms",
    )
    index_interval_bytes: int = size(
        "storage",
        4_096,
        "Bytes of log between two entries of a segment's index.",
        high=_INT32_MAX,
        kafka="log.index.interval.bytes",
    )
    retention_ms: int = duration(
        "storage",
        7 * _DAY_MS,
        "Closed segments whose newest record is older than this are deleted; -1: kept forever.",
        special=-1,
        kafka="log.retention.ms",
    )
    retention_bytes: int = size(
        "storage",
        -1,
        "A partition larger than this loses its oldest segments; -1: no limit.",
        special=-1,
        kafka="log.retention.bytes",
    )
    retention_check_ms: int = duration(
        "storage",
        30_000,
        "How often retention is looked at.",
        low=1,
        kafka="log.retention.check.interval.ms",
    )
    compaction_check_ms: int = duration(
        "storage",
        15_000,
        "How often compacted topics are looked at.",
        low=1,
        kafka="log.cleaner.backoff.ms",
    )
    delete_retention_ms: int = duration(
        "storage",
        _DAY_MS,
        "How long a compacted topic keeps a tombstone.",
        kafka="log.cleaner.delete.retention.ms",
    )
    checkpoint_interval_ms: int = duration(
        "storage",
        5_000,
        "How often recovery points are written; the work of a start after a crash grows with it.",
        low=1,
        kafka="log.flush.offset.checkpoint.interval.ms",
    )
    producer_expiry_ms: int = duration(
        "storage",
        _DAY_MS,
        "How long the sequence numbers of a silent producer are remembered.",
        low=1,
        high=_INT32_MAX,
        kafka="producer.id.expiration.ms",
    )
    open_files_max: int = count(
        "storage", 4_096, "Files of the log held open at once; the least used are closed first.", low=16
    )
    flush_threads: int = count("storage", 4, "Threads that wait for fdatasync.", low=1, high=256)

    auto_create_topics: bool = setting(
        Kind.SWITCH,
        "topics",
        True,
        "Create a topic when a client first asks for it.",
        aliases=("topic_auto_create", "topics.auto_create"),
        kafka="auto.create.topics.enable",
    )
    default_partitions: int = count(
        "topics",
        1,
        "Partitions of a topic that is created without saying how many.",
        low=1,
        high=PARTITIONS_PER_TOPIC_MAX,
        kafka="num.partitions",
    )
    message_bytes_max: int = size(
        "topics",
        1_048_588,
        "The largest batch that a topic accepts, unless the topic says otherwise.",
        high=_INT32_MAX,
        aliases=("max_message_size",),
        kafka="message.max.bytes",
    )

    group_session_ms_min: int = duration(
        "groups",
        6_000,
        "The shortest session that a member of a classic group may ask for.",
        low=1,
        high=_INT32_MAX,
        kafka="group.min.session.timeout.ms",
    )
    group_session_ms_max: int = duration(
        "groups",
        1_800_000,
        "The longest session that a member of a classic group may ask for.",
        low=1,
        high=_INT32_MAX,
        kafka="group.max.session.timeout.ms",
    )
    group_initial_rebalance_ms: int = duration(
        "groups",
        150,
        "How long a classic group that was empty waits for more members, counted from the last one that joined.",
        high=_INT32_MAX,
        kafka="group.initial.rebalance.delay.ms",
    )
    group_initial_rebalance_static_ms: int = duration(
        "groups",
        1_000,
        "The same once a static member (group.instance.id) has joined; the longer of the two counts.",
        high=_INT32_MAX,
    )
    group_size_max: int = count(
        "groups",
        10_000,
        "Members of one group.",
        low=1,
        high=_INT32_MAX,
        kafka="group.max.size",
    )
    consumer_group_session_ms: int = duration(
        "groups",
        45_000,
        "How long a member of a consumer group (the protocol in which the broker assigns) may be silent.",
        low=1,
        high=_INT32_MAX,
        kafka="group.consumer.session.timeout.ms",
    )
    consumer_group_heartbeat_ms: int = duration(
        "groups",
        5_000,
        "How often members of consumer groups are told to send a heartbeat; changes reach them with the next one.",
        low=1,
        high=_INT32_MAX,
        kafka="group.consumer.heartbeat.interval.ms",
    )
    group_topic_partitions: int = count(
        "groups",
        8,
        "Partitions of the topic that keeps groups and offsets; counts when it is first made.",
        low=1,
        high=PARTITIONS_PER_TOPIC_MAX,
        kafka="offsets.topic.num.partitions",
    )
    offsets_retention_ms: int = duration(
        "groups",
        7 * _DAY_MS,
        "How long offsets are kept after their group has become empty, or after the commit if it never had members.",
        low=1,
    )
    offsets_check_ms: int = duration(
        "groups",
        600_000,
        "How often offsets and empty groups are looked over for what may go.",
        low=1,
        kafka="offsets.retention.check.interval.ms",
    )

    transaction_topic_partitions: int = count(
        "transactions",
        8,
        "Partitions of the topic that keeps transactional ids; counts when it is first made.",
        low=1,
        high=PARTITIONS_PER_TOPIC_MAX,
        kafka="transaction.state.log.num.partitions",
    )
    transaction_ms_max: int = duration(
        "transactions",
        900_000,
        "The longest that a producer may ask for its transactions to stay open.",
        low=1,
        high=_INT32_MAX,
        kafka="transaction.max.timeout.ms",
    )
    transaction_check_ms: int = duration(
        "transactions",
        1_000,
        "How often transactions are looked over for those that took too long; they are aborted.",
        low=1,
        high=_INT32_MAX,
        kafka="transaction.abort.timed.out.transaction.cleanup.interval.ms",
    )
    transactional_id_expiry_ms: int = duration(
        "transactions",
        7 * _DAY_MS,
        "How long a transactional id is remembered that nobody uses.",
        low=1,
        kafka="transactional.id.expiration.ms",
    )
    transaction_version: int = count(
        "transactions",
        2,
        "The newest transaction protocol that clients are told of; 2 fences late requests of each transaction.",
        high=2,
    )

    subscription_hold_ms: int = duration(
        "subscriptions", 30_000, "How long a member may hold a message, by default.", low=1, high=_INT32_MAX
    )
    subscription_deliveries_max: int = count(
        "subscriptions",
        5,
        "Deliveries of a message before it is a dead letter, by default.",
        low=1,
        high=_INT32_MAX,
    )
    subscription_window_max: int = count(
        "subscriptions",
        1_000,
        "The most messages that one member may hold at a time.",
        low=1,
        high=_INT32_MAX,
    )
    subscription_heartbeat_ms: int = duration(
        "subscriptions", 30_000, "Members give a sign of life this often; silent three times as long, they are gone.",
        low=1, high=_INT32_MAX,
    )  # fmt: skip

    connections_max: int = count(
        "limits",
        5_000,
        "Connections in all; one more is closed at once.",
        low=1,
        high=_INT32_MAX,
        aliases=("max_connections",),
        kafka="max.connections",
    )
    connections_per_address_max: int = count(
        "limits",
        5_000,
        "Connections from one client address.",
        low=1,
        high=_INT32_MAX,
        kafka="max.connections.per.ip",
    )
    frame_bytes_max: int = size(
        "limits",
        100 * _MIB,
        "The largest request; a connection that announces more is closed.",
        low=1_024,
        high=_INT32_MAX,
        kafka="socket.request.max.bytes",
    )
    frame_ms_max: int = duration(
        "limits",
        60_000,
        "A request that is not complete this long after its first bytes ends its connection.",
        low=1,
        high=_INT32_MAX,
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
        high=_INT32_MAX,
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
        high=_INT32_MAX,
        kafka="socket.receive.buffer.bytes",
    )
    socket_send_bytes: int = size(
        "limits",
        0,
        "Send buffer of each socket; 0: what the system gives.",
        high=_INT32_MAX,
        kafka="socket.send.buffer.bytes",
    )

    log_level: LogLevel = setting(
        Kind.CHOICE,
        "logging",
        LogLevel.INFO,
        "The least important message still written.",
        choices=LogLevel,
        aliases=("logging.level",),
    )
    log_format: LogFormat = setting(
        Kind.CHOICE,
        "logging",
        LogFormat.TEXT,
        "Lines for people, or one JSON object per line.",
        choices=LogFormat,
        aliases=("logging.format",),
    )


SECTIONS = {
    "server": "Addresses and identity",
    "storage": "The log on disk",
    "topics": "Topics",
    "groups": "Consumer groups and their offsets",
    "transactions": "Transactions",
    "subscriptions": "Subscriptions of the queue door",
    "limits": "Limits per client and in all",
    "logging": "What the broker says about itself",
}
"""Sections of the definition in the order in which help and docs show them."""


def _definitions() -> tuple[Definition, ...]:
    found = []
    for entry in fields(Settings):
        assert entry.default is not MISSING, entry.name
        found.append(Definition(name=entry.name, default=entry.default, **entry.metadata))
    return tuple(found)


DEFINITIONS = _definitions()
DEFINITION_OF = {definition.name: definition for definition in DEFINITIONS}
