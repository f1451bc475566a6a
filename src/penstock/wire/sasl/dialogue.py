"""SASL on one Kafka connection: handshake, tokens, re-authentication (KIP-368). The door frames and sends.

    NEW ──handshake──▶ EXCHANGE ──token──▶ EXCHANGE or CHECKING ──verdict──▶ EXCHANGE or AUTHENTICATED
    AUTHENTICATED ──handshake──▶ EXCHANGE (again, as the same user with the same mechanism)
    anything else ──▶ FAILED: the connection ends

After SaslHandshake version 0 the tokens come as frames of their own, without a request around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from penstock.core.authentication.failure import AuthFailureKind, NotAuthenticated
from penstock.wire.sasl.steps import Authenticated, SaslChallenge, SaslExchange, SaslStep, Verdict

StartExchange = Callable[[str], SaslExchange]
"""Creates the exchange of a mechanism that was offered."""


class SaslState(Enum):
    """Where the connection is."""

    NEW = "new"
    EXCHANGE = "exchange"
    CHECKING = "checking"
    AUTHENTICATED = "authenticated"
    FAILED = "failed"


_ALLOWED = {
    "handshake": (SaslState.NEW, SaslState.AUTHENTICATED),
    "token": (SaslState.EXCHANGE,),
    "verdict": (SaslState.CHECKING,),
}
"""The states in which each event is expected."""

_UNEXPECTED = {
    "handshake": "SaslHandshake is not expected in the middle of an exchange",
    "token": "SaslHandshake comes before SaslAuthenticate",
    "verdict": "no credentials are being checked",
}


class SaslDialogue:
    """One per connection. `mechanisms` are those that this listener offers; `reauthenticate_ms_max` limits sessions."""

    def __init__(
        self, mechanisms: Sequence[str], start: StartExchange, reauthenticate_ms_max: int | None = None
    ) -> None:
        self.mechanisms = tuple(mechanisms)
        """The answer to every SaslHandshake, also to those that succeed: several clients look for theirs."""
        self._start = start
        self._session_ms_max = reauthenticate_ms_max
        self._state = SaslState.NEW
        self._exchange: SaslExchange | None = None
        self._mechanism = ""
        self._is_raw = False
        self._user: str | None = None
        self._expires_ms: int | None = None
        self.session_lifetime_ms = 0
        """What SaslAuthenticate version 1 and later tells the client; 0: no limit."""

    @property
    def state(self) -> SaslState:
        return self._state

    @property
    def user(self) -> str | None:
        """Who the client is; None before it has proven it, and while it proves it again."""
        return self._user if self._state is SaslState.AUTHENTICATED else None

    @property
    def mechanism(self) -> str:
        return self._mechanism

    @property
    def takes_raw_tokens(self) -> bool:
        """Whether the next frame is a token without a request around it; so is its answer, without an error code."""
        return self._is_raw and self._state is SaslState.EXCHANGE

    def handshake(self, mechanism: str, version: int) -> None:
        """SaslHandshake. Raises NotAuthenticated: MECHANISM if it is not offered, STATE if it comes too late."""
        is_again = self._state is SaslState.AUTHENTICATED
        self._expect("handshake")
        if mechanism not in self.mechanisms:
            offered = ", ".join(self.mechanisms) or "none"
            raise NotAuthenticated(
                AuthFailureKind.MECHANISM,
                f"the SASL mechanism {mechanism[:40]!r} is not offered here; offered: {offered}",
            )
        if is_again and mechanism != self._mechanism:
            raise NotAuthenticated(
                AuthFailureKind.MECHANISM,
                f"re-authentication must use the same mechanism, {self._mechanism}, not {mechanism}",
            )
        if is_again and version < 1:
            raise NotAuthenticated(
                AuthFailureKind.STATE, "re-authentication needs SaslHandshake version 1 and SaslAuthenticate"
            )
        self._mechanism, self._is_raw = mechanism, version < 1
        self._exchange = self._start(mechanism)
        self._state = SaslState.EXCHANGE

    def receive(self, token: bytes, now_ms: int) -> SaslStep:
        """One token of the client. Raises NotAuthenticated."""
        self._expect("token")
        assert self._exchange is not None
        return self._advance(self._exchange.receive(token), now_ms)

    def resolve(self, verdict: Verdict, now_ms: int) -> SaslStep:
        """The verdict on the last step. Raises NotAuthenticated."""
        self._expect("verdict")
        assert self._exchange is not None
        return self._advance(self._exchange.resolve(verdict), now_ms)

    def is_expired(self, now_ms: int) -> bool:
        """Whether the client must prove itself again before its next request; otherwise the connection ends."""
        return self._expires_ms is not None and now_ms >= self._expires_ms

    def _expect(self, event: str) -> None:
        """Whatever raises from here on leaves the connection failed: nobody gets a second attempt on it."""
        state, self._state = self._state, SaslState.FAILED
        if state not in _ALLOWED[event]:
            raise NotAuthenticated(AuthFailureKind.STATE, _UNEXPECTED[event])

    def _advance(self, step: SaslStep, now_ms: int) -> SaslStep:
        if isinstance(step, SaslChallenge):
            self._state = SaslState.EXCHANGE
        elif isinstance(step, Authenticated):
            self._finish(step, now_ms)
        else:
            self._state = SaslState.CHECKING
        return step

    def _finish(self, step: Authenticated, now_ms: int) -> None:
        if self._user is not None and step.user != self._user:
            raise NotAuthenticated(
                AuthFailureKind.CREDENTIALS,
                "re-authentication must be as the same user",
                f"user {self._user!r} re-authenticated as {step.user!r}",
            )
        limits = [] if step.expires_ms is None else [step.expires_ms - now_ms]
        if self._session_ms_max:
            limits.append(self._session_ms_max)
        lifetime_ms = min(limits, default=0)
        if limits and lifetime_ms <= 0:
            raise NotAuthenticated(
                AuthFailureKind.CREDENTIALS, "authentication failed: the credentials have expired"
            )
        self._user, self._exchange = step.user, None
        self._expires_ms = now_ms + lifetime_ms if limits else None
        self.session_lifetime_ms = lifetime_ms
        self._state = SaslState.AUTHENTICATED
