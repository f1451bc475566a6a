"""Real clients on three replicated brokers: the leader is killed with -9, every broker restarted, every replica set
changed. No client fails, none has to reset its position, and every acknowledged record is in the log once and in order.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compat.failovers import BROKERS, KEYS, Traveller, Voyage
from compat.members import Member
from compat.roster import AIOKAFKA, CONFLUENT, GO, JAVA, KAFKA_PYTHON, KAFKAJS, do_without, missing
from e2e.cluster_up import cluster_up

CLIENTS = (CONFLUENT, AIOKAFKA, KAFKA_PYTHON, KAFKAJS, JAVA, GO)
"""All of them are idempotent producers."""
ROUNDS = int(os.environ.get("FAILOVER_ROUNDS", "5"))


@contextmanager
def voyage_of(home: Path, rounds: int) -> Iterator[dict[str, Traveller]]:
    clients = [client for client in CLIENTS if missing(client) is None]
    with cluster_up(home, brokers=BROKERS) as up:
        voyage = Voyage(up, clients)
        try:
            voyage.run(rounds)
            yield {one.client: one for one in voyage.travellers}
        finally:
            voyage.close()


@pytest.fixture(scope="module")
def travellers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Traveller]]:
    with voyage_of(tmp_path_factory.mktemp("failover"), 1) as found:
        yield found


@pytest.fixture(scope="module")
def far_travellers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Traveller]]:
    with voyage_of(tmp_path_factory.mktemp("failover"), ROUNDS) as found:
        yield found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_goes_on(travellers: dict[str, Traveller], client: str) -> None:
    check(travellers, client)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_goes_on_and_on(far_travellers: dict[str, Traveller], client: str) -> None:
    check(far_travellers, client)


def check(travellers: dict[str, Traveller], client: str) -> None:
    if (reason := missing(client)) is not None:
        do_without(reason)
    traveller = travellers[client]
    if traveller.problem is not None:
        pytest.fail(traveller.problem)
    assert traveller.writer.failed == []
    for reader in traveller.readers:
        assert reader.failed == []
        check_log(traveller, reader)
    if traveller.own_reader is not None:
        places = [(one.partition, one.offset) for one in traveller.own_reader.reads]
        assert len(places) == len(set(places)), "a reader with positions of its own reads nothing twice"


def check_log(traveller: Traveller, reader: Member) -> None:
    """What it has read is all that was acknowledged, in order; nothing is twice in the log."""
    log = {(one.partition, one.offset): int(one.value) for one in reader.reads}
    assert len(set(reader.reads)) == len(log), "an offset has one record for ever"
    acked = {place: number for number, place in traveller.writer.acked.items()}
    assert len(acked) == len(traveller.writer.acked)
    assert {place: log.get(place) for place in acked} == acked, "acknowledged records are lost"
    assert len(set(log.values())) == len(log), "a record is in the log twice"
    assert len(log) == len(acked), "every record was acknowledged"
    of_key: dict[int, list[int]] = defaultdict(list)
    for _, number in sorted(log.items()):
        of_key[number % KEYS].append(number)
    assert all(numbers == sorted(numbers) for numbers in of_key.values()), "records of a key are out of order"
