"""Repeats one call over the endpoints of an etcd until one answers or the deadline passes.

The caller may rely on this: MetadataUnavailable means that no attempt can have had an effect, TimedOut that one may.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, NoReturn, TypeVar

from penstock.core.errors import Malformed, MetadataUnavailable, TimedOut, TooLarge
from penstock.core.model import Address
from penstock.node.runtime.meters import EtcdMeter
from penstock.wire.etcd.messages import Failure

CALL_S_MAX = 10.0
"""Covers an election: a majority needs one to two election timeouts until it has a new leader."""
ATTEMPT_S_MAX = 2.5
"""A member that does not answer within this time is left for the next one."""
PAUSE_S = 0.05
PAUSE_S_MAX = 1.0
"""Pause after every endpoint has failed; doubles up to the maximum."""

_TRANSIENT = frozenset({1, 2, 4, 10, 13, 14})
"""gRPC codes that another attempt may not get: cancelled, unknown, deadline, aborted, internal, unavailable."""
_WITHOUT_EFFECT = ("etcdserver: no leader", "etcdserver: too many requests")
"""Transient refusals that precede every effect."""

T = TypeVar("T")


class CallLimits(NamedTuple):
    """Time limits of a call and of each of its attempts."""

    call_s_max: float = CALL_S_MAX
    attempt_s_max: float = ATTEMPT_S_MAX


class Attempt:
    """One attempt at an endpoint."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_sent = False
        """Set before a request that changes something is sent: from then on it may have an effect."""


class Failover:
    """The endpoints of one etcd and which of them is in use."""

    def __init__(self, endpoints: tuple[Address, ...], meters: dict[str, EtcdMeter] | None = None) -> None:
        self._endpoints = endpoints
        self._meters = {} if meters is None else meters
        self._current = 0

    def leave(self, address: Address) -> None:
        """Use the next endpoint from now on: this one failed, or its watch fell silent."""
        if self._endpoints[self._current] == address:
            self._current = (self._current + 1) % len(self._endpoints)

    async def run(
        self, work: Callable[[Attempt], Awaitable[T | Failure]], limits: CallLimits
    ) -> tuple[T | Failure, bool]:
        """The first answer, and whether an earlier attempt may have had an effect.

        A Failure that another attempt would get as well counts as an answer.
        """
        now = asyncio.get_running_loop().time
        deadline = now() + limits.call_s_max
        is_unknown, failures, pause_s = False, 0, PAUSE_S
        while True:
            attempt, started = Attempt(self._endpoints[self._current]), now()
            answer = await _outcome(work, attempt, min(limits.attempt_s_max, deadline - started))
            meter = self._meters.setdefault(str(attempt.address), EtcdMeter())
            meter.is_up = not isinstance(answer, _Lost)
            if not isinstance(answer, _Lost):
                meter.round_trips.observe(now() - started)
                return answer, is_unknown
            meter.failures += 1
            is_unknown |= attempt.is_sent and not answer.is_without_effect
            self.leave(attempt.address)
            failures += 1
            if failures % len(self._endpoints) == 0:
                await asyncio.sleep(min(pause_s, max(0.0, deadline - now())))
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
            if now() >= deadline:
                self._give_up(is_unknown, answer.cause)

    def _give_up(self, is_unknown: bool, cause: str) -> NoReturn:
        names = ",".join(map(str, self._endpoints))
        if is_unknown:
            raise TimedOut(f"etcd at {names} did not confirm in time, so the outcome is unknown: {cause}")
        raise MetadataUnavailable(
            f"etcd at {names} is unavailable: {cause}. Nothing was changed; changes of metadata wait until a majority"
            " of its members is reachable"
        )


class _Lost(NamedTuple):
    """An attempt without a usable answer."""

    cause: str
    is_without_effect: bool = False


async def _outcome(
    work: Callable[[Attempt], Awaitable[T | Failure]], attempt: Attempt, limit_s: float
) -> T | Failure | _Lost:
    try:
        async with asyncio.timeout(max(0.001, limit_s)):
            answer = await work(attempt)
    except TimeoutError:
        return _Lost(f"{attempt.address} does not answer")
    except OSError as error:
        return _Lost(f"{attempt.address}: {error.strerror or error}")
    except (Malformed, TooLarge) as error:
        return _Lost(str(error))
    if isinstance(answer, Failure):
        is_without_effect = answer.message in _WITHOUT_EFFECT
        if is_without_effect or answer.code in _TRANSIENT:
            return _Lost(f"{attempt.address} answers: {answer.message}", is_without_effect)
    return answer
