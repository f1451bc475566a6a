"""The client's side of the queue protocol without a socket: answers, messages, what is held, and bytes that lie."""

from __future__ import annotations

import pytest

from penstock.client import errors
from penstock.client.queue.session import HeldMessage, Message, QueueResponse, QueueSession
from penstock.wire.queue.frames import Frame, MessageType, decode, encode

M = MessageType
PLACE = (("@subscription", "s"), ("@topic", "t"), ("@partition", "2"), ("@delivery", "3"))


class Told:
    """A session and everything that it has called back with."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.ended: list[tuple[str, errors.ClientError]] = []
        self.refused: list[tuple[HeldMessage, errors.ClientError]] = []
        self.answers: list[QueueResponse | errors.ClientError] = []
        self.session = QueueSession(
            self.messages.append,
            lambda name, error: self.ended.append((name, error)),
            lambda held, error: self.refused.append((held, error)),
        )

    def ask(self) -> str:
        """The mark of a request that waits for its answer."""
        raw = self.session.request(M.PUBLISH, (("@topic", "t"),), self.answers.append)
        return dict(decode(raw).properties)["@request"]

    def hear(self, kind: MessageType, *properties: tuple[str, str], sequence: int = -1) -> None:
        self.session.feed(encode(Frame(kind, sequence, 7, properties, b"body")), 100.0)


def test_answers_find_their_requests_in_any_order() -> None:
    told = Told()
    first, second = told.ask(), told.ask()
    told.hear(M.ACK, ("@status", "success"), ("@request", second), sequence=9)
    told.hear(M.ACK, ("@status", "error"), ("@code", "UNKNOWN_TOPIC"), ("@error", "no"), ("@request", first))
    good, bad = told.answers
    assert isinstance(good, QueueResponse) and good.sequence == 9
    assert isinstance(bad, errors.NotFound) and (bad.code, bad.message) == ("UNKNOWN_TOPIC", "no")


def test_what_is_delivered_is_held_until_it_is_settled_and_renewed_meanwhile() -> None:
    told = Told()
    told.hear(M.DATA, *PLACE, ("color", "red"), sequence=5)
    (message,) = told.messages
    assert (message.partition, message.offset, message.delivery, message.timestamp_ms) == (2, 5, 3, 7)
    assert message.properties == {"color": "red"}
    held = HeldMessage("s", 2, 5)
    assert told.session.renew(105.0, 10.0) == b""
    assert ("@outcome", "renew") in decode(told.session.renew(110.0, 10.0)).properties
    assert told.session.renew(111.0, 10.0) == b"", "it was just done"
    said = decode(told.session.settle(held, "release", "why\0not") or b"")
    assert said.sequence == 5 and ("@reason", "why\\0not") in said.properties
    assert told.session.settle(held, "accept") is None


def test_what_is_left_is_forgotten_and_what_is_lost_is_told() -> None:
    told = Told()
    told.hear(M.DATA, *PLACE, sequence=5)
    told.session.forget("s")
    assert told.session.held == {}
    told.ask()
    told.session.lose(errors.Unreachable("gone"))
    assert [str(one) for one in told.answers] == ["gone"]


def test_refusals_and_ends_are_told_apart() -> None:
    told = Told()
    error = (("@status", "error"), ("@code", "NOT_HELD"), ("@error", "late"), ("@retriable", "true"))
    told.hear(M.ACK, *error, ("@subscription", "s"), ("@partition", "1"), sequence=4)
    told.hear(M.ACK, *error, ("@subscription", "s"))
    assert told.refused[0][0] == HeldMessage("s", 1, 4)
    assert told.ended[0][0] == "s" and told.ended[0][1].retriable
    with pytest.raises(errors.Unreachable, match="the broker closed the connection: late"):
        told.hear(M.ACK, *error)


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        encode(Frame(M.DATA, 0, 0, (("@topic", "t"),))),
        encode(Frame(M.DATA, 0, 0, (*PLACE[:2], ("@partition", "x"), PLACE[3]))),
        b"\0\0\0\x05hello",
    ],
)
def test_who_does_not_speak_the_protocol_is_found_out(raw: bytes) -> None:
    with pytest.raises(errors.Unreachable, match="does not speak the queue protocol"):
        Told().session.feed(raw, 0.0)
