"""CPU time that the kernel alone needs per GB from a socket to a file or back: the lower bound for any broker.

`python -m bench.kernel_floor sink|source FILE BYTES` prints its port, serves one connection, then prints its CPU
seconds.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from penstock.apps.bench.harness.loader import RESPONSE_S_MAX
from penstock.apps.bench.harness.machine import on_cpu

CHUNK_BYTES = 1 << 20
"""About the size of a full librdkafka batch."""
RUNS = 3


def sink(connection: socket.socket, fd: int, total_bytes: int) -> None:
    """Receive and write in chunks."""
    chunk = memoryview(bytearray(CHUNK_BYTES))
    position = 0
    while position < total_bytes:
        wanted = min(CHUNK_BYTES, total_bytes - position)
        count = connection.recv_into(chunk, wanted)
        if not count:
            raise ConnectionError(f"the load ended after {position} of {total_bytes} bytes")
        position += os.pwrite(fd, chunk[:count], position)


def source(connection: socket.socket, fd: int, total_bytes: int) -> None:
    """Send the file with sendfile."""
    position = 0
    while position < total_bytes:
        count = min(CHUNK_BYTES, total_bytes - position)
        position += os.sendfile(connection.fileno(), fd, position, count)


def main(verb: str, path: str, total_bytes: int) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    connection, _ = listening.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
    before_s = time.process_time()
    {"sink": sink, "source": source}[verb](connection, fd, total_bytes)
    print(time.process_time() - before_s, flush=True)
    connection.close()


def floor_s_per_gb(cpu: int, verb: str, path: Path, total_bytes: int) -> float:
    """The minimum of a few runs: other work on the machine can only add CPU time."""
    costs: list[float] = []
    for _ in range(RUNS):
        if verb == "sink":
            path.unlink(missing_ok=True)
        costs.append(_cost_s_per_gb(cpu, verb, path, total_bytes))
    return min(costs)


def _cost_s_per_gb(cpu: int, verb: str, path: Path, total_bytes: int) -> float:
    """CPU seconds per GB of such a process on the broker's CPU, while this process sends or receives."""
    command = [sys.executable, "-m", "bench.kernel_floor", verb, str(path), str(total_bytes)]
    with on_cpu(cpu):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline())
    with socket.create_connection(("127.0.0.1", port), timeout=RESPONSE_S_MAX) as load:
        if verb == "sink":
            _send(load, total_bytes)
        else:
            _receive(load, total_bytes)
        out, _ = process.communicate(timeout=RESPONSE_S_MAX)
    if process.returncode:
        raise ConnectionError(f"the bare {verb} ended with code {process.returncode}")
    return float(out) / (total_bytes / 1e9)


def _send(load: socket.socket, total_bytes: int) -> None:
    chunk = memoryview(os.urandom(CHUNK_BYTES))
    left = total_bytes
    while left:
        count = min(left, CHUNK_BYTES)
        load.sendall(chunk[:count])
        left -= count


def _receive(load: socket.socket, total_bytes: int) -> None:
    chunk = bytearray(CHUNK_BYTES)
    left = total_bytes
    while left:
        count = load.recv_into(chunk)
        if not count:
            raise ConnectionError(f"the bare source ended {left} bytes early")
        left -= count


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
