"""Five requests in flight on one connection, inside transactions that keep taking in new partitions.

A batch that waits for the coordinator must not be overtaken by the next one of the same connection. The clients choose
partitions and batches as they do by default: then requests with a new partition alternate with requests without.

Java and franz-go fail here when a Produce that waits for the coordinator does not hold its connection. librdkafka would
not: it registers partitions by AddPartitionsToTxn (protocol V1) and waits for that before it sends batches.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat.roster import CONFLUENT, GO, JAVA
from compat.runtimes import go_command, java_command
from compat.transactors import read_to_end
from compat.vocabulary import WAIT_S

PARTITIONS = 10
TRANSACTIONS = 8
RECORDS = 8_000
RUN_S_MAX = 200
_CLIENTS_DIR = Path(__file__).resolve().parent / "clients"

COMMANDS: dict[str, Callable[[str, str], list[str]]] = {
    CONFLUENT: lambda *words: [sys.executable, os.fspath(_CLIENTS_DIR / "pipeliner.py"), *words],
    JAVA: lambda *words: java_command(*words, program="Pipeliner"),
    GO: lambda *words: go_command(*words, program="pipeliner"),
}


@pytest.mark.parametrize("client", list(COMMANDS))
def test_batches_in_flight_keep_their_order(
    client: str, bootstrap: str, runnable: Callable[[str], str]
) -> None:
    runnable(client)
    topic = f"pipelined-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(WAIT_S)
    asked = {"topic": topic, "id": topic, "transactions": TRANSACTIONS, "records": RECORDS}
    done = subprocess.run(
        COMMANDS[client](bootstrap, json.dumps(asked)),
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert json.loads(done.stdout) == {"ok": TRANSACTIONS * RECORDS}, done.stderr[-2000:]
    found: list[int] = []
    for partition in range(PARTITIONS):
        numbers = [int(value) for value in read_to_end(bootstrap, topic, partition)]
        assert numbers == sorted(numbers), f"partition {partition} is out of order"
        found += numbers
    assert sorted(found) == list(range(TRANSACTIONS * RECORDS))
