"""Hosts on one machine: network namespaces behind a router that silently drops what it is told to. Needs root.

Every host has the address 10.x.y.N, which the machine itself reaches too, and 127.77.0.N for servers that insist on
loopback, which only hosts reach. A cut is a blackhole rule of the router: one-way, without a reset, for new and open
connections. Everything is in namespaces with names of their own and disappears with them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

PREFIX = "penstock-chaos"
NAMESPACES = Path("/run/netns")
_ROUTER = "router"
_ROUTER_NUMBER, _MACHINE_NUMBER = 254, 253
_SUBNETS = 64 * 256


def network_problem() -> str:
    """Why this machine cannot have hosts; empty if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in ("ip", "nsenter", "sysctl") if shutil.which(tool) is None]
    if missing:
        return f"network namespaces need {', '.join(missing)}"
    probe = f"{PREFIX}-{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode:
        return f"this system has no network namespaces: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return ""


class HostNetwork:
    """`with HostNetwork(["a", "b"]) as network`: two hosts; processes run there behind `wrapper`."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._numbers = {host: number for number, host in enumerate(hosts, 1)}
        self._tag = f"{PREFIX}-{os.getpid()}"
        self._link = f"pc{os.getpid()}"
        self._subnet = ""
        self._cuts: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        _remove_left_overs()
        try:
            self._make_router()
            for host, number in self._numbers.items():
                self._make_host(host, number)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def address(self, host: str) -> str:
        return self._at(self._numbers[host])

    def loopback(self, host: str) -> str:
        """The loopback address by which the other hosts reach it."""
        return f"127.77.0.{self._numbers[host]}"

    def wrapper(self, host: str) -> tuple[str, ...]:
        """The command that runs another one there, as the same process."""
        return ("nsenter", f"--net={NAMESPACES / self._name(host)}")

    def cut(self, source: str, target: str) -> None:
        """Drop what goes from source to target."""
        if (source, target) not in self._cuts:
            self._cuts.add((source, target))
            self._rules("add", [(source, target)])

    def heal(self) -> None:
        """Let everything through again."""
        cuts, self._cuts = self._cuts, set()
        self._rules("del", sorted(cuts))

    def close(self) -> None:
        """Namespaces disappear some time later; the name of the link must be free at once."""
        subprocess.run(["ip", "link", "del", self._link], check=False, capture_output=True)
        _remove(f"{self._tag}-")

    def _rules(self, verb: str, cuts: Iterable[tuple[str, str]]) -> None:
        lines = [
            f"rule {verb} blackhole from {one} to {other}"
            for source, target in cuts
            for one in (self.address(source), self.loopback(source))
            for other in (self.address(target), self.loopback(target))
        ]
        _ip(lines, self._name(_ROUTER))

    def _name(self, host: str) -> str:
        return f"{self._tag}-{host}"

    def _at(self, number: int) -> str:
        return f"{self._subnet}.{number}"

    def _make_router(self) -> None:
        """The router, and the way from the machine to it: the first subnet that nobody routes yet."""
        router = self._name(_ROUTER)
        _add_namespace(router)
        _ip(
            [f"link add {self._link} type veth peer name machine netns {router}", f"link set {self._link} up"]
        )
        for number in range(os.getpid(), os.getpid() + _SUBNETS):
            self._subnet = f"10.{64 + number // 256 % 64}.{number % 256}"
            if not _output("ip", "route", "show", f"{self._subnet}.0/24"):
                break
        gateway, machine = self._at(_ROUTER_NUMBER), self._at(_MACHINE_NUMBER)
        _ip(
            [
                f"addr add {machine}/32 dev {self._link}",
                f"route add {gateway} dev {self._link}",
                f"route add {self._subnet}.0/24 via {gateway}",
            ]
        )
        _ip(
            [f"addr add {gateway}/32 dev lo", "link set machine up", f"route add {machine} dev machine"],
            router,
        )

    def _make_host(self, host: str, number: int) -> None:
        name, router = self._name(host), self._name(_ROUTER)
        gateway, address, loopback = self._at(_ROUTER_NUMBER), self._at(number), self.loopback(host)
        _add_namespace(name)
        _ip(
            [
                f"link add host{number} type veth peer name wire netns {name}",
                f"link set host{number} up",
            ],
            router,
        )
        _ip(
            [
                f"addr add {address}/32 dev wire",
                f"addr add {loopback}/32 dev wire",
                "link set wire up",
                f"route add {gateway} dev wire",
                f"route add default via {gateway} src {address}",
            ],
            name,
        )
        _ip([f"route add {address} dev host{number}", f"route add {loopback} dev host{number}"], router)


def _add_namespace(name: str) -> None:
    """A namespace that routes, and whose loopback network is one address: the others are somewhere else."""
    _ip([f"netns add {name}"])
    _ip(["addr add 127.0.0.1/32 dev lo", "link set lo up", "addr del 127.0.0.1/8 dev lo"], name)
    settings = ("ip_forward=1", "conf.all.route_localnet=1", "conf.all.rp_filter=0")
    words = [f"net.ipv4.{setting}" for setting in settings]
    subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", *words], check=True)


def _ip(lines: Sequence[str], namespace: str = "") -> None:
    """Run commands of `ip`, in a namespace if one is named."""
    if lines:
        command = ["ip", *(("-n", namespace) if namespace else ()), "-batch", "-"]
        done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True)
        assert done.returncode == 0, f"{namespace or 'machine'}: {lines}: {done.stderr}"


def _output(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def _remove_left_overs() -> None:
    """The namespaces of runs that were killed."""
    for path in NAMESPACES.glob(f"{PREFIX}-*"):
        owner = path.name.removeprefix(f"{PREFIX}-").partition("-")[0]
        if not Path(f"/proc/{owner}").exists():
            _remove(f"{PREFIX}-{owner}-")


def _remove(prefix: str) -> None:
    """With a namespace its links go, and with them the routes to it."""
    for path in sorted(NAMESPACES.glob(f"{prefix}*")):
        subprocess.run(["ip", "netns", "del", path.name], check=False)
