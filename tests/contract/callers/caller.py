"""What every caller can do, whatever the door. Never repairs anything: what the broker says is what the test sees."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, Self

from penstock.testing import Broker

ANSWER_S_MAX = 30.0


class Message(NamedTuple):
    """What is put in."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Kept(NamedTuple):
    """What is read, and where it lies."""

    offset: int
    message: Message


class Refused(Exception):
    """The door said no; `word` is its own word for the reason."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


class Caller(ABC):
    """One connection to one door. Everything is about partition 0."""

    door: ClassVar[str]
    words: ClassVar[dict[str, str]]
    """How this door says what every door must be able to say; the last words of a connection too."""

    def __init__(self, broker: Broker) -> None:
        self.connect(broker.host, self.port_of(broker))

    def connect(self, host: str, port: int) -> None:
        """Open the connection that everything goes over from now on."""
        self._socket = socket.create_connection((host, port), timeout=ANSWER_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._came = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    # -- in the door's language

    @classmethod
    def port_of(cls, broker: Broker) -> int:
        return int(getattr(broker, f"{cls.door}_port"))

    @abstractmethod
    def publish(self, topic: str, message: Message) -> int:
        """The offset. Raises Refused."""

    @abstractmethod
    def read(self, topic: str, offset: int) -> Kept:
        """The message at an offset. Raises Refused."""

    @abstractmethod
    def request(self, topic: str) -> bytes:
        """A small request that is answered, for those who never read answers."""

    @abstractmethod
    def half(self, topic: str) -> bytes:
        """A request that begins well and is not complete."""

    @abstractmethod
    def malformed(self) -> bytes:
        """Bytes that are no request in this door's language."""

    @abstractmethod
    def announced(self, topic: str, size_bytes: int) -> bytes:
        """The beginning of a publish that will have so many bytes."""

    @abstractmethod
    def last_word(self, said: bytes) -> str:
        """The reason in what the broker said before it hung up."""

    # -- in bytes

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_some(self, data: bytes, wait_s: float) -> int:
        """As much as goes out within a moment; 0 when the broker does not read."""
        self._socket.settimeout(wait_s)
        try:
            return self._socket.send(data)
        except TimeoutError:
            return 0
        finally:
            self._socket.settimeout(ANSWER_S_MAX)

    def exactly(self, size: int) -> bytes:
        while len(self._came) < size:
            self._receive()
        taken = bytes(self._came[:size])
        del self._came[:size]
        return taken

    def until(self, mark: bytes) -> bytes:
        """Everything before the mark, which is taken too."""
        while mark not in self._came:
            self._receive()
        taken, _, rest = bytes(self._came).partition(mark)
        self._came = bytearray(rest)
        return taken

    def _receive(self) -> None:
        part = self._socket.recv(1 << 16)
        if not part:
            raise ConnectionError(f"the broker hung up on {self.door}")
        self._came += part

    def end(self) -> None:
        """Say that no more will be sent."""
        self._socket.shutdown(socket.SHUT_WR)

    def rest(self) -> bytes:
        """What the broker still says, until it hangs up."""
        try:
            while True:
                self._receive()
        except ConnectionError:
            return bytes(self._came)
