"""`penstock status`: the brokers, topics and groups behind an address on one screen. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock.apps.cli.cluster_status import PROBLEMS, UNKNOWN, broker_states, health_words, state_of
from penstock.apps.cli.options import bootstrap_option, output_option, watch_option
from penstock.apps.cli.terminal import counted, shown_bytes
from penstock.apps.cli.view import View, show_view

if TYPE_CHECKING:
    from penstock.apps.cli.cluster_source import ClusterSource
    from penstock.apps.cli.group_lag import GroupLagSummary

_COLUMNS = ("broker", "state", "Kafka", "HTTP", "leaders", "replicas")


@click.command()
@watch_option
@bootstrap_option
@output_option
def status(is_watched: bool, bootstrap: str, output: str) -> None:
    """Show a summary of brokers, topics and groups.

    And what is wrong with them, with the command that tells more.

    \b
    penstock status
    penstock status --watch
    """
    from penstock.apps.cli.cluster_source import ClusterSource

    source = ClusterSource(bootstrap)
    show_view(lambda: _read(source), output, is_watched=is_watched)


def _read(source: ClusterSource) -> View:
    found = source.overview()
    overview = found.content
    topics = source.topics(with_internal=False)
    problems = _problems(overview)
    groups = _groups(source, problems)
    content = {
        "cluster_id": overview["cluster_id"],
        "controller": overview["controller"],
        "brokers": [_broker(one) for one in overview["brokers"]],
        "topics": len(topics),
        "partitions": overview["partitions"],
        "records": _total([one["records"] for one in topics]),
        "bytes": _total([one["bytes"] for one in topics]),
        "groups": None if groups is None else len(groups),
        "lag": None if groups is None else _total([one.lag for one in groups]),
        "problems": problems,
        "source": found.source,
    }
    return View(content, _lines(content, overview), _COLUMNS, [_row(one) for one in content["brokers"]])


def _groups(source: ClusterSource, problems: list[str]) -> list[GroupLagSummary] | None:
    """None, and one problem more, if they cannot be listed: people look at the status because something fails."""
    try:
        return source.groups()
    except click.ClickException as error:
        problems.append(f"groups cannot be listed: {error.message}")
        return None


def _broker(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": one["id"],
        "state": state_of(one),
        "kafka": one["addresses"].get("kafka"),
        "http": one["addresses"].get("http"),
        "leaders": one["leaders"],
        "replicas": one["replicas"],
    }


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    return tuple(UNKNOWN if value is None else value for value in one.values())


def _total(numbers: list[int | None]) -> int | None:
    """None if one of them is unknown."""
    known = [one for one in numbers if one is not None]
    return sum(known) if len(known) == len(numbers) else None


def _lines(content: dict[str, Any], overview: dict[str, Any]) -> list[str]:
    records, size, lag = content["records"], content["bytes"], content["lag"]
    amount = "records unknown" if records is None else counted(records, "record")
    behind = "lag unknown" if lag is None else f"{counted(lag, 'record')} behind"
    lines = [
        f"Cluster {content['cluster_id']}: {broker_states(overview['brokers'])}",
        f"  partitions   {content['partitions']:,}{health_words(overview) if content['partitions'] else ''}",
        f"  topics       {content['topics']:,}: {amount}, {'size unknown' if size is None else shown_bytes(size)}",
        f"  groups       {'?' if content['groups'] is None else content['groups']}"
        + (f": {behind}" if content["groups"] else ""),
    ]
    return lines + [f"  problem      {problem}" for problem in content["problems"]]


def _problems(overview: dict[str, Any]) -> list[str]:
    found = [
        f"{counted(overview[name], 'partition')} {which}; see: penstock cluster topics {flag}"
        for name, (flag, which) in PROBLEMS.items()
        if overview[name]
    ]
    gone = [one["id"] for one in overview["brokers"] if one["fenced"]]
    if gone:
        names = ", ".join(map(str, gone))
        found.append(f"{counted(len(gone), 'broker')} not running ({names}); see: penstock cluster brokers")
    if overview["controller"] is None:
        found.append("no controller at the moment; see: penstock cluster controller")
    return found
