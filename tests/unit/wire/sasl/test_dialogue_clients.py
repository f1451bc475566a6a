"""The SASL code of third-party clients, without their sockets, against ours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.conn import SaslPlainAuthenticator, ScramAuthenticator
from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth
from kafka.net.sasl.plain import SaslMechanismPlain
from kafka.net.sasl.scram import SaslMechanismScram

from penstock.core.authentication.failure import NotAuthenticated
from penstock.node.runtime.clock import SystemRng
from penstock.wire.sasl.dialogue import SaslDialogue
from penstock.wire.sasl.offer import MECHANISMS, SaslOffer
from penstock.wire.sasl.steps import CheckBearer, CheckPassword, CredentialsAccepted, CredentialsRejected
from security_samples import LOOKUP

NOW_MS = 1_000_000
OFFER = SaslOffer(MECHANISMS, LOOKUP, SystemRng())


def begun(mechanism: str) -> SaslDialogue:
    dialogue = SaslDialogue(MECHANISMS, OFFER.start)
    dialogue.handshake(mechanism, 1)
    return dialogue


def answer(dialogue: SaslDialogue, token: bytes) -> bytes:
    """The answer to a token; passwords are looked up, and the bearer token `good` is valid."""
    step = dialogue.receive(token, NOW_MS)
    if isinstance(step, CheckPassword):
        is_right, user = LOOKUP.is_password(step.user, step.password), step.user
    elif isinstance(step, CheckBearer):
        is_right, user = step.bearer.reveal() == b"good", "alice"
    else:
        return step.token
    verdict = CredentialsAccepted(user) if is_right else CredentialsRejected("wrong")
    step = dialogue.resolve(verdict, NOW_MS)
    assert not isinstance(step, CheckPassword | CheckBearer)
    return step.token


def run_kafka_python(dialogue: SaslDialogue, client: Any) -> None:
    while not client.is_done():
        client.receive(answer(dialogue, client.auth_bytes()))


class Provider(AbstractTokenProvider):  # type: ignore[misc]
    """Always the same token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token

    def extensions(self) -> dict[str, str]:
        return {"traceId": "123"}


def kafka_python(mechanism: str, password: str) -> Any:
    if mechanism == "OAUTHBEARER":
        return SaslMechanismOAuth(sasl_oauth_token_provider=Provider(password))
    kind = SaslMechanismPlain if mechanism == "PLAIN" else SaslMechanismScram
    return kind(
        sasl_plain_username="alice",
        sasl_plain_password=password,
        sasl_mechanism=mechanism,
        security_protocol="SASL_SSL",
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(mechanism: str) -> None:
    dialogue = begun(mechanism)
    run_kafka_python(
        dialogue, kafka_python(mechanism, "good" if mechanism == "OAUTHBEARER" else "wonderland")
    )
    assert dialogue.user == "alice"
    dialogue = begun(mechanism)
    with pytest.raises(NotAuthenticated):
        run_kafka_python(dialogue, kafka_python(mechanism, "guess"))
    assert dialogue.user is None


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(("user", "password"), [("alice", "wonderland"), ("a=b,c", "pass=word,")])
def test_aiokafka(mechanism: str, user: str, password: str) -> None:
    dialogue = begun(mechanism)

    async def run() -> None:
        login: dict[str, Any] = {"sasl_plain_username": user, "sasl_plain_password": password}
        loop = asyncio.get_running_loop()
        client = (
            SaslPlainAuthenticator(loop=loop, **login)
            if mechanism == "PLAIN"
            else ScramAuthenticator(loop=loop, sasl_mechanism=mechanism, **login)
        )
        payload: bytes | None = None
        while (step := await client.step(payload)) is not None:
            payload = answer(dialogue, step[0])

    asyncio.run(run())
    assert dialogue.user == user
