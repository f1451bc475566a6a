"""`penstock cluster status|brokers|topics|ring|gossip|controller`: shows a cluster. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from penstock.apps.cli.cluster_words import api_option, services_of, services_text
from penstock.apps.cli.options import bootstrap_option, output_option, watch_option
from penstock.apps.cli.terminal import counted
from penstock.apps.cli.view import View, show_view

if TYPE_CHECKING:
    from penstock.apps.cli.cluster_source import ClusterSource, Found

Content = dict[str, Any]
UNKNOWN = "-"
_BROKER_COLUMNS = ("broker", "state", "session", "Kafka", "HTTP", "rack", "epoch", "leaders", "replicas")

PROBLEMS = {
    "offline_partitions": ("--offline", "without a leader"),
    "under_replicated_partitions": ("--under-replicated", "under-replicated"),
    "under_min_isr_partitions": ("--under-min-isr", "below min.insync.replicas"),
}
"""Counts of the overview: the flag that lists these partitions, and how they are called."""
_FILTERS = {
    "offline": "Only partitions without a leader.",
    "under_replicated": "Only partitions of which a replica is not in sync.",
    "under_min_isr": "Only partitions with too few in-sync replicas: writes with acks=all are refused.",
    "at_min_isr": "Only partitions for which the loss of one more in-sync replica stops writes with acks=all.",
}


def present(
    bootstrap: str,
    output: str,
    read: Callable[[ClusterSource], View],
    *,
    is_watched: bool = False,
    broker_id: int | None = None,
) -> None:
    """Show a view once, or again and again."""
    from penstock.apps.cli.cluster_source import ClusterSource

    source = ClusterSource(bootstrap, broker_id)
    show_view(lambda: read(source), output, is_watched=is_watched)


def view_of(found: Found, lines: list[str], columns: Sequence[str], rows: list[tuple[object, ...]]) -> View:
    note = ""
    if found.why_not_http:
        note = f"Only what Kafka calls tell is shown, because no HTTP door answers: {found.why_not_http}."
    return View({**found.content, "source": found.source}, lines, columns, rows, note)


# -- status and brokers


@click.command()
@watch_option
@bootstrap_option
@api_option
@output_option
def status(is_watched: bool, bootstrap: str, api: str, output: str) -> None:
    """Show brokers, controller and unavailable partitions.

    If the coordinator of a local cluster answers, its services too.

    \b
    penstock cluster status
    penstock cluster status --watch
    """
    present(bootstrap, output, partial(_read_status, api=api), is_watched=is_watched)


def _read_status(source: ClusterSource, api: str = "") -> View:
    found = source.overview()
    content = found.content
    count = content["partitions"]
    lines = [
        f"Cluster {content['cluster_id']}: {broker_states(content['brokers'])}",
        f"  controller   {_controller_words(content)}",
        f"  metadata     index {_known(content['metadata_index'])}",
        f"  partitions   {count:,}{health_words(content) if count else ''}",
    ]
    compared = source.scrub() if found.source == "http" else None
    if compared is not None and compared["brokers"]:
        content["scrub_differences"] = compared["differences"]
        lines.append(f"  scrub        {difference_words(compared['differences'])}")
    services = services_of(api, content["cluster_id"]) if api else None
    if services is not None:
        content["services"] = services
        lines.append(f"  services     {services_text(services)}")
    flags = [flag for name, (flag, _) in PROBLEMS.items() if content[name]]
    if flags:
        lines.append(f"  See which: penstock cluster topics {' '.join(flags)}")
    return view_of(found, lines, _BROKER_COLUMNS, [_broker_row(one) for one in content["brokers"]])


def difference_words(count: int) -> str:
    """What the comparison of replicas has found."""
    return f"{counted(count, 'difference')} found" if count else "no differences found"


def health_words(content: Content) -> str:
    """What is wrong with partitions, or that nothing is."""
    found = [f"{content[name]:,} {which}" for name, (_, which) in PROBLEMS.items() if content[name]]
    return ", " + (", ".join(found) or "all with a leader and in sync")


@click.command()
@watch_option
@bootstrap_option
@output_option
def brokers(is_watched: bool, bootstrap: str, output: str) -> None:
    """List brokers: state, addresses, and what they hold.

    \b
    penstock cluster brokers -o json
    """

    def read(source: ClusterSource) -> View:
        found = source.overview()
        return view_of(found, [], _BROKER_COLUMNS, [_broker_row(one) for one in found.content["brokers"]])

    present(bootstrap, output, read, is_watched=is_watched)


def _broker_row(one: Content) -> tuple[object, ...]:
    session = one["session_alive"]
    return (
        one["id"],
        state_of(one),
        UNKNOWN if session is None else "alive" if session else "ended",
        one["addresses"].get("kafka", UNKNOWN),
        one["addresses"].get("http", UNKNOWN),
        one["rack"] or UNKNOWN,
        _known(one["epoch"]),
        one["leaders"],
        one["replicas"],
    )


def state_of(broker: Content) -> str:
    """One word for the state of a broker; the worst one if there are several."""
    if broker["fenced"]:
        return "fenced"
    if broker["stopping"]:
        return "stopping"
    return "draining" if broker["draining"] else "active"


def broker_states(found: list[Content]) -> str:
    """`3 brokers (2 active, 1 fenced)`."""
    counts: dict[str, int] = {}
    for one in found:
        counts[state_of(one)] = counts.get(state_of(one), 0) + 1
    listed = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return f"{counted(len(found), 'broker')} ({listed})"


# -- topics


def _filter_options(command: Callable[..., None]) -> Callable[..., None]:
    for name, meaning in reversed(_FILTERS.items()):
        command = click.option(f"--{name.replace('_', '-')}", name, is_flag=True, help=meaning)(command)
    return command


@click.command()
@click.argument("names", nargs=-1, metavar="[TOPIC]...")
@_filter_options
@click.option("--internal", is_flag=True, help="Include internal topics.")
@watch_option
@bootstrap_option
@output_option
def topics(
    names: tuple[str, ...], internal: bool, is_watched: bool, bootstrap: str, output: str, **flags: bool
) -> None:
    """List partitions with their leaders and replicas.

    Filters add up, and include internal topics.

    \b
    penstock cluster topics orders
    penstock cluster topics --under-replicated --watch
    """
    filters = [name for name in _FILTERS if flags[name]]

    def read(source: ClusterSource) -> View:
        with_internal = internal or bool(filters) or bool(names)
        found = source.partitions(filters, with_internal=with_internal)
        if names:
            listed = [one for one in found.content["partitions"] if one["topic"] in names]
            found.content["partitions"] = listed
        rows = [_partition_row(one) for one in found.content["partitions"]]
        lines = [] if rows else ["No such partitions." if filters else "No partitions."]
        columns = ("topic", "partition", "leader", "epoch", "replicas", "in sync", "eligible", "moving")
        return view_of(found, lines, columns, rows)

    present(bootstrap, output, read, is_watched=is_watched)


def _partition_row(one: Content) -> tuple[object, ...]:
    moves = [f"+{broker_id}" for broker_id in one["adding"] or ()]
    moves += [f"-{broker_id}" for broker_id in one["removing"] or ()]
    return (
        one["topic"],
        one["partition"],
        "none" if one["leader"] is None else one["leader"],
        one["leader_epoch"],
        _ids(one["replicas"]),
        _ids(one["isr"]),
        ", ".join(map(str, one["elr"] or ())) or UNKNOWN,
        " ".join(moves) or UNKNOWN,
    )


# -- ring and gossip


@click.command()
@watch_option
@bootstrap_option
@output_option
def ring(is_watched: bool, bootstrap: str, output: str) -> None:
    """Show how new partitions are placed.

    Share of the ring, load and bound of each broker.

    \b
    penstock cluster ring
    """
    present(bootstrap, output, _read_ring, is_watched=is_watched)


def _read_ring(source: ClusterSource) -> View:
    found = source.ring()
    content = found.content
    lines = [
        f"{content['vnodes']} points per broker; a broker leads at most {counted(content['leaders_max'], 'partition')}"
        f" and holds at most {counted(content['replicas_max'], 'replica')} before the next one on the ring is taken."
    ]
    rows: list[tuple[object, ...]] = [
        (
            one["id"],
            one["rack"] or UNKNOWN,
            f"{100 * one['share']:.1f} %",
            one["leaders"],
            one["replicas"],
            "yes" if one["takes_replicas"] else "no",
        )
        for one in content["brokers"]
    ]
    columns = ("broker", "rack", "share", "preferred leaders", "replicas", "takes replicas")
    return view_of(found, lines, columns, rows)


@click.command()
@click.option(
    "--broker", "broker_id", type=click.IntRange(min=0), metavar="ID", help="Whose view.  [default: any]"
)
@watch_option
@bootstrap_option
@output_option
def gossip(broker_id: int | None, is_watched: bool, bootstrap: str, output: str) -> None:
    """Show what one broker hears of the others.

    State, address, load: a hint, not the state of the cluster.

    \b
    penstock cluster gossip --broker 1
    """
    present(bootstrap, output, _read_gossip, is_watched=is_watched, broker_id=broker_id)


def _read_gossip(source: ClusterSource) -> View:
    found = source.gossip()
    content = found.content
    if not content["on"]:
        return view_of(found, [f"Gossip is not running on broker {content['broker']}."], (), [])
    rows: list[tuple[object, ...]] = [
        (
            one["id"],
            one["state"],
            one["incarnation"],
            one["address"],
            *(one["attributes"].get(name, UNKNOWN) for name in ("leaders", "connections", "version")),
            "yes" if one["id"] == content["controller"] else "",
        )
        for one in content["peers"]
    ]
    columns = ("broker", "state", "incarnation", "gossip", "leaders", "connections", "version", "controller")
    return view_of(found, [f"As broker {content['broker']} hears it:"], columns, rows)


# -- controller


@click.command()
@watch_option
@bootstrap_option
@output_option
def controller(is_watched: bool, bootstrap: str, output: str) -> None:
    """Show which broker is the controller.

    \b
    penstock cluster controller -o json
    """
    present(bootstrap, output, _read_controller, is_watched=is_watched)


def _read_controller(source: ClusterSource) -> View:
    found = source.overview()
    content = found.content
    holder = next((one for one in content["brokers"] if one["id"] == content["controller"]), None)
    address = None if holder is None else holder["addresses"].get("kafka")
    short = {"controller": content["controller"], "epoch": content["controller_epoch"], "address": address}
    return view_of(found._replace(content=short), [f"Controller: {_controller_words(content)}"], (), [])


def _controller_words(content: Content) -> str:
    if content["controller"] is None:
        return "none at the moment; one of the brokers takes over when the last session has ended"
    epoch = content["controller_epoch"]
    return f"broker {content['controller']}" + ("" if epoch is None else f", epoch {epoch}")


def _known(value: object) -> object:
    return UNKNOWN if value is None else value


def _ids(broker_ids: Sequence[int]) -> str:
    return ", ".join(map(str, broker_ids)) or "none"


VIEWS = (status, brokers, topics, ring, gossip, controller)
"""Commands of `penstock cluster`."""
