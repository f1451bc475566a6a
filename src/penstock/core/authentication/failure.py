"""The one error of authentication. Its message goes to the client; `reason` goes to the log and the audit trail."""

from __future__ import annotations

from enum import StrEnum

from penstock.core.printable import escape

_REASON_CHARS_MAX = 300


class AuthFailureKind(StrEnum):
    """What went wrong, as a metric label. Each door has its own code for each kind."""

    CREDENTIALS = "credentials"
    """The client did not prove who it is."""
    MALFORMED = "malformed"
    """The bytes do not follow the mechanism."""
    MECHANISM = "mechanism"
    """The mechanism, or a feature of it, is not offered."""
    STATE = "state"
    """The message is not expected now."""
    UNAVAILABLE = "unavailable"
    """The broker cannot check the credentials at the moment, so it refuses them."""


class NotAuthenticated(Exception):
    """The client stays anonymous, and its connection ends.

    The message repeats no secret and does not tell whether a user exists. The reason may name the user.
    """

    def __init__(self, kind: AuthFailureKind, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.reason = escape(reason or message)[:_REASON_CHARS_MAX]
        """Escaped and truncated: it may repeat bytes of a client that has proven nothing."""


INVALID_CREDENTIALS = "authentication failed: invalid user name or password"
"""The same for unknown users and wrong passwords."""
