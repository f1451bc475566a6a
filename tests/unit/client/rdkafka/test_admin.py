"""Admin against a real broker: topics, settings, groups, lag."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from penstock import Admin, Consumer, Producer
from penstock.client.descriptions import Lag, Topic
from penstock.client.errors import AlreadyThere, BadArgument, IllegalState, NotFound, Refused
from penstock.client.messages import Position
from penstock.testing import Broker

WAIT_S = 30.0


def test_life_of_a_topic(broker: Broker) -> None:
    name = f"client-{uuid4().hex[:8]}"
    with Admin(bootstrap=broker.bootstrap) as admin:
        assert admin.create_topic(name, 2, {"retention.ms": "60000"})
        with pytest.raises(AlreadyThere):
            admin.create_topic(name)
        assert not admin.create_topic(name, if_not_exists=True)
        assert Topic(name, 2, 1) in admin.topics()
        assert {topic.topic for topic in admin.topics()} <= {
            topic.topic for topic in admin.topics(internal=True)
        }

        admin.set_configs(name, {"segment.bytes": "1048576"}, unset=["retention.ms"])
        admin.add_partitions(name, 3)
        described = admin.describe_topic(name)
        assert [part.partition for part in described.partitions] == [0, 1, 2]
        assert {part.records for part in described.partitions} == {0}
        assert {config.name: config.value for config in described.configs} == {"segment.bytes": "1048576"}
        assert len(admin.configs(name)) > 5
        assert len(admin.describe_topic(name, all_configs=True).configs) == len(admin.configs(name))

        for refused in ({"no.such.setting": "1"}, {"cleanup.policy": "never"}):
            with pytest.raises(Refused):
                admin.set_configs(name, refused)
        with pytest.raises(Refused):
            admin.add_partitions(name, 1)
        with pytest.raises(Refused):
            admin.create_topic("no spaces")
        admin.delete_topic(name)
        for call in (admin.delete_topic, admin.describe_topic, admin.configs):
            with pytest.raises(NotFound):
                call(name)


def test_groups_and_lag(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    group = f"group-{topic}"
    with Producer(bootstrap=broker.bootstrap) as producer:
        for _ in range(5):
            producer.send(topic, b"x", partition=0)
        producer.send(topic, b"x", partition=1)
    with Admin(bootstrap=broker.bootstrap) as admin:
        for absent in (admin.describe_group, admin.committed, admin.lag, admin.delete_group):
            with pytest.raises(NotFound):
                absent(group)
        with Consumer(topic, bootstrap=broker.bootstrap, group=group, commit="manual") as consumer:
            first = consumer.poll(WAIT_S)
            while first is not None and first.partition != 0:
                first = consumer.poll(WAIT_S)
            assert first is not None
            consumer.commit(first)
            described = admin.describe_group(group)
            assert (described.state, len(described.members)) == ("stable", 1)
            assert described.members[0].partitions == [f"{topic}-0", f"{topic}-1"]
            with pytest.raises(Refused):
                admin.delete_group(group)
        assert group in [found.group for found in admin.groups()]
        rows = admin.lag(group)
        assert rows == [Lag(topic, 0, first.offset + 1, 5, 4 - first.offset), Lag(topic, 1, None, 1, 1)]
        admin.move_group(group, [Position(topic, 0, 5), Position(topic, 1, 1)])
        assert admin.committed(group) == [Position(topic, 0, 5), Position(topic, 1, 1)]
        assert sum(row.lag for row in admin.lag(group)) == 0
        admin.delete_group(group)


def test_wrong_options_and_moments(broker: Broker) -> None:
    with pytest.raises(BadArgument, match="Did you mean 'bootstrap'"):
        Admin(bootstrp="x")  # type: ignore[call-arg]
    admin = Admin(bootstrap=broker.bootstrap)
    admin.close()
    with pytest.raises(IllegalState, match="closed"):
        admin.topics()
