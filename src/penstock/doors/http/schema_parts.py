"""What the JSON Schemas of this door are built of. Data only."""

from __future__ import annotations

from typing import Any

from penstock.core.limits import PARTITIONS_PER_TOPIC_MAX

Schema = dict[str, Any]

TOPIC_NAME = r"^(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}$"

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TOPIC: Schema = {"type": "string", "pattern": TOPIC_NAME}
PARTITION: Schema = {"type": "integer", "minimum": 0, "maximum": PARTITIONS_PER_TOPIC_MAX - 1}
REFUSAL: Schema = {"code": TEXT, "detail": TEXT, "what_to_do": TEXT}
PARTIAL: Schema = {
    "type": "boolean",
    "description": "Present and true if a broker of the cluster did not answer: what it knows is missing.",
}


def closed_object(properties: Schema, required: list[str] | None = None) -> Schema:
    """An object with exactly these fields; all are required unless `required` says otherwise."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


def list_of(of: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": of, **more}
