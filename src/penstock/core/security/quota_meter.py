"""The usage of clients against their quotas: records what they do and returns how long to throttle them. No clock.

Whoever calls it applies the throttle time: in the response, and by not reading from the connection meanwhile.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.core.security.acl import canonical_host
from penstock.core.security.quota import AppliedQuota, QuotaKey, QuotaTable
from penstock.core.security.sampled_rate import (
    SAMPLES,
    WINDOW_MS,
    SampledRate,
    TokenBucket,
    throttle_time_ms,
)
from penstock.core.security.security_limits import QUOTA_METERS_MAX

THROTTLE_MS_MAX = 2**31 - 1
"""The throttle time is a signed 32-bit field in responses."""

_PERCENT_PER_NS = 100.0 / 1_000_000_000

_Meter = TypeVar("_Meter", SampledRate, TokenBucket)
_MeterKey = tuple[str, str | None, str | None]


class QuotaMeter:
    """The meters of one broker. It follows every change of the quotas at once; usage is kept."""

    def __init__(self, quotas: QuotaTable, meters_max: int = QUOTA_METERS_MAX) -> None:
        self._quotas = quotas
        self._rates: _Recent[SampledRate] = _Recent(meters_max)
        self._buckets: _Recent[TokenBucket] = _Recent(meters_max)

    @property
    def meter_count(self) -> int:
        return len(self._rates) + len(self._buckets)

    def produced(self, user: str, client_id: str | None, size_bytes: int, now_ms: int) -> int:
        """Bytes of a Produce request. The throttle time in ms."""
        return self._record(QuotaKey.PRODUCER_BYTE_RATE, user, client_id, size_bytes, now_ms)

    def fetched(self, user: str, client_id: str | None, size_bytes: int, now_ms: int) -> int:
        """Bytes of a Fetch response. If the client is throttled they count as not sent: the response must be empty."""
        throttle_ms = self._record(QuotaKey.CONSUMER_BYTE_RATE, user, client_id, size_bytes, now_ms)
        if throttle_ms:
            self._take_back(QuotaKey.CONSUMER_BYTE_RATE, user, client_id, size_bytes, now_ms)
        return throttle_ms

    def fetch_bytes_max(self, user: str, client_id: str | None) -> int | None:
        """The largest Fetch response that is not always throttled; None without a quota."""
        applied = self._quotas.applied(QuotaKey.CONSUMER_BYTE_RATE, user, client_id)
        return None if applied is None else int(applied.bound * (SAMPLES - 1) * WINDOW_MS / 1_000)

    def requested(self, user: str, client_id: str | None, busy_ns: int, now_ms: int) -> int:
        """The broker's time for a request. The throttle time is at most one window."""
        percent = busy_ns * _PERCENT_PER_NS
        return self._record(QuotaKey.REQUEST_PERCENTAGE, user, client_id, percent, now_ms, cap_ms=WINDOW_MS)

    def connected(self, ip: str, now_ms: int) -> int:
        """A new connection. If it is throttled, it must not be served before that time, and does not count."""
        bound = self._quotas.connection_rate(ip)
        if bound is None:
            return 0
        rate = self._rates.get((QuotaKey.CONNECTION_CREATION_RATE, canonical_host(ip), None), SampledRate)
        rate.record(1.0, now_ms)
        throttle_ms = throttle_time_ms(rate.measure(now_ms), bound, WINDOW_MS)
        if throttle_ms:
            rate.record(-1.0, now_ms)
        return throttle_ms

    def mutation_throttle_ms(self, user: str, client_id: str | None, now_ms: int) -> int:
        """Checked before partitions are created or deleted: while it is not 0, the call is refused."""
        applied = self._quotas.applied(QuotaKey.CONTROLLER_MUTATION_RATE, user, client_id)
        if applied is None:
            return 0
        bucket = self._bucket(applied, now_ms)
        bucket.refill(applied.bound, now_ms)
        return bucket.throttle_ms(applied.bound)

    def mutated(self, user: str, client_id: str | None, partition_count: int, now_ms: int) -> int:
        """Partitions that were created or deleted. The throttle time in ms."""
        applied = self._quotas.applied(QuotaKey.CONTROLLER_MUTATION_RATE, user, client_id)
        if applied is None:
            return 0
        bucket = self._bucket(applied, now_ms)
        bucket.record(partition_count, applied.bound, now_ms)
        return bucket.throttle_ms(applied.bound)

    def _record(
        self,
        key: QuotaKey,
        user: str,
        client_id: str | None,
        value: float,
        now_ms: int,
        *,
        cap_ms: int = THROTTLE_MS_MAX,
    ) -> int:
        applied = self._quotas.applied(key, user, client_id)
        if applied is None:
            return 0
        rate = self._rates.get((key, *applied.meter), SampledRate)
        rate.record(value, now_ms)
        return throttle_time_ms(rate.measure(now_ms), applied.bound, cap_ms)

    def _take_back(self, key: QuotaKey, user: str, client_id: str | None, value: float, now_ms: int) -> None:
        applied = self._quotas.applied(key, user, client_id)
        assert applied is not None, "a throttled client has a quota"
        self._rates.get((key, *applied.meter), SampledRate).record(-value, now_ms)

    def _bucket(self, applied: AppliedQuota, now_ms: int) -> TokenBucket:
        key = (QuotaKey.CONTROLLER_MUTATION_RATE, *applied.meter)
        return self._buckets.get(key, lambda: TokenBucket(applied.bound, now_ms))


class _Recent(Generic[_Meter]):
    """The most recently used meters. An idle client that is forgotten starts again with an empty meter."""

    def __init__(self, meters_max: int) -> None:
        self._meters_max = meters_max
        self._meters: OrderedDict[_MeterKey, _Meter] = OrderedDict()

    def __len__(self) -> int:
        return len(self._meters)

    def get(self, key: _MeterKey, make: Callable[[], _Meter]) -> _Meter:
        found = self._meters.get(key)
        if found is None:
            found = self._meters[key] = make()
            if len(self._meters) > self._meters_max:
                self._meters.popitem(last=False)
        else:
            self._meters.move_to_end(key)
        return found
