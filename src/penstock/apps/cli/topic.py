"""`penstock topic`: create, list, describe, alter, delete, add partitions. The broker validates the requests."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock.apps.cli.name_completion import complete_topic, complete_topic_config
from penstock.apps.cli.options import bootstrap_option, output_option, parse_pairs, watch_option
from penstock.apps.cli.plain_output import TABLE, say_content
from penstock.apps.cli.positions import GRAMMAR
from penstock.apps.cli.terminal import counted, say, shown_bytes
from penstock.apps.cli.view import View, show_view
from penstock.client.errors import ClientError
from penstock.node.definitions.units import parse_bytes, parse_ms

if TYPE_CHECKING:
    from penstock.client.descriptions import TopicDescription
    from penstock.client.rdkafka.admin import Admin

Eligible = Mapping[int, tuple[list[int], list[int]]]
"""Eligible leader replicas and last known ones by partition."""

names_argument = click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_topic
)
name_argument = click.argument("name", metavar="NAME", shell_complete=complete_topic)
config_option = click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=complete_topic_config,
    help="A topic setting such as retention.ms=7d or segment.bytes=64m; may be repeated.",
)


@click.group()
def topic() -> None:
    """Create, inspect and change topics."""


def read_configs(pairs: tuple[str, ...]) -> dict[str, str]:
    """Topic settings in the broker's format: `retention.ms=7d` becomes 604800000."""
    return {name: _plain(name, value) for name, value in parse_pairs(pairs, "--config").items()}


def _plain(name: str, value: str) -> str:
    parse = parse_ms if name.endswith(".ms") else parse_bytes if name.endswith(".bytes") else None
    if parse is None:
        return value
    try:
        return str(parse(value))
    except ValueError as error:
        raise click.BadParameter(f"{name}: {error}.", param_hint="'--config'") from error


@topic.command()
@names_argument
@click.option(
    "--partitions", type=click.IntRange(min=1), metavar="N", help="[default: the broker's default_partitions]"
)
@click.option(
    "--replication-factor",
    "replicas",
    type=click.IntRange(1, 2**15 - 1),
    metavar="N",
    help="Replicas of each partition, at most one per broker.  [default: the cluster's default_replication_factor]",
)
@config_option
@click.option("--if-not-exists", is_flag=True, help="Ignore topics that already exist.")
@bootstrap_option
@output_option
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    bootstrap: str,
    output: str,
) -> None:
    """Create topics.

    Warns if replicas share a machine, and says what two replicas cost.

    \b
    penstock topic create orders --partitions 3
    penstock topic create orders --config retention.ms=7d
    """
    settings = read_configs(configs)
    from penstock.apps.cli.client import connect_admin
    from penstock.apps.cli.topic_replicas import replica_warnings

    admin = connect_admin(bootstrap)
    rows: list[dict[str, object]] = []
    for name in names:
        is_new = admin.create_topic(
            name, partitions, settings, replicas=replicas, if_not_exists=if_not_exists
        )
        rows.append({"topic": name, "created": is_new})
        warnings = replica_warnings(admin, bootstrap, name) if is_new else []
        if warnings:
            rows[-1]["warnings"] = warnings
        for warning in warnings:
            say(f"{name}: {warning}", err=True)
    _say(
        output, rows, [f"{row['topic']}: {'created' if row['created'] else 'already exists'}" for row in rows]
    )


@topic.command("list")
@click.option(
    "--internal", is_flag=True, help="Include internal topics, whose names start with two underscores."
)
@watch_option
@bootstrap_option
@output_option
def list_topics(internal: bool, is_watched: bool, bootstrap: str, output: str) -> None:
    """List topics with the number of their records and their size.

    Records are counted as offsets: compaction and transactions leave gaps. The size is that of one copy. A question
    mark stands for what a broker that is gone would know.

    \b
    penstock topic list
    penstock topic list --internal -o json
    """
    from penstock.apps.cli.cluster_source import ClusterSource

    source = ClusterSource(bootstrap)

    def read() -> View:
        found = source.topics(with_internal=internal)
        rows = [
            (
                one["topic"],
                one["partitions"],
                one["replicas"],
                "?" if one["records"] is None else one["records"],
                "?" if one["bytes"] is None else shown_bytes(one["bytes"]),
            )
            for one in found
        ]
        lines = [] if rows else ["No topics yet. Create one with: penstock topic create NAME"]
        return View(found, lines, ("topic", "partitions", "replicas", "records", "size"), rows)

    show_view(read, output, is_watched=is_watched)


@topic.command(epilog=f"--before takes: {GRAMMAR}.")
@name_argument
@click.option(
    "--before",
    "target",
    required=True,
    metavar="POSITION",
    help="Delete the records before this position; latest deletes all.",
)
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Only this partition.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted.")
@click.option("--yes", is_flag=True, help="Do not ask; without a terminal nothing is asked either.")
@bootstrap_option
@output_option
def trim(
    name: str, target: str, partition: int | None, dry_run: bool, yes: bool, bootstrap: str, output: str
) -> None:
    """Delete the oldest records of a topic.

    \b
    penstock topic trim orders --before @-7d --dry-run
    penstock topic trim orders --before 1000 --partition 0 --yes
    """
    from penstock.apps.cli.topic_trim import TopicTrim

    trimming = TopicTrim(bootstrap, name)
    cuts = trimming.plan(target, partition)
    total = sum(one.records for one in cuts)
    if not dry_run:
        if not yes and total and sys.stdin.isatty():
            click.confirm(f"Delete {counted(total, 'record')} of {name}?", abort=True)
        trimming.run(cuts)
    rows = [(one.partition, one.before, one.after, one.records) for one in cuts]
    line = f"{name}: {counted(total, 'record')} {'would be' if dry_run else 'were'} deleted."
    content = [{**asdict(one), "done": not dry_run} for one in cuts]
    View(content, [line], ("partition", "start before", "start after", "records"), rows).show(output)


