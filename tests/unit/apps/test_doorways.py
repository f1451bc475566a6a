"""The doors of a broker: ports at start, code with the first client, one gate for all."""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from memory_broker import SETTINGS, with_broker
from penstock.apps import doorways
from penstock.apps.doorways import KAFKA, Doorways
from penstock.apps.ready import StartError
from penstock.doors.kafka.server import KafkaDoor
from penstock.node.broker import Broker
from penstock.node.connections.gate import Gate
from penstock.node.settings import Settings
from penstock.node.waist.waist import Waist

FREE = replace(SETTINGS, port=0, text_port=0)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The one further door here is a second one of Kafka's; remembers whenever it is made."""
    made: list[Any] = []

    def make(waist: Waist, gate: Gate, settings: Settings) -> KafkaDoor:
        made.append(KafkaDoor(waist))
        return made[-1]

    monkeypatch.setattr(doorways, "LATER_DOORS", {"text": make})
    return made


def test_a_door_is_made_when_its_first_client_comes(made: list[Any]) -> None:
    async def test(broker: Broker) -> None:
        doors = Doorways(broker)
        addresses = await doors.open()
        assert sorted(addresses) == [KAFKA, "text"] and addresses["text"].port > 0
        await doors.serve(addresses[KAFKA])
        assert made == []
        doors.listeners["text"].connect()
        doors.listeners["text"].connect()
        assert len(made) == 1
        await doors.close()

    with_broker(test, FREE)


def test_a_door_that_is_off_has_no_port(made: list[Any]) -> None:
    async def test(broker: Broker) -> None:
        doors = Doorways(broker)
        assert list(await doors.open()) == [KAFKA]
        await doors.close()

    with_broker(test, replace(FREE, text_port=None))


@pytest.mark.parametrize(
    ("setting", "words"),
    [("port", ["kafka door", "--port."]), ("text_port", ["text door", "--text-port", "--text-port off"])],
)
def test_a_port_that_is_taken_is_named_with_the_flag_that_changes_it(
    made: list[Any], setting: str, words: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        async def test(broker: Broker) -> None:
            doors = Doorways(broker)
            with pytest.raises(StartError) as refused:
                await doors.open()
            for word in [*words, f"127.0.0.1:{port}", "in use"]:
                assert word in str(refused.value)

        with_broker(test, replace(FREE, **{setting: port}))


def test_the_code_of_further_doors_is_not_loaded_at_start() -> None:
    """In a process of its own: this one may have loaded anything."""
    listed = "import sys, penstock.apps.serve; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", listed], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "penstock.doors.kafka.server" in loaded
    further = ("penstock.doors.", "penstock.wire.")
    needed = {"penstock.wire.foreign_protocol"}  # recognises other protocols in the first bytes of every door
    found = {name for name in loaded if name.startswith(further) and ".kafka" not in name}
    assert found == needed


def test_the_kafka_port_relays_grpc_clients_only_if_told_to(made: list[Any]) -> None:
    async def test(broker: Broker) -> None:
        doors = Doorways(broker)
        assert type(doors.kafka).__name__ == (
            "RelayingKafkaDoor" if broker.settings.grpc_relay else "KafkaDoor"
        )
        await doors.open()
        await doors.close()

    with_broker(test, FREE)
    with_broker(test, replace(FREE, grpc_relay="127.0.0.1:1"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_relay_to_the_own_port_is_a_circle(made: list[Any], host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def test(broker: Broker) -> None:
        with pytest.raises(StartError, match="in a circle"):
            await Doorways(broker).open()

    with_broker(test, replace(FREE, port=port, grpc_relay=f"{host}:{port}"))
