"""Keys of a provider: fetched once, refreshed, rotated, dropped when they are too old; without keys nobody enters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.core.authentication.failure import AuthFailureKind
from penstock.core.authentication.secret import Secret
from penstock.node.security.bearer_token import TokenPolicy
from penstock.node.security.key_source import KeysUnavailable
from penstock.node.security.token_validator import REFRESH_MS, REFRESH_MS_MIN, STALE_MS_MAX, TokenValidator
from penstock.wire.sasl.steps import CredentialsAccepted, CredentialsRejected
from security_samples import AUDIENCE, ISSUER, SampleProvider, claims_at

NOW_MS = 1_750_000_000_000
POLICY = TokenPolicy(ISSUER, (AUDIENCE,))
OLD, NEW = SampleProvider("old-"), SampleProvider("new-")


class World:
    """A clock, and a provider that can fail."""

    def __init__(self) -> None:
        self.ms = NOW_MS
        self.content: bytes | None = OLD.key_set()
        self.fetches = 0
        self.gate: asyncio.Event | None = None
        self.validator = TokenValidator(POLICY, self.fetch, self)

    def now_ms(self) -> int:
        return self.ms

    async def fetch(self) -> bytes:
        self.fetches += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.content is None:
            raise KeysUnavailable("the provider is down")
        return self.content

    def token(self, provider: SampleProvider = OLD, **changes: object) -> Secret:
        return provider.token(claims_at(self.ms / 1000, **changes))

    async def is_accepted(self, provider: SampleProvider = OLD) -> bool:
        return isinstance(await self.validator.validate(self.token(provider)), CredentialsAccepted)


def play(story: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World()
        await story(world)
        await world.validator.close()

    asyncio.run(run())


def test_keys_are_fetched_once() -> None:
    async def story(world: World) -> None:
        assert all([await world.is_accepted() for _ in range(5)])
        assert world.fetches == 1

    play(story)


def test_many_tokens_share_one_fetch() -> None:
    async def story(world: World) -> None:
        world.gate = asyncio.Event()
        waiting = [asyncio.ensure_future(world.is_accepted()) for _ in range(20)]
        await asyncio.sleep(0)
        world.gate.set()
        assert all(await asyncio.gather(*waiting))
        assert world.fetches == 1

    play(story)


def test_a_caller_that_leaves_does_not_stop_the_fetch_of_others() -> None:
    async def story(world: World) -> None:
        world.gate = asyncio.Event()
        first, second = (asyncio.ensure_future(world.is_accepted()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        world.gate.set()
        assert await second

    play(story)


def test_without_keys_nobody_is_accepted() -> None:
    async def story(world: World) -> None:
        world.content = None
        verdict = await world.validator.validate(world.token())
        assert verdict == CredentialsRejected(
            "the keys of the provider are not available", AuthFailureKind.UNAVAILABLE
        )
        world.content = b"{}"
        world.ms += REFRESH_MS_MIN
        assert not await world.is_accepted()
        world.content = OLD.key_set()
        world.ms += REFRESH_MS_MIN
        assert await world.is_accepted()

    play(story)


def test_a_new_key_is_fetched_when_a_token_uses_it() -> None:
    async def story(world: World) -> None:
        assert await world.is_accepted()
        world.content = NEW.key_set()
        world.ms += REFRESH_MS_MIN
        assert await world.is_accepted(NEW)
        assert not await world.is_accepted(OLD), "the old key was withdrawn"

    play(story)


def test_unknown_keys_cannot_flood_the_provider() -> None:
    async def story(world: World) -> None:
        assert await world.is_accepted()
        world.ms += REFRESH_MS_MIN
        for _ in range(50):
            assert not await world.is_accepted(NEW)
        assert world.fetches == 2
        assert await world.is_accepted(), "others are not affected"

    play(story)


def test_keys_are_refreshed_in_the_background() -> None:
    async def story(world: World) -> None:
        assert await world.is_accepted()
        world.ms += REFRESH_MS
        world.content = NEW.key_set()
        assert await world.is_accepted(), "the old keys serve while the new ones are fetched"
        await asyncio.sleep(0)
        assert world.fetches == 2
        assert not await world.is_accepted()

    play(story)


def test_keys_survive_a_provider_that_is_down_for_a_day(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        assert await world.is_accepted()
        world.content = None
        for _ in range(10):
            world.ms += STALE_MS_MAX // 11
            assert await world.is_accepted()
            await asyncio.sleep(0)
        world.ms = NOW_MS + STALE_MS_MAX
        assert not await world.is_accepted()
        world.content = OLD.key_set()
        world.ms += REFRESH_MS_MIN
        assert await world.is_accepted()

    play(story)
    assert caplog.text.count("cannot refresh the keys") == 1


def test_a_refused_token_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        token = world.token(aud="other")
        verdict = await world.validator.validate(token)
        assert isinstance(verdict, CredentialsRejected)
        assert token.reveal_text() not in verdict.reason + caplog.text

    play(story)


def test_a_clock_that_goes_back_does_not_lock_out() -> None:
    async def story(world: World) -> None:
        world.content = None
        assert not await world.is_accepted()
        world.ms -= 10 * REFRESH_MS
        world.content = OLD.key_set()
        assert await world.is_accepted()

    play(story)
