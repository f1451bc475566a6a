"""A client that does nothing wrong: one record at a time, acknowledged, while others misbehave.

It measures each wait in CPU time of the broker's loop: from just before the request is sent (read from /proc) to just
before the answer is written (noted by the probe). A busy machine therefore does not lengthen a wait.
"""

from __future__ import annotations

import mmap
import socket
import struct
import threading
from pathlib import Path
from time import monotonic

from compat.raw import RawConnection, batch
from hostile.probe import ANSWERED_CELL, AREA_BYTES, CELL, COLLECTED_CELL, GOOD_CLIENT
from penstock.wire.kafka import ApiKey, encode_request, messages

TOPIC = "good"
ANSWER_S_MAX = 120.0
PAUSE_S = 0.002


def loop_cpu_ns(pid: int) -> int:
    """CPU time that the main thread of a process has used."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])


def _produce() -> bytes:
    request = messages.ProduceRequest
    partition = request.PartitionProduceData(index=0, records=memoryview(batch(b"value")))
    topic = request.TopicProduceData(name=TOPIC, partition_data=[partition])
    body = request(transactional_id=None, acks=-1, timeout_ms=60_000, topic_data=[topic])
    return encode_request(ApiKey.PRODUCE, 9, 1, GOOD_CLIENT, body)


class GoodClient:
    """Produces in a thread of its own between `start` and `stop`."""

    def __init__(self, host: str, port: int, pid: int, area: Path) -> None:
        self._pid = pid
        with area.open("r+b") as file:
            self._area = mmap.mmap(file.fileno(), AREA_BYTES)
        with RawConnection(f"{host}:{port}", client_id="good-client-setup") as setup:
            setup.create_topic(TOPIC, penstock_durability="os")  # or a slow disk would count as a busy loop
        self._socket = socket.create_connection((host, port), timeout=ANSWER_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._request = _produce()
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self.answers = 0
        self.longest_cpu_ns = 0
        self.longest_s = 0.0
        self._ask()  # the connection and the broker's code are warm before anything counts
        self._reset()

    def _reset(self) -> None:
        self.answers, self.longest_cpu_ns, self.longest_s = 0, 0, 0.0

    @property
    def collected_ms(self) -> float:
        """The longest garbage collection since `start`."""
        longest_ns: int = CELL.unpack_from(self._area, COLLECTED_CELL)[0]
        return longest_ns / 1e6

    def start(self) -> None:
        self._reset()
        CELL.pack_into(self._area, COLLECTED_CELL, 0)
        self._ends.clear()
        self._thread = threading.Thread(target=self._run, name="good-client", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends once the request in flight is answered; raises what went wrong meanwhile."""
        assert self._thread is not None
        self._ends.set()
        self._thread.join()
        if self._failure is not None:
            raise AssertionError(f"the good client was not served: {self._failure!r}") from self._failure

    def _run(self) -> None:
        try:
            while not self._ends.wait(PAUSE_S):
                self._ask()
            self._ask()  # at least one request after the attack: it may have left something behind
        except (OSError, AssertionError) as error:
            self._failure = error

    def _ask(self) -> None:
        started_s, started_ns = monotonic(), loop_cpu_ns(self._pid)
        self._socket.sendall(self._request)
        frame = self._exactly(struct.unpack(">i", self._exactly(4))[0])
        answered_ns: int = CELL.unpack_from(self._area, ANSWERED_CELL)[0]
        self.answers += 1
        self.longest_s = max(self.longest_s, monotonic() - started_s)
        self.longest_cpu_ns = max(self.longest_cpu_ns, answered_ns - started_ns)
        (error_code,) = struct.unpack_from(">h", frame, 4 + 1 + 1 + 1 + len(TOPIC) + 1 + 4)
        assert error_code == 0, f"produce failed with error {error_code}"

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the broker closed the good client's connection")
            data += part
        return bytes(data)

    def close(self) -> None:
        self._socket.close()
