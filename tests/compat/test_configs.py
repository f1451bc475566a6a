"""Configs with every client that has them: the list is complete and true, changes take, bad ones do not."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from compat.roster import able
from compat.vocabulary import Client, CreateTopic, KafkaRefused, Sent, refused
from conditions import until
from several_brokers import NODES

KNOWN_TOPIC_SETTINGS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
# Present, with a default that is a broker's own business.
NAMED_TOPIC_SETTINGS = {"flush.messages", "flush.ms", "index.interval.bytes"}
BROKER_SETTINGS = {"advertised.listeners", "log.dirs", "auto.create.topics.enable", "num.partitions"}


def expect(client: Client, topic: str, expected: Mapping[str, str]) -> None:
    """A change is told at once by the broker that made it. Others of a cluster, which a client may ask next, hear of it
    a moment later."""

    def told() -> dict[str, str | None]:
        configs = client.topic_configs(topic)
        return {name: configs[name] for name in expected}

    if NODES > 1:
        until(lambda: told() == expected, f"{expected} in the settings of {topic}")
    else:
        assert told() == expected


def accepts(client: Client, topic: str, value: bytes) -> bool:
    try:
        client.produce(topic, [Sent(value)])
    except KafkaRefused:
        return False
    return True


@pytest.mark.parametrize("client", able("describe_configs"), indirect=True)
def test_topic_defaults_are_told(client: Client, new_topic: CreateTopic) -> None:
    configs = client.topic_configs(new_topic())
    assert {name: configs.get(name) for name in KNOWN_TOPIC_SETTINGS} == KNOWN_TOPIC_SETTINGS
    assert configs.keys() >= NAMED_TOPIC_SETTINGS


@pytest.mark.parametrize("client", able("describe_configs"), indirect=True)
def test_broker_configs_are_told(client: Client) -> None:
    assert client.broker_configs().keys() >= BROKER_SETTINGS


@pytest.mark.parametrize("client", able("refuse_unknown_topic_configs"), indirect=True)
def test_configs_of_an_unknown_topic(client: Client, fresh: str) -> None:
    with refused("UNKNOWN_TOPIC_OR_PARTITION"):
        client.topic_configs(fresh)


@pytest.mark.parametrize("client", able("replace_configs"), indirect=True)
def test_replace_resets_what_it_does_not_name(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic(retention_ms="1000000", segment_bytes="2000000")
    client.replace_configs(topic, {"retention.ms": "3000000"})
    expect(client, topic, {"retention.ms": "3000000", "segment.bytes": "1073741824"})


@pytest.mark.parametrize("client", able("change_configs"), indirect=True)
def test_change_leaves_what_it_does_not_name(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic(retention_ms="1000000", segment_bytes="2000000")
    client.change_configs(topic, {"retention.ms": "3000000"})
    expect(client, topic, {"retention.ms": "3000000", "segment.bytes": "2000000"})
    client.change_configs(topic, {"retention.ms": None, "segment.bytes": "4000000"})
    expect(client, topic, {"retention.ms": "604800000", "segment.bytes": "4000000"})


@pytest.mark.parametrize("client", able("change_configs"), indirect=True)
def test_a_change_takes_effect_at_once(client: Client, new_topic: CreateTopic) -> None:
    topic = new_topic()
    value = random.Random(7).randbytes(5000)
    client.produce(topic, [Sent(value)])
    client.change_configs(topic, {"max.message.bytes": "1000"})
    expect(client, topic, {"max.message.bytes": "1000"})
    if NODES > 1:
        until(lambda: not accepts(client, topic, value), "the leader to refuse what is too large now")
    with refused("MESSAGE_TOO_LARGE"):
        client.produce(topic, [Sent(value)])


@pytest.mark.parametrize("bad", [{"no.such.setting": "1"}, {"retention.ms": "soon"}, {"segment.bytes": "-5"}])
@pytest.mark.parametrize("client", able("change_configs"), indirect=True)
def test_a_bad_change_is_refused(client: Client, new_topic: CreateTopic, bad: dict[str, str]) -> None:
    topic = new_topic()
    before = client.topic_configs(topic)
    with refused("INVALID_CONFIG"):
        client.change_configs(topic, {"max.message.bytes": "3000000", **bad})
    assert client.topic_configs(topic) == before, "a refused change changes nothing"


@pytest.mark.parametrize("bad", [{"no.such.setting": "1"}, {"retention.ms": "soon"}])
@pytest.mark.parametrize("client", able("replace_configs"), indirect=True)
def test_a_bad_replacement_is_refused(client: Client, new_topic: CreateTopic, bad: dict[str, str]) -> None:
    topic = new_topic()
    with refused("INVALID_CONFIG"):
        client.replace_configs(topic, bad)


@pytest.mark.parametrize("client", able("change_configs"), indirect=True)
def test_change_of_an_unknown_topic(client: Client, fresh: str) -> None:
    with refused("UNKNOWN_TOPIC_OR_PARTITION"):
        client.change_configs(fresh, {"retention.ms": "1000"})