@topic.command()
@names_argument
@click.option("--all-configs", is_flag=True, help="Include settings with their default value.")
@bootstrap_option
@output_option
def describe(names: tuple[str, ...], all_configs: bool, bootstrap: str, output: str) -> None:
    """Show the partitions and settings of topics.

    Eligible replicas have left the in-sync ones while these were too few, so they have every acknowledged record and
    may lead again.

    \b
    penstock topic describe orders
    penstock topic describe orders --all-configs -o yaml
    """
    from penstock.apps.cli.client import connect_admin
    from penstock.apps.cli.cluster_source import ClusterSource

    admin = connect_admin(bootstrap)
    found = [admin.describe_topic(name, all_configs=all_configs) for name in names]
    source = ClusterSource(bootstrap)
    eligible = {one.topic: source.eligible(one.topic) for one in found}
    if output != TABLE:
        say_content([_content(one, eligible[one.topic]) for one in found], output, indent=2)
        return
    from penstock.apps.cli.tables import show_table

    for described in found:
        rows = [
            (
                part.partition,
                part.leader,
                part.start_offset,
                part.end_offset,
                part.records,
                _ids(part.replicas),
                _ids(part.in_sync),
                _ids(eligible[described.topic].get(part.partition, ([], []))[0]) or "-",
            )
            for part in described.partitions
        ]
        columns = (
            "partition", "leader", "start offset", "end offset", "offsets", "replicas", "in sync", "eligible",
        )  # fmt: skip
        show_table(columns, rows, title=described.topic)
        if described.configs:
            settings = [(config.name, config.value, config.source) for config in described.configs]
            show_table(("setting", "value", "source"), settings)


def _content(described: TopicDescription, eligible: Eligible) -> dict[str, object]:
    """A topic as JSON. What the broker does not tell is null."""
    content = asdict(described)
    for part in content["partitions"]:
        part["elr"], part["last_known_elr"] = eligible.get(part["partition"], (None, None))
    return content


@topic.command()
@name_argument
@config_option
@click.option(
    "--delete-config",
    "unset",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_topic_config,
    help="Reset to the broker's default; may be repeated.",
)
@bootstrap_option
@output_option
def alter(name: str, configs: tuple[str, ...], unset: tuple[str, ...], bootstrap: str, output: str) -> None:
    """Change settings of a topic.

    \b
    penstock topic alter orders --config retention.ms=1d
    """
    settings = read_configs(configs)
    if not settings and not unset:
        raise click.UsageError("Nothing to change: give --config NAME=VALUE or --delete-config NAME.")
    both = sorted(settings.keys() & set(unset))
    if both:
        raise click.UsageError(f"{both[0]} is both set and deleted.")
    from penstock.apps.cli.client import connect_admin

    connect_admin(bootstrap).set_configs(name, settings, unset)
    lines = [f"{name}: {key} = {value}" for key, value in settings.items()]
    lines += [f"{name}: {key} back to its default" for key in unset]
    _say(output, [{"topic": name, "set": settings, "deleted": list(unset)}], lines)


@topic.command()
@names_argument
@click.option("--yes", is_flag=True, help="Do not ask; without a terminal nothing is asked either.")
@bootstrap_option
@output_option
def delete(names: tuple[str, ...], yes: bool, bootstrap: str, output: str) -> None:
    """Delete topics and everything in them.

    \b
    penstock topic delete orders --yes
    """
    if not yes and sys.stdin.isatty():
        click.confirm(f"Delete {', '.join(names)} and everything in it?", abort=True)
    from penstock.apps.cli.client import connect_admin

    _delete_all(connect_admin(bootstrap), names)
    _say(output, [{"topic": name, "deleted": True} for name in names], [f"{name}: deleted" for name in names])


def _delete_all(admin: Admin, names: Iterable[str]) -> None:
    """Try all, then raise the first failure."""
    problems: list[ClientError] = []
    for name in names:
        try:
            admin.delete_topic(name)
        except ClientError as error:
            problems.append(error)
    if problems:
        raise problems[0]


@topic.command("add-partitions")
@name_argument
@click.option(
    "--total",
    type=click.IntRange(min=1),
    required=True,
    metavar="N",
    help="The new total number of partitions.",
)
@bootstrap_option
@output_option
def add_partitions(name: str, total: int, bootstrap: str, output: str) -> None:
    """Increase the number of partitions of a topic.

    Keys may then map to other partitions than before.

    \b
    penstock topic add-partitions orders --total 6
    """
    from penstock.apps.cli.client import connect_admin

    connect_admin(bootstrap).add_partitions(name, total)
    _say(output, [{"topic": name, "partitions": total}], [f"{name}: {counted(total, 'partition')}"])


def _ids(numbers: list[int]) -> str:
    return ", ".join(str(number) for number in numbers)


def _say(output: str, rows: list[dict[str, object]], lines: list[str]) -> None:
    if output == TABLE:
        say("\n".join(lines))
    else:
        say_content(rows, output)
