"""Encodes errors for the JSON door: a code, whether it is retriable, and a message."""

from __future__ import annotations

import re
from typing import Any

from penstock.core.errors import BrokerError, leaves, message_of
from penstock.node.runtime.meters import count_error

DOOR = "json"

CODES: dict[type[BrokerError], str] = {
    error: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", error.__name__).upper() for error in leaves()
}
"""Codes derive from the class names: UnknownTopic is `UNKNOWN_TOPIC`."""


def error_fields(error: BrokerError) -> dict[str, Any]:
    """The fields of an error response."""
    count_error(DOOR, error)
    return {"error": CODES[type(error)], "retriable": error.retriable, "reason": message_of(error)}
