"""`penstock pipeline`: run, validate, inspect and maintain pipelines. A thin layer over `penstock.spark.pipelines`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.apps.cli.failures import ObjectNotFound, StartFailed, WrongSettings
from penstock.apps.cli.options import output_option
from penstock.apps.cli.plain_output import TABLE, say_content
from penstock.apps.cli.security_options import export_profile, profile_option

if TYPE_CHECKING:
    from penstock.spark.pipelines.definition import Pipeline, Project

FILE_DEFAULT = "pipelines.yaml"
DAY_MS = 86_400_000
METRICS_HOST = "127.0.0.1"

file_option = click.option(
    "-f",
    "--file",
    "file",
    type=click.Path(path_type=Path),
    default=Path(FILE_DEFAULT),
    show_default=True,
    help="The project file: YAML, or Python that creates a Workshop.",
)
name_argument = click.argument("name", metavar="PIPELINE")


@click.group()
@profile_option
@click.pass_context
def pipeline(ctx: click.Context) -> None:
    """Run pipelines between topics and tables, on Spark."""
    export_profile(ctx)


@pipeline.command()
@click.argument("directory", type=click.Path(path_type=Path), default=Path("pipelines"))
@output_option
def init(directory: Path, output: str) -> None:
    """Create a small working project.

    It writes orders to a table, bad ones to a dead-letter topic, and revenue per minute to a topic.

    \b
    penstock pipeline init shop
    """
    from penstock.apps.cli.pipeline_project import write_project

    try:
        written = write_project(directory)
    except OSError as error:
        raise StartFailed(f"Cannot create a project in {directory}: {error.strerror}.") from error
    if output != TABLE:
        say_content({"written": [str(file) for file in written]}, output)
        return
    click.echo(f"Wrote {', '.join(str(file) for file in written)}.")
    click.echo(
        f"Next: penstock start, then: cd {directory} && sh make_orders.sh && penstock pipeline run --once"
    )


@pipeline.command()
@file_option
@click.option("--offline", is_flag=True, help="Do not look up topics at the broker.")
@click.option("--no-spark", is_flag=True, help="Do not have Spark check types, queries and functions.")
@output_option
def validate(file: Path, offline: bool, no_spark: bool, output: str) -> None:
    """Check a project and report every error, each with its line. Nothing runs.

    Checks the file, the topics at the broker and, with Spark, every type, query and column.

    \b
    penstock pipeline validate --offline
    """
    from penstock.apps.cli.pipeline_checks import check_file

    with pipeline_failures():
        project, notes = check_file(file, is_offline=offline, has_spark=not no_spark)
    if output != TABLE:
        names = [one.name for one in project.pipelines]
        say_content({"file": str(file), "pipelines": names, "notes": [str(note) for note in notes]}, output)
        return
    for note in notes:
        click.echo(f"{file}: {note}")
    checked = [name for name, is_left in (("topics", offline), ("queries", no_spark)) if is_left]
    left_out = f" ({' and '.join(checked)} not checked)" if checked else ""
    count = len(project.pipelines)
    click.echo(f"{file}: {count} pipeline{'' if count == 1 else 's'}, no errors{left_out}.")


@pipeline.command("list")
@file_option
@output_option
def list_pipelines(file: Path, output: str) -> None:
    """List the pipelines of a project.

    \b
    penstock pipeline list -f shop/pipelines.yaml
    """
    from penstock.apps.cli.tables import show_table

    with pipeline_failures():
        project = _load(file)
    rows = [(one.name, one.kind, _from(one), one.sink.topic or one.sink.table) for one in project.pipelines]
    if output != TABLE:
        names = ("name", "kind", "from", "to")
        say_content([dict(zip(names, row, strict=True)) for row in rows], output)
    else:
        show_table(("pipeline", "kind", "from", "to"), rows)


def _from(one: Pipeline) -> str:
    return ", ".join(one.source.topics) or str(one.source.pattern)


@pipeline.command()
@file_option
@output_option
def status(file: Path, output: str) -> None:
    """Show the current or last state of each pipeline, and its last failure.

    \b
    penstock pipeline status -o json
    """
    from penstock.apps.cli.pipeline_view import COLUMNS, cells, failure_lines
    from penstock.apps.cli.tables import show_table
    from penstock.spark.pipelines.progress import Progress
    from penstock.spark.pipelines.state import PipelineState
    from penstock.spark.pipelines.supervision import RESTARTING, RUNNING, STARTING

    with pipeline_failures():
        project = _load(file)
        looks = []
        for one in project.pipelines:
            state = PipelineState(project.state_of(one))
            saved = state.status() or Progress(one.name, "never ran").plain()
            is_dead = saved["state"] in (STARTING, RUNNING, RESTARTING) and not state.is_running
            looks.append(Progress(**{**saved, "state": "died" if is_dead else saved["state"]}))
    if output != TABLE:
        say_content([look.plain() for look in looks], output)
    else:
        show_table(COLUMNS, [cells(look) for look in looks])
        for line in failure_lines(looks):
            click.echo(line)


@pipeline.command()
@click.argument("names", nargs=-1, metavar="[PIPELINE]...")
@file_option
@click.option("--once", is_flag=True, help="Process the backlog, then exit.")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="Serve metrics for Prometheus on this port."
)
def run(names: tuple[str, ...], file: Path, once: bool, metrics_port: int | None) -> None:
    """Run pipelines (by default all of the project) until Ctrl-C or SIGTERM.

    On a signal the current batch finishes first; the next run continues after it. A second Ctrl-C exits immediately.
    A failed pipeline is restarted with increasing backoff, up to its max_restarts; the others keep running.
    Exits with 1 if a pipeline has failed for good.

    \b
    penstock pipeline run --once
    penstock pipeline run orders-lake --metrics-port 9400
    """
    from penstock.apps.cli.pipeline_run import run_pipelines
    from penstock.spark.pipelines.metrics import PipelineMetrics

    with pipeline_failures():
        project = _load(file)
        chosen = [_named(project, name) for name in names] or list(project.pipelines)
        metrics = PipelineMetrics()
        if metrics_port is not None:
            port = metrics.serve(METRICS_HOST, metrics_port)
            click.echo(f"metrics: http://{METRICS_HOST}:{port}/metrics", err=True)
        run_pipelines(project, chosen, metrics.show, is_once=once)


@pipeline.command()
@name_argument
@file_option
@click.option(
    "--file-mb",
    type=click.IntRange(1),
    default=128,
    show_default=True,
    help="Files smaller than this are merged.",
)
@click.option(
    "--keep-days",
    type=click.FloatRange(0.05),
    default=7.0,
    show_default=True,
    help="How long old versions are kept.",
)
@output_option
def compact(name: str, file: Path, file_mb: int, keep_days: float, output: str) -> None:
    """Merge the small files of a pipeline's table, and delete expired rows and old versions.

    \b
    penstock pipeline compact orders-lake
    """
    from penstock.spark.pipelines.maintenance import compact_table

    with pipeline_failures():
        project = _load(file)
        done = compact_table(
            project, _named(project, name), file_bytes=file_mb * 1_000_000, keep_ms=int(keep_days * DAY_MS)
        )
    if output != TABLE:
        say_content({"pipeline": name, **asdict(done)}, output)
    else:
        click.echo(
            f"{name}: {done.files_before} files compacted to {done.files_after}, "
            f"{done.rows_expired} rows expired, {done.files_removed} unused files removed."
        )


@pipeline.command()
@name_argument
@file_option
@click.option("--to", "topic", required=True, metavar="TOPIC", help="The topic to write to.")
@click.option("--rate", type=click.IntRange(1), metavar="ROWS", help="Maximum number of rows per second.")
@click.option("--by-key", is_flag=True, help="Choose partitions by key instead of keeping them.")
@click.option("--again", is_flag=True, help="Start from the beginning, even if it was replayed before.")
@output_option
def replay(
    name: str, file: Path, topic: str, rate: int | None, by_key: bool, again: bool, output: str
) -> None:
    """Write the rows of a pipeline's table to a topic.

    Order, keys, headers and timestamps are preserved.

    \b
    penstock pipeline replay orders-lake --to orders-again
    """
    from penstock.apps.cli.pipeline_view import replay_bar
    from penstock.spark.pipelines.replay import Replay
    from penstock.spark.pipelines.replay import replay as replay_table
    from penstock.spark.pipelines.session import spark_for

    with pipeline_failures():
        project = _load(file)
        chosen = _named(project, name)
        asked = Replay(topic, rate, not by_key, again)
        with spark_for(project) as spark, replay_bar(f"{name} → {topic}") as show:
            rows = replay_table(spark, project, chosen, asked, show)
    if output != TABLE:
        say_content({"pipeline": name, "topic": topic, "offsets": rows}, output)
        return
    click.echo(f"{name}: {rows} offsets replayed to {topic}.")


@pipeline.command()
@name_argument
@file_option
@click.option("--dry-run", is_flag=True, help="Show what would be sent, without sending it.")
@output_option
def redrive(name: str, file: Path, dry_run: bool, output: str) -> None:
    """Send a pipeline's dead letters back to their original topics, each once.

    \b
    penstock pipeline redrive orders-lake --dry-run
    """
    from penstock.spark.pipelines.redrive import redrive_letters
    from penstock.spark.pipelines.session import spark_for

    with pipeline_failures():
        project = _load(file)
        chosen = _named(project, name)
        with spark_for(project) as spark:
            done = redrive_letters(spark, project, chosen, is_dry=dry_run)
    if output != TABLE:
        say_content({"pipeline": name, "sent": not dry_run, **asdict(done)}, output)
        return
    click.echo(f"{name}: {done.rows} dead letters {'would be' if dry_run else 'were'} sent back.")
    for reason, count in done.by_reason.items():
        click.echo(f"  {count} × {reason}")


def _load(file: Path) -> Project:
    from penstock.spark.pipelines import load_project

    return load_project(file)


def _named(project: Project, name: str) -> Pipeline:
    from penstock.spark.pipelines.problems import suggestion

    for one in project.pipelines:
        if one.name == name:
            return one
    raise ObjectNotFound(
        f"There is no pipeline {name}. {suggestion(name, [one.name for one in project.pipelines])}"
    )


@contextmanager
def pipeline_failures() -> Iterator[None]:
    """Translate errors of pipelines to a message and an exit code."""
    from penstock.client.errors import ClientError
    from penstock.spark.errors import PipelineError, WrongDefinition

    try:
        yield
    except WrongDefinition as error:
        raise WrongSettings(str(error)) from error
    except (PipelineError, ClientError) as error:
        raise StartFailed(str(error)) from error
