"""What a person sees once the broker is ready, or the same as one log line. Never decides anything."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import click

from penstock import __version__
from penstock.apps.ready import ReadyInfo
from penstock.core.model import Durability, Storage
from penstock.node.connections.addresses import Address, is_loopback, is_wildcard

_DURABILITY = {
    Durability.FSYNC: "fsync: acknowledged once it is on disk",
    Durability.INTERVAL: "interval: flushed now and then, a power cut may lose the last moments",
    Durability.OS: "os: left to the operating system, a power cut may lose what it had not written",
}

_log = logging.getLogger("penstock.apps.start")


def banner_lines(info: ReadyInfo, sources: Mapping[str, str]) -> list[str]:
    """The banner, warnings last."""
    listening = Address(info.host, info.port)
    rows = [("listening", str(listening))]
    rows += [(name, str(Address(info.host, port))) for name, port in info.doors.items()]
    if info.advertised != listening:
        rows.append(("advertised", str(info.advertised)))
    if info.storage is Storage.MEMORY:
        rows.append(("data", "in memory, a restart forgets everything"))
    else:
        rows.append(("data", info.data_dir))
        rows.append(("durability", _DURABILITY[info.durability]))
    changed = sum(source != "default" for source in sources.values())
    rows.append(("settings", f"{changed} of {len(sources)} set, see `penstock config explain`"))
    reachable = listening if is_loopback(info.host) else info.advertised
    return [
        f"Penstock {__version__} is ready, pid {info.pid}",
        *(f"  {name:<11} {value}" for name, value in rows),
        *(f"  {'note':<11} {warning}" for warning in warnings(info)),
        f"Try: penstock pub --bootstrap {reachable} --topic hello --message hi      Stop: Ctrl-C",
    ]


def warnings(info: ReadyInfo) -> list[str]:
    """Sentences about addresses that a careful person wants to know."""
    found = []
    if not is_loopback(info.host):
        found.append(
            "Whoever reaches this address can read and write everything: clients are not authenticated."
        )
    if is_wildcard(info.host):
        found.append(
            f"Clients are told to connect to {info.advertised}; "
            "use --advertised-host if they know this machine by another name."
        )
    return found


def show_banner(info: ReadyInfo, sources: Mapping[str, str]) -> None:
    """Print the banner on stdout."""
    headline, *rest = banner_lines(info, sources)
    click.secho(headline, bold=True)
    click.echo("\n".join(rest))


def log_ready(info: ReadyInfo) -> None:
    """The same facts as log lines, for whoever reads JSON."""
    for warning in warnings(info):
        _log.warning(warning)
    _log.info(
        "ready",
        extra={
            "host": info.host,
            "port": info.port,
            **{f"{name}_port": port for name, port in info.doors.items()},
            "advertised": str(info.advertised),
            "data_dir": info.data_dir,
            "storage": info.storage.value,
            "durability": info.durability.value,
            "pid": info.pid,
            "version": __version__,
        },
    )
