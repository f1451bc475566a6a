"""Limits of bytes per second for replicas outside the ISR: those that are being added, and those that return.

Both share a mechanism: a token bucket for all fetchers of a broker, and a bound of what one Fetch brings of such
partitions, so that replicas in sync, which are in the same answers, never wait for long. A replica that returns also
rests after each answer for a part of the time that it took to apply it: the rest of this broker and its disk are free
that often, however slow they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.core.replication.rate_limit import BURST_S, RateLimit
from penstock.node.replicas.followed import FollowedPartition

FETCH_BYTES_MIN = 64 << 10
"""Bytes per partition and fetch, whatever the limit of bytes per second: smaller ones would cost more than they
limit."""
MOVE_BYTES_MAX = 2 << 20
CATCH_UP_BYTES_MAX, CATCH_UP_PARTITION_BYTES_MAX = 1 << 20, 256 << 10
"""What one Fetch brings of all partitions that catch up, and of one of them. The answer is read by the leader and
appended here in a few milliseconds."""
CATCH_UP_BURST_S = 0.02
REST_SHARE = 0.25
"""The rest after an answer, as a share of the time that it took to apply it."""


class Throttle:
    """A limit that all fetchers of a broker share."""

    def __init__(
        self,
        rate: Callable[[], int],
        bytes_max: int = MOVE_BYTES_MAX,
        partition_bytes_max: int = MOVE_BYTES_MAX,
        burst_s: float = BURST_S,
        *,
        rests: bool = False,
    ) -> None:
        self.rate = rate
        self.limit = RateLimit(burst_s)
        self.waits = 0
        """How often a copy had to wait."""
        self._bytes_max, self._partition_bytes_max = bytes_max, partition_bytes_max
        self._rests = rests
        self._rests_until_s = 0.0

    def wait_s(self, now_s: float) -> float:
        rate = self.rate()
        wait_s = self.limit.wait_s(rate, now_s)
        return max(wait_s, self._rests_until_s - now_s) if rate > 0 else 0.0

    def rest(self, took_s: float, now_s: float) -> None:
        """To apply what was fetched took this long."""
        if self._rests:
            self._rests_until_s = max(self._rests_until_s, now_s + took_s * REST_SHARE)

    @property
    def fetch_bytes_max(self) -> int:
        """Bytes of one fetch, so that the limit is not exceeded by seconds at once."""
        return self._bounded(self._bytes_max)

    @property
    def partition_bytes_max(self) -> int:
        return self._bounded(self._partition_bytes_max)

    def _bounded(self, bytes_max: int) -> int:
        rate = self.rate()
        return bytes_max if rate <= 0 else max(FETCH_BYTES_MIN, min(bytes_max, rate // 4))


class Throttles(NamedTuple):
    """The limits of a broker as follower."""

    moves: Throttle
    catch_up: Throttle

    def of(self, followed: FollowedPartition) -> Throttle | None:
        """The limit for a partition; None for one that keeps up, or has to."""
        if followed.is_added:
            return self.moves
        return self.catch_up if followed.is_catching_up and self.catch_up.rate() > 0 else None


def catch_up_throttle(rate: Callable[[], int]) -> Throttle:
    return Throttle(rate, CATCH_UP_BYTES_MAX, CATCH_UP_PARTITION_BYTES_MAX, CATCH_UP_BURST_S, rests=True)


class Allowance:
    """What the next Fetch may bring of the partitions of one limit."""

    def __init__(self, throttle: Throttle, now_s: float) -> None:
        self._throttle = throttle
        self.wait_s = throttle.wait_s(now_s)
        self.named_bytes = 0

    def take(self, followed: FollowedPartition) -> int:
        """Bytes to ask for; 0 if this Fetch cannot bring more. A partition may be asked for in any case if it is not
        known to lag: it may have to wait for records, and others must not wait for it."""
        bytes_max = self._throttle.partition_bytes_max
        if followed.lag > 0:
            if self.named_bytes + bytes_max > self._throttle.fetch_bytes_max:
                return 0
            self.named_bytes += bytes_max
        return bytes_max

    def end(self) -> int:
        """Bytes that the Fetch asks for; notes whether partitions have to wait."""
        self._throttle.waits += self.wait_s > 0
        return self.named_bytes
