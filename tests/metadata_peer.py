"""A peer of the coordinator in the same process, through the real codec and connection, and without a socket."""

from __future__ import annotations

from in_process_client import Line, receive
from penstock.node.connections.addresses import Address
from penstock.node.connections.listener import Listener
from penstock.node.metadata_coordinator import MetadataCoordinator
from penstock.wire.metadata.frames import (
    LENGTH_BYTES,
    NONCE_BYTES,
    PROTOCOL_LEVEL,
    Challenge,
    Hello,
    Message,
    Proof,
    Welcome,
    decode,
    encode,
)
from penstock.wire.metadata.handshake import prove_broker

SECRET = bytes(32)
HELLO = Hello(PROTOCOL_LEVEL, 1, "", bytes(NONCE_BYTES))


class Peer:
    """One connection; nothing is sent by itself."""

    def __init__(self, coordinator: MetadataCoordinator) -> None:
        listener = Listener(coordinator._gate, Address("127.0.0.1", 0), lambda: coordinator._service)
        self.connection = listener.connect()
        self.line = Line(self.connection)
        self.connection.connection_made(self.line)  # type: ignore[arg-type]

    def feed(self, content: bytes) -> None:
        receive(self.connection, self.line, content)

    def send(self, number: int, message: Message) -> None:
        self.feed(encode(number, message))

    def received(self) -> list[tuple[int, Message]]:
        """What has come since the last call."""
        found, raw = [], bytes(self.line.sent)
        self.line.sent.clear()
        while raw:
            end = LENGTH_BYTES + int.from_bytes(raw[:LENGTH_BYTES], "big")
            found.append(decode(raw[LENGTH_BYTES:end]))
            raw = raw[end:]
        return found

    def prove(self) -> Peer:
        """Complete the handshake."""
        self.send(0, HELLO)
        [(_, challenge)] = self.received()
        assert isinstance(challenge, Challenge)
        self.send(0, Proof(prove_broker(SECRET, HELLO, challenge)))
        [(_, welcome)] = self.received()
        assert isinstance(welcome, Welcome)
        return self
