"""JSON Schemas of request and response bodies, shown by /openapi.json. Data only."""

from __future__ import annotations

from penstock.core.limits import ADMIN_ENTRIES_MAX, BROKER_ID_MAX, PARTITIONS_PER_TOPIC_MAX
from penstock.doors.http.messages import BATCH_MESSAGES_MAX
from penstock.doors.http.placement import FACTOR_MAX, KINDS
from penstock.doors.http.schema_parts import (
    COUNT,
    FLAG,
    PARTIAL,
    PARTITION,
    REFUSAL,
    TEXT,
    TOPIC,
    Schema,
    closed_object,
    list_of,
)
from penstock.wire.http.messages import TIMESTAMP_MS_MAX

_BASE64_PATTERN = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"

_BASE64: Schema = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": _BASE64_PATTERN,
}
_PARTITIONS: Schema = {"type": "integer", "minimum": 1, "maximum": PARTITIONS_PER_TOPIC_MAX}
_HEADER: Schema = {
    "oneOf": [
        {"type": ["string", "null"]},
        {
            "type": "object",
            "properties": {"base64": _BASE64},
            "required": ["base64"],
            "additionalProperties": False,
        },
    ]
}
_HEADERS: Schema = {
    "type": "object",
    "additionalProperties": {"oneOf": [*_HEADER["oneOf"], {"type": "array", "items": _HEADER}]},
    "description": "The value of a header is text, null or base64; a repeated name has a list.",
}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_NEW_CONTENT: Schema = {
    "key": {
        "type": ["string", "null"],
        "description": "Equal keys go to the same partition, as with Kafka clients.",
    },
    "key_base64": _BASE64,
    "value": {
        "description": "Text is stored as UTF-8, null is a tombstone, anything else is stored as compact JSON."
    },
    "value_base64": _BASE64,
    "headers": _HEADERS,
    "timestamp_ms": {"type": "integer", "minimum": 0, "maximum": TIMESTAMP_MS_MAX},
}
_ONE_VALUE: Schema = {
    "oneOf": [{"required": ["value"]}, {"required": ["value_base64"]}],
    "not": {"required": ["key", "key_base64"]},
}
_PLACE: Schema = {"partition": COUNT, "offset": COUNT}
_COUNT_OR_NULL: Schema = {"type": ["integer", "null"], "minimum": 0}
_TEXTS: Schema = {"type": "object", "additionalProperties": TEXT}
_BROKER_OR_NULL: Schema = {"type": ["integer", "null"], "minimum": 0}
_CONFIGS = _TEXTS

_FACTOR: Schema = {"type": "integer", "minimum": 1, "maximum": FACTOR_MAX}
_NAMED: Schema = {"topic": TOPIC, "partition": PARTITION}
_MOVE: Schema = {"topic": TEXT, "partition": COUNT, "from": list_of(COUNT), "to": list_of(COUNT)}
_KNOWN_HERE: Schema = {
    "type": ["integer", "null"],
    "description": "null on brokers that do not take part in the move; copies are known to the brokers in `to`.",
}

