"""What the Kafka door refuses of a request before it asks the waist."""

from __future__ import annotations

from penstock.core.errors import InvalidRequest
from penstock.core.limits import ADMIN_ENTRIES_MAX


def check_count(count: int) -> None:
    """Refuse a request whose entries would take too much time of the loop."""
    if count > ADMIN_ENTRIES_MAX:
        raise InvalidRequest(f"the request has {count} entries, at most {ADMIN_ENTRIES_MAX} are allowed")
