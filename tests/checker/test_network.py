"""Hosts reach each other until they are cut off, without a word, in one direction or both."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from checker.network import NAMESPACES, PREFIX, HostNetwork, network_problem
from checker.plan import Outcome, Plan
from checker.side_by_side import run_side_by_side

PORT = 7000
CONNECT_S_MAX = 0.5
SERVER = """
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    client, _ = server.accept()
    client.sendall(b"hello")
    client.close()
"""
CLIENT = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])) as client:
        print(client.recv(5).decode())
except TimeoutError:
    print("silence")
"""


@pytest.fixture
def network() -> Iterator[HostNetwork]:
    if problem := network_problem():
        pytest.skip(problem)
    with HostNetwork(["a", "b"]) as made:
        yield made


@contextmanager
def serving(network: HostNetwork, host: str, address: str) -> Iterator[None]:
    words = [*network.wrapper(host), sys.executable, "-c", SERVER, address, str(PORT)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.kill()
        process.communicate()


def says(network: HostNetwork, host: str, address: str) -> str:
    """What a client on this host gets from a server at that address."""
    words = [*network.wrapper(host), sys.executable, "-c", CLIENT, address, str(PORT), str(CONNECT_S_MAX)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def test_hosts_and_the_machine_reach_a_host(network: HostNetwork) -> None:
    with serving(network, "b", network.address("b")):
        assert says(network, "a", network.address("b")) == "hello"
        with socket.create_connection((network.address("b"), PORT), 10) as client:
            assert client.recv(5) == b"hello"


@pytest.mark.parametrize("cut", [("a", "b"), ("b", "a")])
def test_a_cut_in_either_direction_is_silence(network: HostNetwork, cut: tuple[str, str]) -> None:
    with serving(network, "b", network.address("b")):
        network.cut(*cut)
        assert says(network, "a", network.address("b")) == "silence"
        with socket.create_connection((network.address("b"), PORT), 10) as client:
            assert client.recv(5) == b"hello", "the others are not concerned"
        network.heal()
        assert says(network, "a", network.address("b")) == "hello"


def test_a_server_on_loopback_is_reached_and_cut_off_too(network: HostNetwork) -> None:
    """The coordinator serves on nothing else."""
    with serving(network, "b", network.loopback("b")):
        assert says(network, "a", network.loopback("b")) == "hello"
        network.cut("b", "a")
        assert says(network, "a", network.loopback("b")) == "silence"


def test_nothing_is_left_behind(network: HostNetwork) -> None:
    subnet = network.address("a").rpartition(".")[0]
    assert subnet in routes()
    network.close()
    assert subnet not in routes()
    assert not list(NAMESPACES.glob(f"{PREFIX}-{os.getpid()}-*"))


def routes() -> str:
    return subprocess.run(["ip", "route"], check=True, capture_output=True, text=True).stdout


def test_the_networks_of_two_processes_are_apart(network: HostNetwork, tmp_path: Path) -> None:
    """One is cut and taken away while the other one is at work, with hosts of the same names."""
    for name in ("cut", "gone"):
        os.mkfifo(tmp_path / name)

    def run(seed: int) -> Outcome:
        with HostNetwork(["a", "b"]) as own, serving(own, "b", own.address("b")):
            if seed == 0:
                own.cut("a", "b")
                heard = [says(own, "a", own.address("b"))]
                (tmp_path / "cut").write_text("now")
            else:
                (tmp_path / "cut").read_text()
                heard = [says(own, "a", own.address("b"))]
                (tmp_path / "gone").read_text()
                heard.append(says(own, "a", own.address("b")))
        if seed == 0:
            (tmp_path / "gone").write_text("now")
        return Outcome(Plan(seed), problems=heard)

    heard = {outcome.plan.seed: outcome.problems for outcome in run_side_by_side(run, range(2), 2)}
    assert heard == {0: ["silence"], 1: ["hello", "hello"]}
