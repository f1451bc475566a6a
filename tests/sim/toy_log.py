"""A log server that one can see through, with bugs to plant in it. Never used but to test this simulator."""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass

from penstock.core.ports import File
from sim.loop import SimLoop
from sim.machine import Machine
from sim.net import Farewell

PORT = 7000
ANSWER_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Bugs:
    """What is wrong with this server."""

    acks_before_sync: bool = False
    forgets_dir_sync: bool = False
    trusts_tail: bool = False
    """Does not check the bytes at the end of the file when it starts."""


def _encode(number: int) -> bytes:
    body = number.to_bytes(8, "big") * 30
    return zlib.crc32(body).to_bytes(4, "big") + body


RECORD_BYTES = len(_encode(0))


def read_numbers(file: File) -> list[int]:
    """The numbers up to the first record that is torn."""
    numbers = []
    for position in range(0, file.size() - RECORD_BYTES + 1, RECORD_BYTES):
        number = int.from_bytes(file.read(position + 4, 8), "big")
        if file.read(position, RECORD_BYTES) != _encode(number):
            break
        numbers.append(number)
    return numbers


async def serve(machine: Machine, bugs: Bugs) -> None:
    """Recover, then append each number that arrives and answer with it once it is kept."""
    machine.files.make_dir("toy")
    file = machine.files.open("toy/log", create=True)
    if not bugs.forgets_dir_sync:
        machine.files.sync_dir("toy")
        machine.files.sync_dir("")
    file.truncate(file.size() if bugs.trusts_tail else len(read_numbers(file)) * RECORD_BYTES)

    async def sync() -> None:
        done = asyncio.get_running_loop().create_future()
        machine.workers.submit(file.sync, done.set_result)
        result = await done
        if isinstance(result, BaseException):
            raise result

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            file.append([_encode(int(line))])
            if bugs.acks_before_sync:
                writer.write(line)
                await sync()
            else:
                await sync()
                writer.write(line)

    await asyncio.start_server(talk, port=PORT)


async def write_numbers(first: int, acked: list[int]) -> None:
    """Send numbers one by one until the connection breaks or falls silent; remember the acknowledged ones."""
    reader, writer = await asyncio.open_connection("server", PORT)
    number = first
    try:
        while True:
            writer.write(b"%d\n" % number)
            line = await asyncio.wait_for(reader.readline(), ANSWER_S_MAX)
            if not line.endswith(b"\n"):
                return
            acked.append(int(line))
            number += 1
    except (ConnectionResetError, TimeoutError):
        return
    finally:
        writer.close()


async def lost_to_power(loop: SimLoop, bugs: Bugs) -> list[int]:
    """Take server and clients through three power losses; the acknowledged numbers that are gone then."""
    chance = loop.random_for("toy")
    machine, acked = Machine(loop, "server"), list[int]()
    for life in range(3):
        await machine.boot(lambda machine: serve(machine, bugs))
        firsts = {f"client{n}": life * 10_000 + n * 1_000 for n in range(2)}
        clients = [loop.spawn(client, write_numbers(first, acked)) for client, first in firsts.items()]
        await asyncio.sleep(chance.uniform(0.01, 0.2))
        if chance.random() < 0.5:
            machine.lose_power(Farewell.RESET)
        else:
            machine.interrupt_at(chance.randint(1, 5))
            await asyncio.sleep(5)
            loop.host("server")
        await asyncio.gather(*clients)
    files = machine.disk.mount()
    kept = set(read_numbers(files.open("toy/log"))) if files.exists("toy/log") else set()
    return sorted(set(acked) - kept)
