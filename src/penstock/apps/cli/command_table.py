"""The commands of `penstock` by section: where each is implemented, and its summary. Imports none of them.

The summaries repeat the first sentences of the commands, so that `penstock --help` need not import every module; a
test compares them.
"""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """A command as `module:attribute`, and its line in the help."""

    target: str
    summary: str


def _entry(target: str, summary: str) -> CommandEntry:
    return CommandEntry(f"penstock.apps.cli.{target}", summary)


SECTIONS: dict[str, dict[str, CommandEntry]] = {
    "Broker": {
        "start": _entry("start:start", "Run a broker in the foreground until Ctrl-C or SIGTERM."),
        "stop": _entry("stop:stop", "Stop the broker or local cluster of a data directory."),
        "status": _entry("status:status", "Show a summary of brokers, topics and groups."),
        "top": _entry("top:top", "Show rates, lag and load, redrawn in place."),
        "doctor": _entry("doctor:doctor", "Check this machine and its broker, and say what to do."),
        "health": _entry("health:health", "Check whether a broker is ready for clients."),
        "config": _entry("config:config", "Inspect settings."),
        "cluster": _entry("cluster:cluster", "Run and inspect several brokers as one cluster."),
        "coordinator": _entry("cluster:up", "Run a whole system on this machine."),
    },
    "Records": {
        "pub": _entry("pub:pub", "Write records to a topic."),
        "sub": _entry("sub:sub", "Read records of topics and write them to stdout."),
        "sql": _entry("sql:sql", "Run an SQL query in which topics are tables."),
    },
    "Topics, groups and transactions": {
        "topic": _entry("topic:topic", "Create, inspect and change topics."),
        "group": _entry("group:group", "Inspect consumer groups and reset their offsets."),
        "txn": _entry("txn:txn", "Inspect transactions, and abort hanging ones."),
        "log": _entry("log_files:log", "Inspect log files without a broker."),
    },
    "Queues (the queue protocol, port 9999)": {
        "create-topic": _entry("queue:create_topic", "Queue: create a topic."),
        "create-subscription": _entry("queue:create_subscription", "Queue: create a durable subscription."),
        "publish": _entry("queue:publish", "Queue: publish a message."),
        "join-subscription": _entry("queue:join_subscription", "Queue: read as a member of a subscription."),
        "subscribe": _entry("queue:subscribe", "Queue: create a subscription and read from it."),
        "subscription": _entry("subscription:subscription", "Queue: inspect, redrive, delete subscriptions."),
    },
    "Services and tools": {
        "producer-service": _entry("gateway:producer_service", "Run the gRPC producer service."),
        "consumer-service": _entry("gateway:consumer_service", "Run the gRPC consumer service."),
        "pipeline": _entry("pipeline:pipeline", "Run pipelines between topics and tables, on Spark."),
        "profile": _entry(
            "profile:profile", "Manage profiles: named clusters with their address and security."
        ),
        "security": _entry("security:security", "Make and check certificates and first credentials."),
        "bench": _entry("bench:bench", "Measure the broker at an address."),
        "completion": _entry("completion:completion", "Print the completion script for a shell."),
    },
}

COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}

ALIASES = {"produce": "pub", "consume": "sub"}
"""Other names of commands. The help of each command tells them."""
