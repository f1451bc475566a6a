"""Batches that contradict themselves: what Penstock answers, and what Apache Kafka answers to the same bytes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from compat.bad_batches import NONE, cases
from compat.raw import RawConnection, batches
from compat.reference.__main__ import running_kafka
from compat.vocabulary import MissingRuntime


@pytest.fixture(scope="module")
def kafka() -> Iterator[RawConnection]:
    try:
        with running_kafka() as bootstrap, RawConnection(bootstrap) as connection:
            yield connection
    except MissingRuntime as missing:
        pytest.skip(str(missing))


def answers(connection: RawConnection) -> dict[str, tuple[int, list[int]]]:
    """The error code of each case, and the records that the answer names."""
    found = {}
    for case in cases():
        topic = f"compat-{uuid.uuid4().hex[:12]}"
        connection.create_topic(topic, 1, **case.configs)
        answer = connection.produce(topic, case.batch)
        found[case.name] = answer.error_code, [one.batch_index for one in answer.record_errors or ()]
    return found


def test_every_bad_batch_is_refused_and_the_partition_goes_on(raw: RawConnection) -> None:
    is_kafka = "PENSTOCK_COMPAT_BOOTSTRAP" in os.environ
    expected = {case.name: case.kafkas if is_kafka else case.ours for case in cases()}
    assert answers(raw) == expected


def test_max_timestamps_are_those_of_the_records(raw: RawConnection) -> None:
    for case in cases():
        if case.ours[0] == NONE and not case.configs:
            topic = f"compat-{uuid.uuid4().hex[:12]}"
            raw.create_topic(topic, 1)
            assert raw.produce(topic, case.batch).error_code == NONE
            (read,) = batches(raw.fetch(topic, 0).records)
            assert read.max_timestamp == max(one.timestamp for one in read), case.name
            assert read.timestamp_type == 0, case.name


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_kafka_answers_as_the_table_says(kafka: RawConnection) -> None:
    assert answers(kafka) == {case.name: case.kafkas for case in cases()}


def test_every_difference_from_kafka_has_a_reason() -> None:
    assert [case.name for case in cases() if (case.ours != case.kafkas) != bool(case.why_different)] == []
