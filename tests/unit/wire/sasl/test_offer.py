"""Which mechanisms are offered: secrets in the clear only over an encrypted connection."""

from __future__ import annotations

import pytest

from penstock.core.errors import InvalidConfig
from penstock.node.runtime.clock import SystemRng
from penstock.wire.sasl.oauthbearer import OauthBearerExchange
from penstock.wire.sasl.offer import MECHANISMS, SaslOffer
from penstock.wire.sasl.plain import PlainExchange
from penstock.wire.sasl.scram import ScramExchange
from security_samples import LOOKUP, log_in


def offer(*enabled: str) -> SaslOffer:
    return SaslOffer(enabled, LOOKUP, SystemRng())


def test_secrets_in_the_clear_need_encryption() -> None:
    every = offer(*MECHANISMS)
    assert every.mechanisms(is_encrypted=True) == MECHANISMS
    assert every.mechanisms(is_encrypted=False) == ("SCRAM-SHA-512", "SCRAM-SHA-256")
    assert offer("PLAIN").mechanisms(is_encrypted=False) == ()


def test_only_what_is_enabled_is_offered() -> None:
    assert offer(" scram-sha-256 ").mechanisms(is_encrypted=True) == ("SCRAM-SHA-256",)


def test_an_unknown_mechanism_is_an_error() -> None:
    with pytest.raises(InvalidConfig, match="unknown SASL mechanism 'GSSAPI': allowed are SCRAM-SHA-512"):
        offer("GSSAPI")


def test_every_exchange_has_its_own_nonce() -> None:
    every = offer(*MECHANISMS)
    challenges = {every.start("SCRAM-SHA-256").receive(b"n,,n=alice,r=clientnonce") for _ in range(10)}
    assert len(challenges) == 10


def test_each_mechanism_has_its_exchange() -> None:
    every = offer(*MECHANISMS)
    assert isinstance(every.start("PLAIN"), PlainExchange)
    assert isinstance(every.start("OAUTHBEARER"), OauthBearerExchange)
    assert isinstance(every.start("SCRAM-SHA-512"), ScramExchange)
    assert log_in(every.start("SCRAM-SHA-512"), "SCRAM-SHA-512", "alice", "wonderland").user == "alice"
