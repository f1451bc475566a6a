"""Which mechanisms a listener offers, and the exchanges for them. Secrets in the clear need an encrypted connection."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from penstock.core.authentication.scram import CredentialLookup, ScramMechanism
from penstock.core.errors import InvalidConfig
from penstock.core.ports import Rng
from penstock.wire.sasl.oauthbearer import OAUTHBEARER, OauthBearerExchange
from penstock.wire.sasl.plain import PLAIN, PlainExchange
from penstock.wire.sasl.scram import ScramExchange
from penstock.wire.sasl.steps import SaslExchange

MECHANISMS = (ScramMechanism.SHA_512.value, ScramMechanism.SHA_256.value, OAUTHBEARER, PLAIN)
"""All mechanisms, the strongest first."""

_IN_THE_CLEAR = frozenset({PLAIN, OAUTHBEARER})
"""Mechanisms that send the secret itself."""
_NONCE_BYTES = 24


class SaslOffer:
    """The mechanisms that are enabled. `rng` must be unpredictable."""

    def __init__(
        self,
        enabled: Iterable[str],
        lookup: CredentialLookup,
        rng: Rng,
        *,
        scope: str = "",
        discovery_url: str = "",
    ) -> None:
        """Raises InvalidConfig for an unknown mechanism."""
        wanted = {name.strip().upper() for name in enabled}
        if unknown := sorted(wanted.difference(MECHANISMS)):
            raise InvalidConfig(f"unknown SASL mechanism {unknown[0]!r}: allowed are {', '.join(MECHANISMS)}")
        self._enabled = tuple(name for name in MECHANISMS if name in wanted)
        self._lookup = lookup
        self._rng = rng
        self._hints = scope, discovery_url

    def mechanisms(self, *, is_encrypted: bool) -> tuple[str, ...]:
        """What is offered on a connection."""
        return tuple(name for name in self._enabled if is_encrypted or name not in _IN_THE_CLEAR)

    def start(self, mechanism: str) -> SaslExchange:
        """A new exchange for a mechanism that was offered."""
        assert mechanism in self._enabled, "not offered"
        if mechanism == PLAIN:
            return PlainExchange()
        if mechanism == OAUTHBEARER:
            return OauthBearerExchange(*self._hints)
        nonce = base64.b64encode(self._rng.bytes(_NONCE_BYTES)).decode()
        return ScramExchange(ScramMechanism(mechanism), self._lookup, nonce)
