"""JSON Schemas of request and response bodies, shown by /openapi.json. Data only."""

from __future__ import annotations

from typing import Any

from penstock.core.limits import ADMIN_ENTRIES_MAX, BROKER_ID_MAX, PARTITIONS_PER_TOPIC_MAX
from penstock.doors.http.messages import BATCH_MESSAGES_MAX
from penstock.doors.http.placement import FACTOR_MAX, KINDS
from penstock.wire.http.messages import TIMESTAMP_MS_MAX

Schema = dict[str, Any]

TOPIC_NAME = r"^(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}$"

_BASE64_PATTERN = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_BASE64: Schema = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": _BASE64_PATTERN,
}
_TOPIC: Schema = {"type": "string", "pattern": TOPIC_NAME}
_PARTITION: Schema = {"type": "integer", "minimum": 0, "maximum": PARTITIONS_PER_TOPIC_MAX - 1}
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


def _object(properties: Schema, required: list[str] | None = None) -> Schema:
    """An object with exactly these fields; all are required unless `required` says otherwise."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


def _list(of: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": of, **more}


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
_PLACE: Schema = {"partition": _COUNT, "offset": _COUNT}
_REFUSAL: Schema = {"code": _TEXT, "detail": _TEXT, "what_to_do": _TEXT}
_COUNT_OR_NULL: Schema = {"type": ["integer", "null"], "minimum": 0}
_PARTIAL: Schema = {
    "type": "boolean",
    "description": "Present and true if a broker of the cluster did not answer: what it knows is missing.",
}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT}
_BROKER_OR_NULL: Schema = {"type": ["integer", "null"], "minimum": 0}
_CONFIGS = _TEXTS

_FACTOR: Schema = {"type": "integer", "minimum": 1, "maximum": FACTOR_MAX}
_NAMED: Schema = {"topic": _TOPIC, "partition": _PARTITION}
_MOVE: Schema = {"topic": _TEXT, "partition": _COUNT, "from": _list(_COUNT), "to": _list(_COUNT)}
_KNOWN_HERE: Schema = {
    "type": ["integer", "null"],
    "description": "null on brokers that do not take part in the move; copies are known to the brokers in `to`.",
}

SCHEMAS: dict[str, Schema] = {
    "Problem": _object({"type": _TEXT, "title": _TEXT, "status": {"type": "integer"}, **_REFUSAL}),
    "NewMessage": {
        **_object({"topic": _TOPIC, "partition": _PARTITION, **_NEW_CONTENT}, ["topic"]),
        **_ONE_VALUE,
    },
    "NewBatchMessage": {**_object(_NEW_CONTENT, []), **_ONE_VALUE},
    "NewBatch": _object(
        {
            "topic": _TOPIC,
            "partition": _PARTITION,
            "messages": _list(_ref("NewBatchMessage"), minItems=1, maxItems=BATCH_MESSAGES_MAX),
        },
        ["topic", "messages"],
    ),
    "Published": _object({"topic": _TEXT, **_PLACE}),
    "PublishedBatch": _object(
        {
            "topic": _TEXT,
            "failed": _COUNT,
            "results": _list({"oneOf": [_object(_PLACE), _object(_REFUSAL)]}),
        }
    ),
    "Message": _object(
        {
            "offset": _COUNT,
            "timestamp_ms": {"type": "integer"},
            "key": {"type": ["string", "null"]},
            "key_base64": _BASE64,
            "value": {},
            "value_base64": _BASE64,
            "headers": _HEADERS,
        },
        ["offset", "timestamp_ms", "headers"],
    ),
    "Messages": _object(
        {
            "topic": _TEXT,
            "partition": _COUNT,
            "messages": _list(_ref("Message")),
            "next_offset": _COUNT,
            "start_offset": _COUNT,
            "end_offset": _COUNT,
        }
    ),
    "Topics": _object({"topics": _list(_object({"name": _TEXT, "partitions": _COUNT, "internal": _FLAG}))}),
    "NewTopic": _object(
        {
            "name": _TOPIC,
            "partitions": _PARTITIONS,
            "replication_factor": {
                **_FACTOR,
                "description": "At most as many as there are brokers; the cluster's default if it is absent.",
            },
            "configs": _CONFIGS,
        },
        ["name"],
    ),
    "TopicChange": _object(
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
    "Topic": _object(
        {
            "name": _TEXT,
            "id": _TEXT,
            "internal": _FLAG,
            "partitions": _list(
                _object(
                    {
                        "partition": _COUNT,
                        "start_offset": _COUNT_OR_NULL,
                        "end_offset": _COUNT_OR_NULL,
                        "stable_offset": _COUNT_OR_NULL,
                        "bytes": _COUNT_OR_NULL,
                        "online": _FLAG,
                        "error": _object(_REFUSAL),
                    },
                    ["partition", "start_offset", "end_offset", "stable_offset", "bytes", "online"],
                )
            ),
            "configs": _CONFIGS,
            "partial": _PARTIAL,
        },
        ["name", "id", "internal", "partitions", "configs"],
    ),
    "Groups": _object(
        {
            "groups": _list(_object({"group": _TEXT, "kind": _TEXT, "state": _TEXT})),
            "partial": _PARTIAL,
            "errors": _list(_object(_REFUSAL)),
        },
        ["groups"],
    ),
    "Group": _object(
        {
            "group": _TEXT,
            "kind": _TEXT,
            "state": _TEXT,
            "members": _list(
                _object(
                    {
                        "member": _TEXT,
                        "client_id": _TEXT,
                        "host": _TEXT,
                        "partitions": _list(_object({"topic": _TEXT, "partition": _COUNT})),
                    }
                )
            ),
        }
    ),
    "Lag": _object(
        {
            "group": _TEXT,
            "lag": _COUNT,
            "partitions": _list(
                _object(
                    {
                        "topic": _TEXT,
                        "partition": _COUNT,
                        "committed_offset": {"type": ["integer", "null"]},
                        "end_offset": _COUNT_OR_NULL,
                        "lag": _COUNT_OR_NULL,
                        "error": _object(_REFUSAL),
                    },
                    ["topic", "partition", "committed_offset", "end_offset", "lag"],
                )
            ),
            "partial": _PARTIAL,
        },
        ["group", "lag", "partitions"],
    ),
    "NewElection": _object(
        {
            "kind": {
                "type": "string",
                "enum": list(KINDS),
                "default": "preferred",
                "description": "`unclean` elects any replica of a partition without a leader: records that only others"
                " have are lost.",
            },
            "partitions": _list(
                _object(_NAMED, ["topic"]),
                minItems=1,
                maxItems=ADMIN_ENTRIES_MAX,
                description="Without it: all partitions that need such an election.",
            ),
        },
        [],
    ),
    "Elections": _object(
        {
            "kind": _TEXT,
            "failed": _COUNT,
            "elections": _list(
                _object(
                    {
                        "topic": _TEXT,
                        "partition": _COUNT,
                        "elected": {**_FLAG, "description": "false if it has the wanted leader, or failed."},
                        "leader": _BROKER_OR_NULL,
                        "error": _object(_REFUSAL),
                    },
                    ["topic", "partition", "elected"],
                )
            ),
        }
    ),
    "NewReassignments": _object(
        {
            "reassignments": _list(
                {
                    **_object(
                        {
                            **_NAMED,
                            "replicas": _list(
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
    "PlannedMoves": _object({"started": _FLAG, "moves": _list(_object(_MOVE))}),
    "Moves": _object(
        {
            "moves": _list(
                _object(
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
    "Cluster": _object(
        {
            "cluster_id": _TEXT,
            "broker": {**_COUNT, "description": "The broker that answers."},
            "controller": _BROKER_OR_NULL,
            "controller_epoch": _COUNT,
            "metadata_index": _COUNT,
            "partitions": _COUNT,
            **dict.fromkeys(
                ("offline_partitions", "under_replicated_partitions", "under_min_isr_partitions"), _COUNT
            ),
            "brokers": _list(
                _object(
                    {
                        "id": _COUNT,
                        "addresses": _TEXTS,
                        "rack": _TEXT,
                        "epoch": _COUNT,
                        "fenced": _FLAG,
                        "stopping": _FLAG,
                        "draining": _FLAG,
                        "session_alive": _FLAG,
                        "leaders": _COUNT,
                        "replicas": _COUNT,
                    }
                )
            ),
        }
    ),
    "ClusterPartitions": _object(
        {
            "partitions": _list(
                _object(
                    {
                        "topic": _TEXT,
                        "partition": _COUNT,
                        "leader": _BROKER_OR_NULL,
                        "leader_epoch": _COUNT,
                        "partition_epoch": _COUNT,
                        "min_isr": {
                            **_COUNT,
                            "description": "In-sync replicas that writes with acks=all need.",
                        },
                        "last_known_elr": {
                            **_list(_COUNT),
                            "description": "The last leader, while there is none.",
                        },
                        **dict.fromkeys(
                            ("replicas", "isr", "elr", "offline", "adding", "removing"), _list(_COUNT)
                        ),
                    }
                )
            )
        }
    ),
    "ClusterRing": _object(
        {
            "vnodes": _COUNT,
            "slack_percent": _COUNT,
            "leaders_max": _COUNT,
            "replicas_max": _COUNT,
            "brokers": _list(
                _object(
                    {
                        "id": _COUNT,
                        "rack": _TEXT,
                        "share": {"type": "number", "minimum": 0, "maximum": 1},
                        "leaders": _COUNT,
                        "replicas": _COUNT,
                        "takes_replicas": _FLAG,
                    }
                )
            ),
        }
    ),
    "ClusterGossip": _object(
        {
            "broker": _COUNT,
            "on": _FLAG,
            "health": _COUNT,
            "controller": _BROKER_OR_NULL,
            "peers": _list(
                _object(
                    {
                        "id": _COUNT,
                        "state": {"type": "string", "enum": ["alive", "suspect", "dead", "left"]},
                        "incarnation": _COUNT,
                        "address": _TEXT,
                        "attributes": _TEXTS,
                    }
                )
            ),
        }
    ),
    "NewScrub": _object({"topic": _TOPIC}, []),
    "Scrub": _object(
        {
            "running": _FLAG,
            "scrubbed_bytes": _COUNT,
            "differences": {
                **_COUNT,
                "description": "Replicas that were damaged or differed, since the start.",
            },
            "repairs": {**_COUNT, "description": "Failed replicas that were repaired from the others."},
            "brokers": _list(
                _object(
                    {
                        "id": _COUNT,
                        "running": _FLAG,
                        "rounds": _COUNT,
                        "scrubbed_bytes": _COUNT,
                        "differences": _COUNT,
                        "repairs": _COUNT,
                        "error": _object(_REFUSAL),
                    },
                    ["id"],
                )
            ),
            "partial": _PARTIAL,
        },
        ["running", "scrubbed_bytes", "differences", "repairs", "brokers"],
    ),
    "Alive": _object({"status": _TEXT}),
    "Ready": _object(
        {
            "status": _TEXT,
            "offline_partitions": _list(_TEXT),
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
