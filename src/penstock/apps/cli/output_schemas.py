"""The schemas of `-o json` and `-o yaml`, by command. They are stable: fields may be added, none changes or goes.

Notation: `string?` may be null; `name?:` may be absent; `...` stands for further fields, which may change; `*` is any
name; `LINES OF` is one object per line in JSON, one document each in YAML; `|` separates forms, which the comment
tells apart. `make docs` writes them to docs/cli-output.md; tests compare them with what commands print.
"""

from __future__ import annotations

_RECORD = (
    "LINES OF {topic: string, partition: integer, offset: integer, timestamp_ms: integer, key?: string?,"
    " key_base64?: string, value?: any, value_base64?: string, headers: [{name: string, value?: string?,"
    " value_base64?: string}]}"
)
_BROKER = (
    "{id: integer, addresses: {*: string}, rack: string?, epoch: integer?, fenced: boolean, stopping: boolean?,"
    " draining: boolean?, session_alive: boolean?, leaders: integer, replicas: integer}"
)
_OVERVIEW = (
    "cluster_id: string, broker: integer?, controller: integer?, controller_epoch: integer?, metadata_index: integer?,"
    " partitions: integer, offline_partitions: integer, under_replicated_partitions: integer,"
    f" under_min_isr_partitions: integer?, brokers: [{_BROKER}], source: string"
)
_PLACED = (
    "{topic: string, partition: integer, leader: integer?, leader_epoch: integer, partition_epoch: integer?,"
    " replicas: [integer], isr: [integer], min_isr: integer?, elr: [integer]?, last_known_elr: [integer]?,"
    " offline: [integer], adding: [integer]?, removing: [integer]?}"
)
_MOVES = (
    "{started: boolean, moves: [{topic: string, partition: integer, from: [integer], to: [integer], ...}],"
    " bytes?: integer}"
)
_SCRUB = (
    "{running: boolean, scrubbed_bytes: integer, differences: integer, repairs: integer, brokers: [{id: integer, ...}],"
    " partial?: boolean}"
)
_CONSOLE = "{...} | [any]"
_BENCH = "{messages_per_s: number, mb_per_s: number, seconds: number, ...}"
_PER_TOPIC = "records_in_per_s: number, bytes_in_per_s: number, bytes_out_per_s: number"

_CERTIFICATE = (
    "subject: string, issuer: string, serial: string, not_before: string, not_after: string, hosts: [string]"
)

