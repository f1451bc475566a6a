"""The start banner for a terminal, or the same facts as a log line. Never decides anything."""

from __future__ import annotations

import logging

import click

from penstock.apps.ready import ReadyInfo
from penstock.core.model import Durability, Storage
from penstock.core.version import __version__
from penstock.node.connections.addresses import Address, is_loopback, is_wildcard
from penstock.node.settings_loader import LoadedSettings

_DURABILITY = {
    Durability.FSYNC: "fsync: records are on disk before they are acknowledged",
    Durability.INTERVAL: "interval: flushed periodically, a power failure may lose the last records",
    Durability.OS: "os: left to the operating system, a power failure may lose unwritten records",
}

_log = logging.getLogger("penstock.apps.start")


def banner_lines(info: ReadyInfo, loaded: LoadedSettings) -> list[str]:
    """The lines of the banner, warnings last."""
    listening = Address(info.host, info.port)
    rows = [("listening", str(listening))]
    rows += [(name, str(Address(info.host, port))) for name, port in info.doors.items()]
    if info.advertised != listening:
        rows.append(("advertised", str(info.advertised)))
    if info.storage is Storage.MEMORY:
        rows.append(("data", "in memory, lost on restart"))
    else:
        rows.append(("data", info.data_dir))
        rows.append(("durability", _DURABILITY[info.durability]))
    if loaded.file is not None:
        rows.append(("config", loaded.file))
    changed = sum(source != "default" for source in loaded.sources.values())
    rows.append(("settings", f"{changed} of {len(loaded.sources)} set, see `penstock config explain`"))
    reachable = listening if is_loopback(info.host) else info.advertised
    return [
        f"Penstock {__version__} is ready, pid {info.pid}",
        *(f"  {name:<11} {value}" for name, value in rows),
        *(f"  {'note':<11} {note}" for note in (*loaded.notes, *warnings(info))),
        f"Try: penstock pub --bootstrap {reachable} --topic hello --message hi      Stop: Ctrl-C",
    ]


def warnings(info: ReadyInfo) -> list[str]:
    """Warnings about listening addresses."""
    return address_warnings(info.host, info.advertised)


def address_warnings(host: str, advertised: Address) -> list[str]:
    """What the user should know about listening on this host."""
    found = []
    if not is_loopback(host):
        found.append(
            "Clients are not authenticated: anyone who can reach this address can read and write all topics."
        )
    if is_wildcard(host):
        found.append(
            f"Clients are told to connect to {advertised}; "
            "use --advertised-host if they reach this machine under another name."
        )
    return found


def show_banner(info: ReadyInfo, loaded: LoadedSettings) -> None:
    """Print the banner on stdout."""
    headline, *rest = banner_lines(info, loaded)
    click.secho(headline, bold=True)
    click.echo("\n".join(rest))


def log_ready(info: ReadyInfo, loaded: LoadedSettings) -> None:
    """The same facts as log lines, for JSON logs."""
    for note in loaded.notes:
        _log.info(note)
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
            "config": loaded.file,
        },
    )
