"""One broker's gossip in a process of its own. Prints its view as JSON lines; ends well when its input closes.

`python gossip_member.py ID SEED_PORT DATA_DIR TIME_FACTOR`, seed port 0: nobody. Each line of input is a value that it
publishes as its load.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import uvloop

from penstock.core.gossip.messages import PeerChanged
from penstock.core.gossip.profile import LAN
from penstock.core.model import Address
from penstock.node.peers.gossip import GossipHost, GossipOptions
from penstock.node.runtime.clock import SystemClock, SystemRng
from penstock.node.runtime.disk import DiskFiles
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.workers import ThreadWorkers

HOST = "127.0.0.1"
KEY = b"the key of all tests of gossip"


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


def told(host: GossipHost) -> dict[str, list[object]]:
    return {
        str(peer.id): [peer.state.name.lower(), peer.incarnation, peer.attribute("load")]
        for peer in host.peers
    }


async def live(member_id: int, seed_port: int, directory: str, factor: float) -> None:
    loop = asyncio.get_running_loop()
    runtime = Runtime(SystemClock(), SystemRng(), DiskFiles(Path(directory), 64), ThreadWorkers(loop, 1))
    options = GossipOptions(
        member_id,
        "e2e",
        KEY,
        Address(HOST, 0),
        seeds=(Address(HOST, seed_port),) if seed_port else (),
        profile=LAN.scaled(factor),
    )
    host = GossipHost(options, runtime)

    def changed(_: PeerChanged) -> None:
        tell(peers=told(host))

    host.listeners.append(changed)
    await host.start()
    tell(port=host.address.port)
    ended = asyncio.Event()

    def typed() -> None:
        words = os.read(0, 1000).decode().split()
        if words:
            host.publish({"load": words[-1]})
        else:
            loop.remove_reader(0)
            ended.set()

    loop.add_reader(0, typed)
    await ended.wait()
    await host.stop()
    times = os.times()
    tell(cpu_s=times.user + times.system)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(live(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])))