SCHEMAS = {
    "stop": (
        "{pid: integer?, stopped: boolean} | [{name: string, pid: integer, outcome: string}]",
        "the second for a local cluster",
    ),
    "status": (
        "{cluster_id: string, controller: integer?, brokers: [{id: integer, state: string, kafka: string?,"
        " http: string?, leaders: integer, replicas: integer}], topics: integer, partitions: integer,"
        " records: integer?, bytes: integer?, groups: integer?, lag: integer?, problems: [string], source: string}",
        "null where a broker that is gone would know",
    ),
    "top": (
        "LINES OF {seconds: number, brokers: [{id: integer, cpu_percent: number, memory_bytes: integer,"
        " connections: integer, requests_per_s: number, bytes_in_per_s: number, bytes_out_per_s: number,"
        f" fsync_ms: number?}}], topics: [{{topic: string, {_PER_TOPIC}, records: integer, bytes: integer}}],"
        " groups: [{group: string, lag: integer, lag_change_per_s: number}]} | LINES OF {error: string}",
        "the second while no broker answers",
    ),
    "doctor": (
        "[{check: string, status: string, found: string, remedy: string}]",
        "status is ok, warning or failed",
    ),
    "health": (
        "{status: string, offline_partitions: [string], reason?: string, session_alive?: boolean}",
        "as `GET /readyz`",
    ),
    "config explain": (
        "[{name: string, section: string, scope: string, value: any, source: string, default: any, unit: string?,"
        " allowed: string, meaning: string, flag: string, variable: string, kafka: string?}]",
        "",
    ),
    "cluster status": (
        f"{{{_OVERVIEW}, scrub_differences?: integer, services?: [any]}}",
        "source is http or kafka",
    ),
    "cluster brokers": (f"{{{_OVERVIEW}}}", ""),
    "cluster topics": (f"{{partitions: [{_PLACED}], source: string}}", ""),
    "cluster ring": (
        "{vnodes: integer, slack_percent: integer, leaders_max: integer, replicas_max: integer, brokers: [{id: integer,"
        " rack: string, share: number, leaders: integer, replicas: integer, takes_replicas: boolean}], source: string}",
        "",
    ),
    "cluster gossip": (
        "{broker: integer, on: boolean, health: integer, controller: integer?, peers: [{id: integer, state: string,"
        " incarnation: integer, address: string, attributes: {*: any}}], source: string}",
        "",
    ),
    "cluster controller": ("{controller: integer?, epoch: integer?, address: string?, source: string}", ""),
    "cluster rebalance": (_MOVES, ""),
    "cluster drain": (f"{_MOVES} | {{broker: integer, draining: boolean}}", "the second with --undo"),
    "cluster decommission": ("{broker: integer, state: string}", "state is empty or removed"),
    "cluster moves": (
        "{moves: [{topic: string, partition: integer, ...}], source?: string} | {cancelled: integer}",
        "the second with --cancel",
    ),
    "cluster elect": ("{...}", "as `POST /api/v1/cluster/elections`"),
    "cluster reassign": (_MOVES, ""),
    "cluster scrub": (_SCRUB, ""),
    "cluster down": ("[{name: string, pid: integer, outcome: string}]", ""),
    "cluster services": (_CONSOLE, "as the coordinator's console with `--json`; see docs/coordinator.md"),
    "cluster broker": (_CONSOLE, "the same"),
    "cluster producer": (_CONSOLE, "the same"),
    "cluster consumer": (_CONSOLE, "the same"),
    "cluster metadata": (_CONSOLE, "the same"),
    "cluster kill": (_CONSOLE, "the same"),
    "cluster restart": (_CONSOLE, "the same"),
    "cluster leaders": (_CONSOLE, "the same"),
    "cluster lag": (_CONSOLE, "the same"),
    "cluster logs": (_CONSOLE, "the same"),
    "pub": (
        "{topic: string, partition: integer, offset: integer?} | {topic: string, records: integer, bytes: integer,"
        " failed: integer, seconds: number, offsets: {*: [integer]}}",
        "the second for records from stdin, with the first and last offset of each partition",
    ),
    "sub": (
        _RECORD,
        "value is text, null, or with --jq, --avro and --pretty what was decoded; bytes that are not UTF-8 are in"
        " key_base64 and value_base64",
    ),
    "sql": ("LINES OF {*: any}", "one row each"),
    "topic create": ("[{topic: string, created: boolean, warnings?: [string]}]", ""),
    "topic list": (
        "[{topic: string, partitions: integer, replicas: integer, records: integer?, bytes: integer?}]",
        "bytes of one copy",
    ),
    "topic trim": (
        "[{topic: string, partition: integer, before: integer, after: integer, records: integer, done: boolean}]",
        "before and after are first offsets",
    ),
    "topic describe": (
        "[{topic: string, partitions: [{partition: integer, leader: integer, replicas: [integer], in_sync: [integer],"
        " start_offset: integer, end_offset: integer, records: integer, elr: [integer]?, last_known_elr: [integer]?}],"
        " configs: [{name: string, value: string, source: string}]}]",
        "",
    ),
    "topic alter": ("[{topic: string, set: {*: string}, deleted: [string]}]", ""),
    "topic delete": ("[{topic: string, deleted: boolean}]", ""),
    "topic add-partitions": ("[{topic: string, partitions: integer}]", ""),
    "group list": ("[{group: string, kind: string, state: string}]", ""),
    "group describe": (
        "{group: string, kind: string, state: string, assignor: string, members: [{member: string, client: string,"
        " host: string, partitions: [string]}]}",
        "",
    ),
    "group lag": (
        "[{topic: string, partition: integer, committed: integer?, end: integer, lag: integer, seconds: number?}]"
        " | [{group: string, kind: string, state: string, topics: [string], partitions: integer, lag: integer?}]",
        "the first for exactly one GROUP",
    ),
    "group seek": (
        "[{topic: string, partition: integer, before: integer?, after: integer, done: boolean}]",
        "",
    ),
    "group delete": ("LINES OF {group: string, deleted: boolean}", ""),
    "txn list": ("[{transactional_id: string, producer_id: integer, state: string}]", ""),
    "txn describe": (
        "[{transactional_id: string, producer_id: integer, producer_epoch: integer, state: string, timeout_ms: integer,"
        " started_ms: integer, partitions: {*: [integer]}}]",
        "",
    ),
    "txn abort": (
        "[{transactional_id: string, producer_id: integer, aborted: boolean}] | [{topic: string, partition: integer,"
        " producer_id: integer, producer_epoch: integer, coordinator_epoch: integer, start_offset: integer}]",
        "the second with --topic",
    ),
    "log verify": (
        "LINES OF {topic?: string, partition?: integer, severity: string, path: string, message: string}",
        "one line per finding",
    ),
    "log dump": (
        "LINES OF {topic?: string, partition?: integer, path: string, position: integer, error?: string,"
        " records?: [{offset: integer, timestamp_ms: integer, key: string?, value: string?, headers: [any], ...}],"
        " ...}",
        "one line per batch, with the fields of its header",
    ),
    "create-topic": ("{topic: string, created: boolean}", ""),
    "create-subscription": ("{subscription: string, topic: string, created: boolean}", ""),
    "publish": ("{topic: string, offset: integer}", ""),
    "join-subscription": (_RECORD, ""),
    "subscribe": (_RECORD, ""),
    "subscription list": (
        "[{name: string, topic: string, hold_ms: integer, max_deliveries: integer, ...}]",
        "",
    ),
    "subscription describe": (
        "{name: string, topic: string, hold_ms: integer, max_deliveries: integer, dead_letter_topic: string,"
        " partitions: [{partition: integer, settled_offset: integer, end_offset: integer, unsettled_count: integer,"
        " held_count: integer, dying_count: integer}], members: [{id: string, window: integer, held: integer, ...}],"
        " ...}",
        "",
    ),
    "subscription redrive": ("{subscription: string, redriven: integer}", ""),
    "subscription delete": ("{subscription: string, deleted: boolean}", ""),
    "bench produce": (_BENCH, "with the percentiles of the latency"),
    "bench consume": (_BENCH, ""),
    "bench e2e": (_BENCH, ""),
    "bench queue": (_BENCH, ""),
    "pipeline init": ("{written: [string]}", ""),
    "pipeline validate": ("{file: string, pipelines: [string], notes: [string]}", ""),
    "pipeline list": ("[{name: string, kind: string, from: string, to: string}]", ""),
    "pipeline status": (
        "[{pipeline: string, state: string, batch: integer, rows: integer, rows_total: integer, rows_per_s: number,"
        " batch_ms: integer, lag: {*: integer}, state_rows: integer, state_bytes: integer, watermark: string,"
        " error: string, failed_at: string, restarts: integer, since: string}]",
        "",
    ),
    "pipeline compact": (
        "{pipeline: string, files_before: integer, files_after: integer, rows_expired: integer, files_removed: integer,"
        " ...}",
        "",
    ),
    "pipeline replay": ("{pipeline: string, topic: string, offsets: integer}", ""),
    "pipeline redrive": ("{pipeline: string, sent: boolean, rows: integer, by_reason: {*: integer}}", ""),
    "profile add": ("{profile: string, outcome: string}", "outcome is added"),
    "profile list": (
        "[{name: string, default: boolean, bootstrap: string?, security: string, user: string?}]",
        "",
    ),
    "profile show": ("{name: string, ...}", "the options of the profile; secrets are hidden"),
    "profile use": ("{profile: string?, outcome: string}", "outcome is used; profile is null with --none"),
    "profile remove": ("{profile: string, outcome: string}", "outcome is removed"),
    "security init": (
        f"{{directory: string, files: {{*: string}}, certificates: {{*: {{{_CERTIFICATE}}}}}, clients: {{*: string}}}}",
        "clients has the configuration of each client as text",
    ),
    "security check": (
        f"{{chain: [{{{_CERTIFICATE}, days_left: integer}}], authorities: [{{{_CERTIFICATE}}}]}}",
        "",
    ),
}
"""The schema of each command's output, and a remark."""
