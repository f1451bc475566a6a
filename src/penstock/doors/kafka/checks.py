"""Checks of requests before the waist is called."""

from __future__ import annotations

from penstock.core.errors import InvalidRequest
from penstock.core.limits import ADMIN_ENTRIES_MAX


def check_count(count: int) -> None:
    """Reject a request with too many entries."""
    if count > ADMIN_ENTRIES_MAX:
        raise InvalidRequest(f"the request has {count} entries, at most {ADMIN_ENTRIES_MAX} are allowed")
