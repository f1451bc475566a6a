"""`penstock doctor`: checks the settings, this machine and the broker, and says what to do. Changes nothing."""

from __future__ import annotations

import socket
import sys
import time
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import click

from penstock.apps.cli.client import CONNECT_SECONDS_MAX, connect_cluster, translated
from penstock.apps.cli.cluster_source import HTTP, ClusterSource
from penstock.apps.cli.colours import STATE_COLOURS
from penstock.apps.cli.failures import WrongSettings
from penstock.apps.cli.machine_checks import (
    FAILED,
    OK,
    WARNING,
    CheckResult,
    check_clock,
    check_data_directory,
    check_limits,
    check_ports,
    check_software,
)
from penstock.apps.cli.options import bootstrap_option, config_file_option, output_option
from penstock.apps.cli.plain_output import TABLE, say_content
from penstock.apps.cli.setting_options import load_found
from penstock.apps.cli.terminal import counted, say, say_labelled
from penstock.core.model import Address, Storage
from penstock.core.version import __version__
from penstock.node.settings import Settings

CLOCK_SKEW_S_MAX = 2.0
"""HTTP tells the time in seconds; a larger difference is one of the clocks."""


@click.command()
@config_file_option
@click.option(
    "--data-dir", type=click.Path(), metavar="DIR", help="Data directory to check.  [default: as set]"
)
@click.option("--no-broker", is_flag=True, help="Check only this machine, not the broker at --bootstrap.")
@bootstrap_option
@output_option
def doctor(
    config_file: str | None, data_dir: str | None, no_broker: bool, bootstrap: str, output: str
) -> None:
    """Check this machine and its broker, and say what to do.

    Checks the settings as `penstock start` reads them, software, disk space, the speed of flushes, clock, limits and
    ports, and whether the brokers at --bootstrap and their advertised addresses can be reached. Exits with 1 if a check
    has failed.

    \b
    penstock doctor
    penstock doctor --config broker.yaml --no-broker -o json
    """
    results = [*_check_machine(config_file, data_dir, bootstrap, is_alone=no_broker)]
    if output != TABLE:
        say_content([one._asdict() for one in results], output, indent=2)
    else:
        _show(results)
    sys.exit(1 if any(one.status == FAILED for one in results) else 0)


def _check_machine(
    config_file: str | None, data_dir: str | None, bootstrap: str, *, is_alone: bool
) -> list[CheckResult]:
    results = check_software()
    try:
        loaded = load_found(config_file, {} if data_dir is None else {"data_dir": data_dir})
    except WrongSettings as error:
        remedy = "correct it; docs/settings.md and `penstock config explain` list all settings"
        return [*results, CheckResult("settings", FAILED, error.message, remedy)]
    changed = sum(source != "default" for source in loaded.sources.values())
    where = loaded.file or "no file"
    found = f"{where}, {changed} of {len(loaded.sources)} set" + "".join(f"; {note}" for note in loaded.notes)
    settings = loaded.settings
    results.append(CheckResult("settings", OK, found))
    results += [*check_data_directory(settings), check_clock(), *check_limits(settings)]
    pid = _running(settings)
    if pid:
        results.append(CheckResult("process", OK, f"a broker uses the data directory (pid {pid})"))
    else:
        results += check_ports(settings)
    return results if is_alone else [*results, *_check_broker(bootstrap, is_expected=bool(pid))]


def _running(settings: Settings) -> str:
    """The process that holds the data directory."""
    from penstock.node.runtime.disk import DirectoryLock

    root = Path(settings.data_dir)
    if settings.storage is Storage.MEMORY or not (root / ".lock").exists():
        return ""
    try:
        lock = DirectoryLock(root)
    except OSError:
        return ""  # of another user: `check_data_directory` tells
    try:
        return lock.holder() if lock.is_held() else ""
    finally:
        lock.release()


# -- the broker


