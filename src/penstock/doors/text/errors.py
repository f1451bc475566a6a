"""Our errors in the text door's words: one code for each, and one line. Raises nothing."""

from __future__ import annotations

import re

from penstock.core.errors import BrokerError, leaves, message_of
from penstock.node.runtime.meters import count_error
from penstock.wire.text.responses import encode_error

DOOR = "text"

CODES: dict[type[BrokerError], str] = {
    error: re.sub(r"(?<=[a-z])(?=[A-Z])", "-", error.__name__).lower() for error in leaves()
}
"""Every error is called by its own name: UnknownTopic is `unknown-topic`."""

NO_MESSAGE = "no-message"
"""Not an error of the broker: the offset asked for is the next one to be written."""


def error_line(error: BrokerError) -> bytes:
    """`ERR <code> <words>`."""
    count_error(DOOR, error)
    return encode_error(CODES[type(error)], message_of(error))
