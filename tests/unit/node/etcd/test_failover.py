"""Failover between endpoints: who is asked, and what is known when all have failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.core.errors import Malformed, MetadataUnavailable, TimedOut, TornSegment
from penstock.core.model import Address
from penstock.node.etcd.failover import Attempt, CallLimits, Failover
from penstock.node.runtime.meters import EtcdMeter
from penstock.wire.etcd.messages import Failure, Status

A, B, C = (Address(host, 1) for host in "abc")
NO_LEADER = Failure(Status.UNAVAILABLE, "etcdserver: no leader")
UNSURE = Failure(Status.UNAVAILABLE, "etcdserver: request timed out")
REFUSED = Failure(Status.PERMISSION_DENIED, "etcdserver: permission denied")
LIMITS = CallLimits(0.3, 0.05)

Outcome = str | Failure | Exception | None


class Script:
    """What each endpoint does; None is silence."""

    def __init__(self, outcomes: Callable[[Address], Outcome], *, is_sent: bool = True) -> None:
        self._outcomes = outcomes
        self._is_sent = is_sent
        self.asked: list[Address] = []

    async def work(self, attempt: Attempt) -> str | Failure:
        self.asked.append(attempt.address)
        attempt.is_sent = self._is_sent
        outcome = self._outcomes(attempt.address)
        if outcome is None:
            await asyncio.Event().wait()
        if isinstance(outcome, Exception):
            raise outcome
        assert outcome is not None
        return outcome


def test_the_endpoint_that_answers_is_used_until_it_fails() -> None:
    async def scene() -> None:
        failover = Failover((A, B, C))
        down = {A: ConnectionRefusedError(111, "Connection refused")}
        script = Script(lambda address: down.get(address, "yes"), is_sent=False)
        assert await failover.run(script.work, LIMITS) == ("yes", False)
        assert await failover.run(script.work, LIMITS) == ("yes", False)
        assert script.asked == [A, B, B]
        failover.leave(A)
        assert await failover.run(script.work, LIMITS) == ("yes", False), "A was not in use any more"
        failover.leave(B)
        await failover.run(script.work, LIMITS)
        assert script.asked == [A, B, B, B, C]

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("outcome", "is_sent", "is_repeated"),
    [
        (ConnectionResetError("gone"), True, True),
        (ConnectionResetError("gone"), False, False),
        (Malformed("not HTTP"), True, True),
        (None, True, True),
        (UNSURE, True, True),
        (NO_LEADER, True, False),
        (Failure(8, "etcdserver: too many requests"), True, False),
    ],
)
def test_whether_an_earlier_attempt_may_have_had_an_effect(
    outcome: Outcome, is_sent: bool, is_repeated: bool
) -> None:
    async def scene() -> None:
        script = Script(lambda address: outcome if address == A else "yes", is_sent=is_sent)
        assert await Failover((A, B)).run(script.work, LIMITS) == ("yes", is_repeated)

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("outcome", "is_sent", "error"),
    [
        (None, True, TimedOut),
        (UNSURE, True, TimedOut),
        (None, False, MetadataUnavailable),
        (NO_LEADER, True, MetadataUnavailable),
        (ConnectionRefusedError(111, "Connection refused"), False, MetadataUnavailable),
    ],
)
def test_at_the_deadline_the_error_says_what_is_known(
    outcome: Outcome, is_sent: bool, error: type[Exception]
) -> None:
    async def scene() -> None:
        script = Script(lambda _: outcome, is_sent=is_sent)
        with pytest.raises(error, match="etcd at a:1,b:1"):
            await Failover((A, B)).run(script.work, LIMITS)
        assert {A, B} == set(script.asked)

    asyncio.run(scene())


def test_a_refusal_that_repeating_does_not_cure_is_an_answer() -> None:
    async def scene() -> None:
        script = Script(lambda _: REFUSED)
        assert await Failover((A, B)).run(script.work, LIMITS) == (REFUSED, False)
        broken = Script(lambda _: TornSegment("another etcd"))
        with pytest.raises(TornSegment):
            await Failover((A, B)).run(broken.work, LIMITS)
        assert (script.asked, broken.asked) == ([A], [A])

    asyncio.run(scene())


def test_the_health_of_every_endpoint_is_counted() -> None:
    async def scene() -> None:
        meters: dict[str, EtcdMeter] = {}
        failover = Failover((A, B, C), meters)
        outcomes: dict[Address, Outcome] = {A: ConnectionRefusedError(111, "Connection refused"), B: "yes"}
        script = Script(outcomes.__getitem__, is_sent=False)
        await failover.run(script.work, LIMITS)
        await failover.run(script.work, LIMITS)
        assert {name: (one.is_up, one.failures) for name, one in meters.items()} == {
            str(A): (False, 1),
            str(B): (True, 0),
        }
        assert [sum(meters[str(one)].round_trips.counts) for one in (A, B)] == [0, 2]

    asyncio.run(scene())
