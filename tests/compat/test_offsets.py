"""List offsets with every client: earliest, latest, by time, by greatest time, after deleting records."""

from __future__ import annotations

import pytest

from compat.raw import RawConnection, batch
from compat.roster import KAFKAJS, able
from compat.vocabulary import EARLIEST, LATEST, MAX_TIMESTAMP, Client, CreateTopic, Sent, refused

# Records this old would be deleted by the default retention at any moment.
FOR_EVER = "-1"
BASE_MS = 1_600_000_000_000


def _fill(raw: RawConnection, topic: str, *batches_of_ms: list[int]) -> None:
    for times_ms in batches_of_ms:
        answer = raw.produce(topic, batch(*(Sent(b"v", timestamp_ms=BASE_MS + ms) for ms in times_ms)))
        assert answer.error_code == 0


@pytest.mark.parametrize("client", able("offset_of"), indirect=True)
def test_an_empty_partition(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic(retention_ms=FOR_EVER)
    assert (client.offset_of(topic, 0, EARLIEST), client.offset_of(topic, 0, LATEST)) == (0, 0)


@pytest.mark.parametrize("client", able("offset_of"), indirect=True)
def test_earliest_and_latest(client: Client, new_topic: CreateTopic, raw: RawConnection) -> None:
    topic = new_topic(retention_ms=FOR_EVER)
    _fill(raw, topic, [0, 1, 2], [3, 4])
    assert (client.offset_of(topic, 0, EARLIEST), client.offset_of(topic, 0, LATEST)) == (0, 5)


@pytest.mark.parametrize("client", able("offset_of"), indirect=True)
def test_by_time(client: Client, new_topic: CreateTopic, raw: RawConnection) -> None:
    """The first record at or after the time, also inside a batch, also where times run backwards."""
    topic = new_topic(retention_ms=FOR_EVER)
    _fill(raw, topic, [0, 10, 20], [30, 25, 50], [40, 60])
    found = {ms: client.offset_of(topic, 0, BASE_MS + ms) for ms in (-5, 0, 1, 10, 20, 25, 31, 50, 51)}
    assert found == {-5: 0, 0: 0, 1: 1, 10: 1, 20: 2, 25: 3, 31: 5, 50: 5, 51: 7}


@pytest.mark.parametrize("client", [name for name in able("offset_of") if name != KAFKAJS], indirect=True)
def test_by_a_time_after_the_end(client: Client, new_topic: CreateTopic, raw: RawConnection) -> None:
    """kafkajs is left out: it turns "none" into the end of the partition by itself."""
    topic = new_topic(retention_ms=FOR_EVER)
    _fill(raw, topic, [0, 10])
    assert client.offset_of(topic, 0, BASE_MS + 11) == -1


@pytest.mark.parametrize("client", able("offset_of_max_timestamp"), indirect=True)
def test_by_the_greatest_time(client: Client, new_topic: CreateTopic, raw: RawConnection) -> None:
    topic = new_topic(retention_ms=FOR_EVER)
    assert client.offset_of(topic, 0, MAX_TIMESTAMP) == -1
    _fill(raw, topic, [0, 10, 5], [7, 90, 8], [20, 90])
    assert client.offset_of(topic, 0, MAX_TIMESTAMP) == 4


@pytest.mark.parametrize("client", able("delete_records"), indirect=True)
def test_delete_records_moves_the_start(client: Client, new_topic: CreateTopic, raw: RawConnection) -> None:
    topic = new_topic(retention_ms=FOR_EVER)
    _fill(raw, topic, [0, 1, 2, 3], [4, 5])
    assert client.delete_records(topic, 0, 2) == 2
    assert (client.offset_of(topic, 0, EARLIEST), client.offset_of(topic, 0, LATEST)) == (2, 6)
    assert [record.offset for record in client.fetch(topic, 0, 2, 4)] == [2, 3, 4, 5]


@pytest.mark.parametrize("client", able("delete_records"), indirect=True)
def test_delete_records_past_the_end(client: Client, new_topic: CreateTopic, raw: RawConnection) -> None:
    topic = new_topic(retention_ms=FOR_EVER)
    _fill(raw, topic, [0, 1])
    with refused("OFFSET_OUT_OF_RANGE"):
        client.delete_records(topic, 0, 3)
