"""Which clients there are, what each can do, how each is opened. Never opens one before it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from compat.clients.aio import AiokafkaClient
from compat.clients.confluent import ConfluentClient
from compat.clients.driven import DrivenClient
from compat.clients.kafka_python import KafkaPythonClient
from compat.clients.kcat import KcatClient
from compat.runtimes import go_command, java_command, node_command
from compat.vocabulary import CODECS, Client, MissingRuntime

CONFLUENT, AIOKAFKA, KAFKA_PYTHON = "confluent-kafka", "aiokafka", "kafka-python"
KAFKAJS, KCAT, JAVA = "kafkajs", "kcat", "java"
GO = "franz-go"
"""Has programs of its own and no driver: see compat.test_pipelined."""
NAMES = (CONFLUENT, AIOKAFKA, KAFKA_PYTHON, KAFKAJS, KCAT, JAVA)

OPENERS: dict[str, Callable[[str], Any]] = {
    CONFLUENT: ConfluentClient,
    AIOKAFKA: AiokafkaClient,
    KAFKA_PYTHON: KafkaPythonClient,
    KAFKAJS: lambda bootstrap: DrivenClient(node_command(bootstrap)),
    KCAT: KcatClient,
    JAVA: lambda bootstrap: DrivenClient(java_command(bootstrap)),
}

EVERY = frozenset(NAMES)
ADMINS = EVERY - {KCAT}

# ability -> clients that have it. What is absent is not in the library, not left out by the suite.
ABLE: dict[str, frozenset[str]] = {
    "produce": EVERY,
    "fetch": EVERY,
    "report_offsets": EVERY - {KCAT},
    "mixed_records": EVERY - {KCAT},
    "neither_key_nor_value": frozenset({CONFLUENT, KAFKAJS, JAVA}),
    "null_headers": frozenset({CONFLUENT, AIOKAFKA, KCAT, JAVA}),
    "repeated_headers": EVERY - {KAFKAJS},
    "admit_no_offset": frozenset({CONFLUENT, AIOKAFKA, KAFKAJS, JAVA}),
    "name_invalid_record": EVERY - {AIOKAFKA},
    "offset_of": EVERY,
    "offset_of_max_timestamp": frozenset({CONFLUENT, KAFKA_PYTHON, JAVA}),
    "look_without_creating": frozenset({CONFLUENT, KAFKA_PYTHON, KAFKAJS, JAVA}),
    "create_on_produce": EVERY,
    "topics": ADMINS,
    "default_counts": ADMINS - {AIOKAFKA},
    "delete_records": ADMINS,
    "describe_configs": ADMINS,
    "refuse_unknown_topic_configs": ADMINS - {KAFKA_PYTHON},
    "replace_configs": frozenset({CONFLUENT, AIOKAFKA, KAFKAJS}),
    "change_configs": frozenset({CONFLUENT, KAFKA_PYTHON, JAVA}),
    "cluster": ADMINS,
    "log_dirs": frozenset({KAFKA_PYTHON, JAVA}),
    "topic_id": frozenset({CONFLUENT, KAFKA_PYTHON, JAVA}),
    "name_of": frozenset({KAFKA_PYTHON, JAVA}),
}

# kafkajs ships gzip alone; the others have every codec.
CODECS_OF: dict[str, tuple[str, ...]] = dict.fromkeys(NAMES, CODECS) | {KAFKAJS: ("none", "gzip")}


def able(ability: str) -> list[str]:
    """Clients with an ability, in the order of NAMES."""
    return [name for name in NAMES if name in ABLE[ability]]


def do_without(missing: MissingRuntime) -> NoReturn:
    """Skip the test, or fail it where every client must be there."""
    if os.environ.get("PENSTOCK_REQUIRE_CLIENTS") == "1":
        pytest.fail(str(missing))
    pytest.skip(str(missing))


def missing(name: str) -> MissingRuntime | None:
    """What programs that use a client lack here."""
    try:
        if name == JAVA:
            java_command()
        elif name == KAFKAJS:
            node_command("")
        elif name == GO:
            go_command(program="pipeliner")
    except MissingRuntime as lacking:
        return lacking
    return None


def required(name: str) -> str:
    """A client's name, once it is known that programs that use it can run here."""
    if (lacking := missing(name)) is not None:
        do_without(lacking)
    return name


class Roster:
    """The clients of one session, each opened when first asked for and kept."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._open: dict[str, Client] = {}

    def client(self, name: str) -> Client:
        if name not in self._open:
            self._open[name] = OPENERS[name](self._bootstrap)
        return self._open[name]

    def close(self) -> None:
        for client in self._open.values():
            client.close()
        self._open.clear()
