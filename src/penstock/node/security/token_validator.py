"""Validates bearer tokens against a provider's keys, which it fetches, refreshes and forgets. Fails closed.

Keys are refreshed in the background. A token signed by an unknown key asks for a refresh, at most once per interval,
so that invented key ids cannot make the broker flood its provider. Keys that could not be refreshed for a day are
dropped: a key that was revoked meanwhile must not stay valid.
"""

from __future__ import annotations

import asyncio
import logging

from penstock.core.authentication.failure import AuthFailureKind
from penstock.core.authentication.secret import Secret
from penstock.core.errors import InvalidConfig
from penstock.core.ports import Clock
from penstock.node.security.bearer_token import SigningKeyUnknown, TokenPolicy, TokenRejected, validate_token
from penstock.node.security.key_set import KeySet, decode_key_set
from penstock.node.security.key_source import FetchKeys, KeysUnavailable
from penstock.wire.sasl.steps import CredentialsRejected, Verdict

logger = logging.getLogger("penstock.security")

REFRESH_MS = 3_600_000
REFRESH_MS_MIN = 10_000
"""The least time between two fetches, whatever tokens ask for."""
STALE_MS_MAX = 24 * 3_600_000


class TokenValidator:
    """One per provider. Belongs to one loop."""

    def __init__(self, policy: TokenPolicy, fetch: FetchKeys, clock: Clock) -> None:
        self._policy = policy
        self._fetch = fetch
        self._clock = clock
        self._keys: KeySet | None = None
        self._fetched_ms = 0
        """When the keys in use were fetched."""
        self._tried_ms: int | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._failure = ""
        """The last failure to fetch keys, which is logged once."""

    async def validate(self, bearer: Secret) -> Verdict:
        """The user of a token, or why it is refused."""
        if self._usable_keys() is None:
            await self._refresh()
        elif self._clock.now_ms() - self._fetched_ms >= REFRESH_MS:
            self._start_refresh()
        try:
            return self._validate(bearer)
        except SigningKeyUnknown as error:
            if not await self._refresh():
                return CredentialsRejected(str(error))
        except TokenRejected as error:
            return CredentialsRejected(str(error))
        try:
            return self._validate(bearer)
        except TokenRejected as error:
            return CredentialsRejected(str(error))

    async def close(self) -> None:
        """Stop a refresh that is running."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    def _validate(self, bearer: Secret) -> Verdict:
        keys = self._usable_keys()
        if keys is None:
            return CredentialsRejected(
                "the keys of the provider are not available", AuthFailureKind.UNAVAILABLE
            )
        return validate_token(bearer, keys, self._policy, self._clock.now_ms())

    def _usable_keys(self) -> KeySet | None:
        is_fresh = self._clock.now_ms() - self._fetched_ms < STALE_MS_MAX
        return self._keys if is_fresh else None

    async def _refresh(self) -> bool:
        """Fetch the keys, or wait for a fetch that is running. False if the last one is too recent."""
        task = self._start_refresh()
        if task is None:
            return False
        await asyncio.shield(task)
        return True

    def _start_refresh(self) -> asyncio.Task[None] | None:
        if self._refreshing is None:
            now_ms = self._clock.now_ms()
            if self._tried_ms is not None and 0 <= now_ms - self._tried_ms < REFRESH_MS_MIN:
                return None
            self._tried_ms = now_ms
            self._refreshing = asyncio.get_running_loop().create_task(self._run_refresh())
            self._refreshing.add_done_callback(self._refreshed)
        return self._refreshing

    def _refreshed(self, _task: asyncio.Task[None]) -> None:
        self._refreshing = None

    async def _run_refresh(self) -> None:
        try:
            keys = decode_key_set(await self._fetch())
        except (KeysUnavailable, InvalidConfig) as error:
            if str(error) != self._failure:
                self._failure = str(error)
                logger.warning(
                    "cannot refresh the keys of %s; %s: %s",
                    self._policy.issuer,
                    "tokens are refused" if self._usable_keys() is None else "the old keys stay in use",
                    error,
                    extra={"issuer": self._policy.issuer},
                )
            return
        self._keys, self._fetched_ms, self._failure = keys, self._clock.now_ms(), ""
        for why in keys.ignored:
            logger.info(
                "ignored a key of %s: %s", self._policy.issuer, why, extra={"issuer": self._policy.issuer}
            )
