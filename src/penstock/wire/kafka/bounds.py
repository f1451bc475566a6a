"""The maximum number of array elements in a request of each API. The decoders enforce it."""

from __future__ import annotations

from penstock.core.limits import (
    CONFIG_CALL_ELEMENTS_MAX,
    GROUP_CALL_ELEMENTS_MAX,
    PRODUCE_ELEMENTS_MAX,
    REQUEST_ELEMENTS_MAX,
)
from penstock.wire.kafka.api import ApiKey

_OWN_LIMITS = {
    ApiKey.PRODUCE: PRODUCE_ELEMENTS_MAX,
    ApiKey.ALTER_CONFIGS: CONFIG_CALL_ELEMENTS_MAX,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: CONFIG_CALL_ELEMENTS_MAX,
    ApiKey.JOIN_GROUP: GROUP_CALL_ELEMENTS_MAX,
    ApiKey.SYNC_GROUP: GROUP_CALL_ELEMENTS_MAX,
    ApiKey.LEAVE_GROUP: GROUP_CALL_ELEMENTS_MAX,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: GROUP_CALL_ELEMENTS_MAX,
}


def elements_max(api_key: int) -> int:
    """The limit for one request of this API."""
    return _OWN_LIMITS.get(ApiKey(api_key), REQUEST_ELEMENTS_MAX)