def _check_broker(bootstrap: str, *, is_expected: bool) -> list[CheckResult]:
    try:
        cluster = connect_cluster(bootstrap)
        with translated(bootstrap):
            brokers = cluster.brokers()
    except click.ClickException as error:
        remedy = "start a broker with `penstock start`, or name its address with --bootstrap"
        return [CheckResult("broker", FAILED if is_expected else WARNING, error.message, remedy)]
    results = [CheckResult("broker", OK, f"{counted(len(brokers), 'broker')} at {bootstrap}")]
    for broker_id, address in sorted(brokers.items()):
        results.append(_check_advertised(broker_id, address))
    try:
        return [*results, *_check_cluster(ClusterSource(bootstrap))]
    except click.ClickException as error:
        return [*results, CheckResult("cluster", FAILED, error.message, "see: penstock cluster status")]


def _check_advertised(broker_id: int, address: Address) -> CheckResult:
    try:
        socket.create_connection((address.host, address.port), CONNECT_SECONDS_MAX).close()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        remedy = "clients are told this address: set advertised_host (and advertised_port) to one that they can reach"
        return CheckResult("advertised", FAILED, f"broker {broker_id} at {address}: {reason}", remedy)
    return CheckResult("advertised", OK, f"broker {broker_id} is reached at {address}")


def _check_cluster(source: ClusterSource) -> list[CheckResult]:
    found = source.overview()
    content = found.content
    if found.source != HTTP:
        remedy = "start brokers with --http-port; `penstock top`, `health` and metrics need it"
        results = [CheckResult("HTTP door", WARNING, f"not reached: {found.why_not_http}", remedy)]
    else:
        results = [_check_skew(content)]
    problems = {
        name.replace("_", " "): content[name]
        for name in ("offline_partitions", "under_replicated_partitions", "under_min_isr_partitions")
        if content[name]
    }
    if problems:
        told = ", ".join(f"{count} {name}" for name, count in problems.items())
        remedy = "see: penstock cluster topics --offline --under-replicated"
        state = FAILED if content["offline_partitions"] else WARNING
        return [*results, CheckResult("partitions", state, told, remedy)]
    return [
        *results,
        CheckResult("partitions", OK, f"{content['partitions']}, all with a leader and in sync"),
    ]


def _check_skew(content: dict[str, object]) -> CheckResult:
    """Compare the clock with that of the broker that answered."""
    brokers = content["brokers"]
    assert isinstance(brokers, list)
    address = next(one["addresses"]["http"] for one in brokers if one["id"] == content["broker"])
    host, _, port = str(address).rpartition(":")
    connection = HTTPConnection(host.strip("[]"), int(port), timeout=CONNECT_SECONDS_MAX)
    try:
        connection.request("GET", "/healthz")
        told = connection.getresponse().getheader("Date", "")
        skew_s = time.time() - parsedate_to_datetime(told).timestamp()
    except (OSError, HTTPException, ValueError, TypeError) as error:
        return CheckResult("HTTP door", WARNING, f"{address} does not tell the time: {error}")
    finally:
        connection.close()
    if abs(skew_s) > CLOCK_SKEW_S_MAX:
        remedy = "synchronise both clocks: timestamps of records and time lookups are off by as much"
        return CheckResult("HTTP door", WARNING, f"{address}: its clock differs by {skew_s:.0f} s", remedy)
    return CheckResult("HTTP door", OK, f"{address} answers, with the same time")


# -- output


def _show(results: list[CheckResult]) -> None:
    say(f"Penstock {__version__}")
    for one in results:
        say_labelled(f"{one.status:<8}", f"{one.check:<15} {one.found}", STATE_COLOURS[one.status])
        if one.remedy:
            say(f"{'':24} → {one.remedy}")
    bad = [one for one in results if one.status != OK]
    say("Everything is fine." if not bad else f"{counted(len(bad), 'thing')} to look at.")