SCHEMAS: dict[str, Schema] = {
    "Problem": closed_object({"type": TEXT, "title": TEXT, "status": {"type": "integer"}, **REFUSAL}),
    "NewMessage": {
        **closed_object({"topic": TOPIC, "partition": PARTITION, **_NEW_CONTENT}, ["topic"]),
        **_ONE_VALUE,
    },
    "NewBatchMessage": {**closed_object(_NEW_CONTENT, []), **_ONE_VALUE},
    "NewBatch": closed_object(
        {
            "topic": TOPIC,
            "partition": PARTITION,
            "messages": list_of(_ref("NewBatchMessage"), minItems=1, maxItems=BATCH_MESSAGES_MAX),
        },
        ["topic", "messages"],
    ),
    "Published": closed_object({"topic": TEXT, **_PLACE}),
    "PublishedBatch": closed_object(
        {
            "topic": TEXT,
            "failed": COUNT,
            "results": list_of({"oneOf": [closed_object(_PLACE), closed_object(REFUSAL)]}),
        }
    ),
    "Message": closed_object(
        {
            "offset": COUNT,
            "timestamp_ms": {"type": "integer"},
            "key": {"type": ["string", "null"]},
            "key_base64": _BASE64,
            "value": {},
            "value_base64": _BASE64,
            "headers": _HEADERS,
        },
        ["offset", "timestamp_ms", "headers"],
    ),
    "Messages": closed_object(
        {
            "topic": TEXT,
            "partition": COUNT,
            "messages": list_of(_ref("Message")),
            "next_offset": COUNT,
            "start_offset": COUNT,
            "end_offset": COUNT,
        }
    ),
    "Topics": closed_object(
        {"topics": list_of(closed_object({"name": TEXT, "partitions": COUNT, "internal": FLAG}))}
    ),
    "NewTopic": closed_object(
        {
            "name": TOPIC,
            "partitions": _PARTITIONS,
            "replication_factor": {
                **_FACTOR,
                "description": "At most as many as there are brokers; the cluster's default if it is absent.",
            },
            "configs": _CONFIGS,
        },
        ["name"],
    ),
    "TopicChange": closed_object(
        {
            "partitions": {
                **_PARTITIONS,
                "description": "More than the current number; partitions cannot be removed.",
            },
            "configs": {
                "type": "object",
                "additionalProperties": {"type": ["string", "null"]},
                "description": "Settings that are not named stay unchanged; null resets one to its default.",
            },
        },
        [],
    ),
    "Topic": closed_object(
        {
            "name": TEXT,
            "id": TEXT,
            "internal": FLAG,
            "partitions": list_of(
                closed_object(
                    {
                        "partition": COUNT,
                        "start_offset": _COUNT_OR_NULL,
                        "end_offset": _COUNT_OR_NULL,
                        "stable_offset": _COUNT_OR_NULL,
                        "bytes": _COUNT_OR_NULL,
                        "online": FLAG,
                        "error": closed_object(REFUSAL),
                    },
                    ["partition", "start_offset", "end_offset", "stable_offset", "bytes", "online"],
                )
            ),
            "configs": _CONFIGS,
            "partial": PARTIAL,
        },
        ["name", "id", "internal", "partitions", "configs"],
    ),
    "Groups": closed_object(
        {
            "groups": list_of(closed_object({"group": TEXT, "kind": TEXT, "state": TEXT})),
            "partial": PARTIAL,
            "errors": list_of(closed_object(REFUSAL)),
        },
        ["groups"],
    ),
    "Group": closed_object(
        {
            "group": TEXT,
            "kind": TEXT,
            "state": TEXT,
            "members": list_of(
                closed_object(
                    {
                        "member": TEXT,
                        "client_id": TEXT,
                        "host": TEXT,
                        "partitions": list_of(closed_object({"topic": TEXT, "partition": COUNT})),
                    }
                )
            ),
        }
    ),
    "Lag": closed_object(
        {
            "group": TEXT,
            "lag": COUNT,
            "partitions": list_of(
                closed_object(
                    {
                        "topic": TEXT,
                        "partition": COUNT,
                        "committed_offset": {"type": ["integer", "null"]},
                        "end_offset": _COUNT_OR_NULL,
                        "lag": _COUNT_OR_NULL,
                        "error": closed_object(REFUSAL),
                    },
                    ["topic", "partition", "committed_offset", "end_offset", "lag"],
                )
            ),
            "partial": PARTIAL,
        },
        ["group", "lag", "partitions"],
    ),
    "NewElection": closed_object(
        {
            "kind": {
                "type": "string",
                "enum": list(KINDS),
                "default": "preferred",
                "description": "`unclean` elects any replica of a partition without a leader: records that only others"
                " have are lost.",
            },
            "partitions": list_of(
                closed_object(_NAMED, ["topic"]),
                minItems=1,
                maxItems=ADMIN_ENTRIES_MAX,
                description="Without it: all partitions that need such an election.",
            ),
        },
        [],
    ),
    "Elections": closed_object(
        {
            "kind": TEXT,
            "failed": COUNT,
            "elections": list_of(
                closed_object(
                    {
                        "topic": TEXT,
                        "partition": COUNT,
                        "elected": {**FLAG, "description": "false if it has the wanted leader, or failed."},
                        "leader": _BROKER_OR_NULL,
                        "error": closed_object(REFUSAL),
                    },
                    ["topic", "partition", "elected"],
                )
            ),
        }
    ),
    "NewReassignments": closed_object(
        {
            "reassignments": list_of(
                {
                    **closed_object(
                        {
                            **_NAMED,
                            "replicas": list_of(
                                {"type": "integer", "minimum": 0, "maximum": BROKER_ID_MAX},
                                minItems=1,
                                maxItems=FACTOR_MAX,
                                description="Broker ids, the preferred leader first.",
                            ),
                            "replication_factor": {
                                **_FACTOR,
                                "description": "Brokers are chosen; present replicas stay as far as they can.",
                            },
                            "cancel": {"type": "boolean", "enum": [True]},
                        },
                        ["topic"],
                    ),
                    "oneOf": [
                        {"required": ["replicas"]},
                        {"required": ["replication_factor"]},
                        {"required": ["cancel"]},
                    ],
                },
                minItems=1,
                maxItems=ADMIN_ENTRIES_MAX,
                description="All of them take effect, or none. Without `partition`: all partitions of the topic.",
            )
        }
    ),
    "PlannedMoves": closed_object({"started": FLAG, "moves": list_of(closed_object(_MOVE))}),
    "Moves": closed_object(
        {
            "moves": list_of(
                closed_object(
                    {
                        **_MOVE,
                        "leader": _BROKER_OR_NULL,
                        "copying": {"type": ["boolean", "null"]},
                        "copied_bytes": _KNOWN_HERE,
                        "left_bytes": _KNOWN_HERE,
                        "bytes_per_s": _KNOWN_HERE,
                    }
                )
            )
        }
    ),
    "Cluster": closed_object(
        {
            "cluster_id": TEXT,
            "broker": {**COUNT, "description": "The broker that answers."},
            "controller": _BROKER_OR_NULL,
            "controller_epoch": COUNT,
            "metadata_index": COUNT,
            "partitions": COUNT,
            **dict.fromkeys(
                ("offline_partitions", "under_replicated_partitions", "under_min_isr_partitions"), COUNT
            ),
            "brokers": list_of(
                closed_object(
                    {
                        "id": COUNT,
                        "addresses": _TEXTS,
                        "rack": TEXT,
                        "epoch": COUNT,
                        "fenced": FLAG,
                        "stopping": FLAG,
                        "draining": FLAG,
                        "session_alive": FLAG,
                        "leaders": COUNT,
                        "replicas": COUNT,
                    }
                )
            ),
        }
    ),
    "ClusterPartitions": closed_object(
        {
            "partitions": list_of(
                closed_object(
                    {
                        "topic": TEXT,
                        "partition": COUNT,
                        "leader": _BROKER_OR_NULL,
                        "leader_epoch": COUNT,
                        "partition_epoch": COUNT,
                        "min_isr": {
                            **COUNT,
                            "description": "In-sync replicas that writes with acks=all need.",
                        },
                        "last_known_elr": {
                            **list_of(COUNT),
                            "description": "The last leader, while there is none.",
                        },
                        **dict.fromkeys(
                            ("replicas", "isr", "elr", "offline", "adding", "removing"), list_of(COUNT)
                        ),
                    }
                )
            )
        }
    ),
    "ClusterRing": closed_object(
        {
            "vnodes": COUNT,
            "slack_percent": COUNT,
            "leaders_max": COUNT,
            "replicas_max": COUNT,
            "brokers": list_of(
                closed_object(
                    {
                        "id": COUNT,
                        "rack": TEXT,
                        "share": {"type": "number", "minimum": 0, "maximum": 1},
                        "leaders": COUNT,
                        "replicas": COUNT,
                        "takes_replicas": FLAG,
                    }
                )
            ),
        }
    ),
    "ClusterGossip": closed_object(
        {
            "broker": COUNT,
            "on": FLAG,
            "health": COUNT,
            "controller": _BROKER_OR_NULL,
            "peers": list_of(
                closed_object(
                    {
                        "id": COUNT,
                        "state": {"type": "string", "enum": ["alive", "suspect", "dead", "left"]},
                        "incarnation": COUNT,
                        "address": TEXT,
                        "attributes": _TEXTS,
                    }
                )
            ),
        }
    ),
    "NewScrub": closed_object({"topic": TOPIC}, []),
    "Scrub": closed_object(
        {
            "running": FLAG,
            "scrubbed_bytes": COUNT,
            "differences": {
                **COUNT,
                "description": "Replicas that were damaged or differed, since the start.",
            },
            "repairs": {**COUNT, "description": "Failed replicas that were repaired from the others."},
            "brokers": list_of(
                closed_object(
                    {
                        "id": COUNT,
                        "running": FLAG,
                        "rounds": COUNT,
                        "scrubbed_bytes": COUNT,
                        "differences": COUNT,
                        "repairs": COUNT,
                        "error": closed_object(REFUSAL),
                    },
                    ["id"],
                )
            ),
            "partial": PARTIAL,
        },
        ["running", "scrubbed_bytes", "differences", "repairs", "brokers"],
    ),
    "Alive": closed_object({"status": TEXT}),
    "Ready": closed_object(
        {
            "status": TEXT,
            "offline_partitions": list_of(TEXT),
            "reason": {"type": "string", "description": "Why the broker is not ready."},
            "session_alive": {
                "type": "boolean",
                "description": "In a cluster: whether the metadata store knows that this broker is alive.",
            },
        },
        ["status", "offline_partitions"],
    ),
    "OpenApi": {"type": "object"},
}
