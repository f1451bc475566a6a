"""Commands on services in memory: answers as text and as JSON. Never a process or a socket."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent, NestedCompleter
from prompt_toolkit.document import Document

from memory_services import MemoryFacts, MemoryServices
from penstock.apps.control.commands import FORMS
from penstock.apps.control.console import Console, completions
from penstock.apps.control.result import CommandResult, duration_text
from penstock.apps.control.services import Health


class Setup:
    def __init__(self) -> None:
        self.services = MemoryServices()
        self.facts = MemoryFacts()
        self.console = Console(self.services, self.facts)

    def result(self, line: str, *, is_trusted: bool = True) -> CommandResult:
        return asyncio.run(self.console.answer(line, is_trusted=is_trusted))[0]

    def text(self, line: str) -> str:
        return asyncio.run(self.console.run(line, is_trusted=True))

    def json(self, line: str) -> Any:
        return json.loads(self.text(f"{line} --json"))


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_status_is_an_aligned_table(setup: Setup) -> None:
    setup.services.set("broker-3", Health.STOPPED, "stopped on request")
    lines = setup.text("status").splitlines()
    assert lines[0] == "service   health   pid   ports                  uptime    restarts  detail"
    assert lines[1] == "metadata  healthy  100   -                      1 m 01 s         0"
    assert lines[2] == "broker-1  healthy  101   kafka 9092, http 9192  1 m 00 s         0"
    assert (
        lines[4] == "broker-3  stopped  -     kafka 9094, http 9212  -                0  stopped on request"
    )
    assert len(lines) == 9


def test_status_as_json(setup: Setup) -> None:
    found = setup.json("status")
    assert found["cluster_id"] == setup.services.cluster_id
    assert [one["name"] for one in found["services"]] == list(setup.services.names)
    assert found["services"][1] == {
        "name": "broker-1",
        "kind": "broker",
        "health": "healthy",
        "node_id": 1,
        "pid": 101,
        "ports": {"kafka": 9092, "http": 9192},
        "uptime_s": 60.0,
        "restarts": 0,
        "detail": "",
    }


def test_the_last_lines_of_a_fatal_service_are_shown(setup: Setup) -> None:
    setup.services.set("broker-2", Health.FATAL, "exited 5 times\nCannot listen\x1b[0m\nbye")
    lines = setup.text("broker list").splitlines()
    assert lines[2].split() == [
        "2",
        "fatal",
        "-",
        "kafka",
        "9093,",
        "http",
        "9202",
        "-",
        "0",
        "exited",
        "5",
        "times",
    ]
    assert lines[-3:] == ["broker-2:", "  Cannot listen\\x1b[0m", "  bye"]
    assert [one["node_id"] for one in setup.json("broker list")["brokers"]] == [1, 2, 3, 4, 5]


def test_changes_reach_the_service_and_tell_its_health(setup: Setup) -> None:
    for line, done, answer in (
        ("broker stop 3", "stop broker-3", "broker-3: stopped; it is stopped now"),
        ("broker start 3", "start broker-3", "broker-3: started; it is healthy now"),
        ("producer restart", "restart producer", "producer: restarted; it is healthy now"),
        ("kill broker 2", "kill broker-2", "broker-2: killed; it is dead now"),
    ):
        assert setup.text(line) == answer
        assert setup.services.done[-1] == done
    assert setup.json("consumer stop")["service"]["health"] == "stopped"


def test_restart_all(setup: Setup) -> None:
    setup.services.set("broker-1", Health.DEAD)
    assert setup.text("restart all") == "all services restarted; 8 of 8 are healthy now"
    assert setup.services.done == [f"restart {name}" for name in setup.services.names]


def test_a_broker_that_does_not_exist_names_those_that_do(setup: Setup) -> None:
    found = setup.result("broker stop 9")
    assert found.exit_status == 4
    assert found.as_text() == "error: There is no broker 9; the brokers are 1, 2, 3, 4, 5."
    assert setup.services.done == []


def test_a_refusal_of_the_services_is_an_answer(setup: Setup) -> None:
    setup.services.refuses = "broker-3 is fatal; see its log."
    found = setup.result("broker start 3")
    assert found.exit_status == 5
    assert found.as_text() == "error: broker-3 is fatal; see its log."
    assert json.loads(found.as_json())["code"] == "CommandFailed"


@pytest.mark.parametrize(
    "line",
    [
        "broker stop 1",
        "broker start 1",
        "producer restart",
        "kill broker 1",
        "restart all",
        "shutdown",
        "logs producer",
    ],
)
def test_what_changes_something_needs_the_token(setup: Setup, line: str) -> None:
    found = setup.result(line, is_trusted=False)
    assert found.exit_status == 5
    assert "token" in found.as_text()
    assert setup.services.done == []


@pytest.mark.parametrize("line", ["status", "broker list", "leaders", "topics", "lag", "help", "exit"])
def test_reading_needs_no_token(setup: Setup, line: str) -> None:
    assert setup.result(line, is_trusted=False).exit_status == 0


def test_leaders_topics_and_lag(setup: Setup) -> None:
    assert setup.text("leaders").splitlines() == [
        "broker  leads  partitions",
        "1           2  orders-0, orders-3",
        "2           1  orders-1",
        "3           0  -",
        "4           0  -",
        "5           0  -",
        "none        1  orders-2",
    ]
    assert setup.json("leaders")["brokers"][-1] == {
        "broker": None,
        "leads": 1,
        "partitions": [{"topic": "orders", "partition": 2}],
    }
    assert setup.text("topics").splitlines() == [
        "topic   partitions  replicas  under-replicated  offline",
        "orders           4         2                 2        1",
    ]
    assert setup.text("lag").splitlines() == [
        "group    topic   partitions  lag",
        "billing  orders           4   17",
        "3 more groups are not shown; see: penstock group lag GROUP",
    ]
    assert setup.json("lag")["groups"] == [
        {"group": "billing", "topic": "orders", "partitions": 4, "lag": 17}
    ]


def test_a_cluster_that_does_not_answer(setup: Setup) -> None:
    setup.facts.is_silent = True
    found = setup.result("topics")
    assert found.exit_status == 3
    assert found.as_text().startswith("error: The cluster does not answer")


def test_logs(setup: Setup) -> None:
    assert setup.text("logs broker-2 2") == "line 48 of broker-2\nline 49 of broker-2"
    assert len(setup.json("logs broker 2")["lines"]) == 20
    setup.services.logs["producer"] = []
    assert setup.text("logs producer") == "The log of producer is empty."
    setup.services.logs["producer"] = ["a\x1b]0;x\x07", "y" * 100_000]
    assert setup.text("logs producer").splitlines()[0] == r"a\x1b]0;x\x07"
    assert len(setup.text("logs producer")) < 10_000


def test_help_lists_every_command(setup: Setup) -> None:
    page = setup.text("help")
    assert [form.text for form in FORMS if form.text not in page] == []
    assert {line.split()[0] for line in setup.text("help broker").splitlines()[1:]} == {"broker"}
    assert setup.result("help nothing").exit_status == 2


def test_exit_leaves_and_shutdown_begins_to_stop(setup: Setup) -> None:
    assert setup.result("exit").leaves
    assert setup.services.done == []
    assert setup.text("shutdown") == "stopping all services"
    assert setup.services.done == ["shut down"]


@given(st.text(), st.booleans())
def test_any_line_is_answered(line: str, is_trusted: bool) -> None:
    setup = Setup()
    found, _ = asyncio.run(setup.console.answer(line, is_trusted=is_trusted))
    assert found.as_text().replace("\n", "").isprintable()
    assert isinstance(json.loads(found.as_json()), dict)


def test_completions_follow_the_table() -> None:
    tree = completions(MemoryServices(2).names)
    assert tree["status"] is None
    assert tree["broker"]["list"] is None
    assert list(tree["broker"]["stop"]) == ["1", "2"]
    assert list(tree["producer"]) == ["start", "stop", "restart", "kill"]
    assert set(tree["logs"]) == {"broker", "broker-1", "broker-2", "metadata", "producer", "consumer"}
    assert "status" in tree["help"]
    assert list(tree["restart"]) == ["all"]


def test_words_are_completed() -> None:
    completer = NestedCompleter.from_nested_dict(dict(completions(MemoryServices(2).names)))

    def completed(text: str) -> list[str]:
        return [one.text for one in completer.get_completions(Document(text), CompleteEvent())]

    assert completed("bro") == ["broker"]
    assert completed("broker st") == ["start", "stop"]
    assert completed("broker stop ") == ["1", "2"]
    assert "broker-2" in completed("logs ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.4, "0 s"), (59.9, "59 s"), (61, "1 m 01 s"), (3_700, "1 h 01 m"), (90_000, "1 d 01 h")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration_text(seconds) == text
