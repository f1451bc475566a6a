"""Topics with every client that administers them: create, look, grow, delete, each refusal by its name."""

from __future__ import annotations

import pytest

from compat.raw import RawConnection
from compat.roster import JAVA, KAFKA_PYTHON, KAFKAJS, able
from compat.vocabulary import Client, CreateTopic, Sent, refused
from several_brokers import NODES

BAD_NAMES = [".", "..", "a/b", "with space", "ü", "x" * 250]
BAD_CONFIGS = [{"no.such.setting": "1"}, {"retention.ms": "soon"}, {"cleanup.policy": "shred"}]
ADMINS = able("topics")


@pytest.mark.parametrize("client", ADMINS, indirect=True)
def test_create_with_configs(client: Client, fresh: str, raw: RawConnection) -> None:
    client.create_topic(fresh, 3, 1, {"cleanup.policy": "compact", "retention.ms": "123456789"})
    raw.await_leaders(fresh, 3)
    assert client.partitions_of(fresh) == 3
    configs = client.topic_configs(fresh)
    assert (configs["cleanup.policy"], configs["retention.ms"]) == ("compact", "123456789")


@pytest.mark.parametrize("client", able("default_counts"), indirect=True)
def test_create_with_the_brokers_defaults(client: Client, fresh: str, raw: RawConnection) -> None:
    client.create_topic(fresh, -1, -1, {})
    raw.await_leaders(fresh, 1)
    assert client.partitions_of(fresh) == 1


@pytest.mark.parametrize("client", ADMINS, indirect=True)
def test_create_twice(client: Client, new_topic: CreateTopic, request: pytest.FixtureRequest) -> None:
    topic = new_topic()
    if request.node.callspec.params["client"] == KAFKAJS:  # answers false instead of raising
        client.create_topic(topic, 2, 1, {})
        assert client.partitions_of(topic) == 1
        return
    with refused("TOPIC_ALREADY_EXISTS"):
        client.create_topic(topic, 1, 1, {})


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("client", ADMINS, indirect=True)
def test_invalid_names(client: Client, name: str) -> None:
    with refused("INVALID_TOPIC_EXCEPTION"):
        client.create_topic(name, 1, 1, {})


@pytest.mark.parametrize("configs", BAD_CONFIGS)
@pytest.mark.parametrize("client", ADMINS, indirect=True)
def test_invalid_configs(client: Client, configs: dict[str, str], fresh: str) -> None:
    with refused("INVALID_CONFIG"):
        client.create_topic(fresh, 1, 1, configs)


@pytest.mark.parametrize("client", ADMINS, indirect=True)
def test_more_replicas_than_brokers(client: Client, fresh: str) -> None:
    with refused("INVALID_REPLICATION_FACTOR"):
        client.create_topic(fresh, 1, NODES + 2, {})


@pytest.mark.parametrize("client", ADMINS, indirect=True)
def test_grow(client: Client, new_topic: CreateTopic, raw: RawConnection) -> None:
    topic = new_topic(partitions=1)
    client.produce(topic, [Sent(b"before")])
    client.add_partitions(topic, 4)
    raw.await_leaders(topic, 4)
    assert client.partitions_of(topic) == 4
    assert client.fetch(topic, 0, 0, 1)[0].value == b"before"


@pytest.mark.parametrize("total", [1, 3])
@pytest.mark.parametrize("client", ADMINS, indirect=True)
def test_a_topic_does_not_shrink(client: Client, new_topic: CreateTopic, total: int) -> None:
    with refused("INVALID_PARTITIONS"):
        client.add_partitions(new_topic(partitions=3), total)


@pytest.mark.parametrize("client", ADMINS, indirect=True)
def test_grow_what_is_not_there(client: Client, fresh: str) -> None:
    with refused("UNKNOWN_TOPIC_OR_PARTITION"):
        client.add_partitions(fresh, 4)


@pytest.mark.parametrize("client", ADMINS, indirect=True)
def test_delete(client: Client, new_topic: CreateTopic, raw: RawConnection) -> None:
    topic = new_topic()
    client.produce(topic, [Sent(b"gone")])
    client.delete_topic(topic)
    raw.await_absence(topic)
    with refused("UNKNOWN_TOPIC_OR_PARTITION"):
        client.delete_topic(topic)


@pytest.mark.parametrize("client", able("look_without_creating"), indirect=True)
def test_looking_at_an_unknown_topic(client: Client, fresh: str, raw: RawConnection) -> None:
    with refused("UNKNOWN_TOPIC_OR_PARTITION"):
        client.partitions_of(fresh)
    assert fresh not in {topic.name for topic in raw.metadata(None).topics}


@pytest.mark.parametrize("client", able("topic_id"), indirect=True)
def test_topic_ids(client: Client, fresh: str, raw: RawConnection) -> None:
    client.create_topic(fresh, 1, 1, {})
    raw.await_leaders(fresh, 1)
    first = client.topic_id(fresh)
    assert client.topic_id(fresh) == first
    client.delete_topic(fresh)
    raw.await_absence(fresh)
    client.create_topic(fresh, 1, 1, {})
    raw.await_leaders(fresh, 1)
    assert client.topic_id(fresh) != first, "a topic made anew is another topic"


@pytest.mark.parametrize("client", able("name_of"), indirect=True)
def test_describe_by_id(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic()
    assert client.name_of(client.topic_id(topic)) == topic


@pytest.mark.parametrize(
    ("client", "nobody"),
    [(KAFKA_PYTHON, "12345678-1234-4234-8234-123456789abc"), (JAVA, "EjRWeBI0QjSCNBI0VniavA")],
    indirect=["client"],
)
def test_describe_by_an_id_that_is_nobodys(client: Client, nobody: str) -> None:
    with refused("UNKNOWN_TOPIC_ID"):
        client.name_of(nobody)
