"""Encodes errors for the text door: a code and a message on one line."""

from __future__ import annotations

import re

from penstock.core.errors import BrokerError, leaves, message_of
from penstock.node.runtime.meters import count_error
from penstock.wire.text.responses import encode_error

DOOR = "text"

CODES: dict[type[BrokerError], str] = {
    error: re.sub(r"(?<=[a-z])(?=[A-Z])", "-", error.__name__).lower() for error in leaves()
}
"""Codes derive from the class names: UnknownTopic is `unknown-topic`."""

NO_MESSAGE = "no-message"
"""Not a broker error: the requested offset is not written yet."""


def error_line(error: BrokerError) -> bytes:
    """`ERR <code> <message>`."""
    count_error(DOOR, error)
    return encode_error(CODES[type(error)], message_of(error))
