"""JSON Schemas of committed offsets and subscriptions, shown by /openapi.json. Data only."""

from __future__ import annotations

from penstock.core.limits import GROUP_CALL_ELEMENTS_MAX
from penstock.doors.http.offsets import EPOCH_MAX
from penstock.doors.http.query import EARLIEST, LATEST, OFFSET_MAX
from penstock.doors.http.schema_parts import (
    COUNT,
    PARTIAL,
    PARTITION,
    REFUSAL,
    TEXT,
    TOPIC,
    Schema,
    closed_object,
    list_of,
)
from penstock.doors.http.subscriptions import NUMBER_MAX

_OFFSET: Schema = {"type": "integer", "minimum": 0, "maximum": OFFSET_MAX}
_NUMBER: Schema = {"type": "integer", "minimum": 1, "maximum": NUMBER_MAX}
_START: Schema = {
    "oneOf": [_OFFSET, {"type": "string", "enum": [EARLIEST, LATEST]}],
    "default": EARLIEST,
    "description": "The first message that a new subscription delivers, in every partition.",
}
_OUTLINE: Schema = {
    "name": TEXT,
    "topic": TEXT,
    "hold_ms": {**COUNT, "description": "How long a member may hold a message before it is redelivered."},
    "max_deliveries": {**COUNT, "description": "Deliveries after which a message becomes a dead letter."},
    "created_ms": COUNT,
}
_PROGRESS = ("partition", "settled_offset", "end_offset", "unsettled_count", "held_count", "dying_count")

GROUP_SCHEMAS: dict[str, Schema] = {
    "CommittedOffsets": closed_object(
        {
            "group": TEXT,
            "offsets": list_of(
                closed_object(
                    {
                        "topic": TEXT,
                        "partition": COUNT,
                        "offset": {"type": ["integer", "null"]},
                        "metadata": TEXT,
                        "error": closed_object(REFUSAL),
                    },
                    ["topic", "partition", "offset"],
                )
            ),
        }
    ),
    "NewOffsets": {
        **closed_object(
            {
                "offsets": list_of(
                    closed_object(
                        {
                            "topic": TOPIC,
                            "partition": {**PARTITION, "default": 0},
                            "offset": {**_OFFSET, "description": "The next message to read."},
                            "metadata": TEXT,
                        },
                        ["topic", "offset"],
                    ),
                    minItems=1,
                    maxItems=GROUP_CALL_ELEMENTS_MAX,
                ),
                "member": {
                    **TEXT,
                    "description": "The member that commits; without it, the group must be empty.",
                },
                "epoch": {"type": "integer", "minimum": 0, "maximum": EPOCH_MAX},
                "instance": TEXT,
            },
            ["offsets"],
        ),
        "dependentRequired": {"member": ["epoch"], "epoch": ["member"], "instance": ["member"]},
    },
    "CommitResults": closed_object(
        {
            "group": TEXT,
            "failed": COUNT,
            "offsets": list_of(
                closed_object(
                    {"topic": TEXT, "partition": COUNT, "offset": COUNT, "error": closed_object(REFUSAL)},
                    ["topic", "partition", "offset"],
                )
            ),
        }
    ),
    "Subscriptions": closed_object(
        {
            "subscriptions": list_of(closed_object(_OUTLINE)),
            "partial": PARTIAL,
            "errors": list_of(closed_object(REFUSAL)),
        },
        ["subscriptions"],
    ),
    "NewSubscription": closed_object(
        {
            "name": {"type": "string", "minLength": 1, "maxLength": 249},
            "topic": TOPIC,
            "start_offset": _START,
            "hold_ms": _NUMBER,
            "max_deliveries": _NUMBER,
        },
        ["name", "topic"],
    ),
    "Subscription": closed_object(
        {
            **_OUTLINE,
            "dead_letter_topic": TEXT,
            "partitions": list_of(closed_object(dict.fromkeys(_PROGRESS, COUNT))),
            "members": list_of(closed_object({"id": TEXT, "window": COUNT, "held": COUNT})),
            "stale_partitions": {
                **list_of(COUNT),
                "description": "Partitions whose leader did not tell their end.",
            },
        },
        [*_OUTLINE, "dead_letter_topic", "partitions", "members"],
    ),
    "NewRedrive": closed_object({"count": {**_OFFSET, "minimum": 1}}, []),
    "Redriven": closed_object({"redriven": COUNT}),
}
