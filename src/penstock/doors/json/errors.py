"""Our errors in the JSON door's words: a code, whether trying again may help, and a sentence. Raises nothing."""

from __future__ import annotations

import re
from typing import Any

from penstock.core.errors import BrokerError, leaves, message_of
from penstock.node.runtime.meters import count_error

DOOR = "json"

CODES: dict[type[BrokerError], str] = {
    error: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", error.__name__).upper() for error in leaves()
}
"""Every error is called by its own name: UnknownTopic is `UNKNOWN_TOPIC`."""


def error_fields(error: BrokerError) -> dict[str, Any]:
    """What an answer says about an error."""
    count_error(DOOR, error)
    return {"error": CODES[type(error)], "retriable": error.retriable, "reason": message_of(error)}
