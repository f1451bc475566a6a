"""The plan of a local cluster: ports, directories and command lines, and mistakes before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.apps.cli.setting_options import SettingsCommand
from penstock.apps.control.cluster_plan import (
    PORTS,
    broker_arguments,
    broker_command,
    child_environment,
    coordinator_command,
    plan_cluster,
    reachable_host,
    relay_target,
    service_command,
)
from penstock.apps.control.system_settings import BROKERS_MAX, BROKERS_ONLY, SystemSettings
from penstock.apps.gateways.settings import ConsumerSettings, ProducerSettings
from penstock.node.settings import DEFINITIONS, Settings
from penstock.node.settings_loader import SettingsError, load_settings


def problems(count: int, system: SystemSettings = BROKERS_ONLY, **flags: object) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        plan_cluster(load_settings(None, {}, flags), count, system=system)
    return [str(problem) for problem in caught.value.problems]


DOOR_PORTS = (9080, 9081, 9082, 9999)


def test_ports_and_directories_are_laid_out_as_documented(tmp_path: Path) -> None:
    plan = plan_cluster(load_settings(None, {}, {"data_dir": str(tmp_path)}), 3)
    assert [broker.ports for broker in plan.brokers] == [
        dict(zip(PORTS, (9092 + index, *(port + 100 * index for port in DOOR_PORTS)), strict=True))
        for index in range(3)
    ]
    assert plan.services == () and plan.system == BROKERS_ONLY
    assert plan.coordinator_port == 9191
    assert [broker.settings.node_id for broker in plan.brokers] == [1, 2, 3]
    assert [broker.settings.data_dir for broker in plan.brokers] == [
        str(tmp_path / f"broker-{number}") for number in (1, 2, 3)
    ]
    assert plan.coordinator_dir == tmp_path / "coordinator"


def test_a_port_that_is_set_counts_up_and_one_that_is_off_is_off_for_all() -> None:
    flags = {"port": 5000, "http_port": 8000, "text_port": "off", "json_port": 0, "advertised_port": 7000}
    plan = plan_cluster(load_settings(None, {}, flags), 2)
    one, two = (broker.settings for broker in plan.brokers)
    assert (one.http_port, one.text_port, one.json_port, one.advertised_port) == (8000, None, 0, 7000)
    assert (two.http_port, two.text_port, two.json_port, two.advertised_port) == (8001, None, 0, 7001)
    assert (two.port, two.queue_port) == (5001, 6007)


def test_without_a_base_port_all_ports_are_free_ones() -> None:
    plan = plan_cluster(load_settings(None, {}, {"port": 0}), 2)
    assert plan.coordinator_port == 0
    assert [broker.ports for broker in plan.brokers] == [{}, {}]


def test_the_largest_cluster_has_a_port_for_everything() -> None:
    plan = plan_cluster(load_settings(), BROKERS_MAX, system=SystemSettings())
    ports = [one.port for one in plan.planned_ports()]
    assert len(set(ports)) == len(ports) == len(PORTS) * BROKERS_MAX + 5


def test_mistakes_are_told_before_anything_starts() -> None:
    limit = "allowed: at most 65535, so start lower"
    assert problems(1, port=65_500) == [
        f"settings: port: the port of the metadata process would be 65599; {limit}"
    ]
    assert problems(3, port=65_330) == [
        f"settings: queue_port: the port of the queue door of broker-1 would be 66237; {limit}"
    ]
    assert problems(1, port=5) == [
        "settings: http_port: the port of the http door of broker-1 would be -7; allowed: at least 1, so start higher"
    ]
    told_all = problems(2, node_id=7, metadata="etcd://a", storage="memory")
    assert [one.split(": ")[1] for one in told_all] == ["node_id", "metadata"]
    assert "remove it (flag --metadata)" in told_all[1]


@pytest.mark.parametrize(
    ("system", "flags", "told"),
    [
        (
            BROKERS_ONLY,
            {"http_port": 9093},
            "the Kafka door of broker-2 and the http door of broker-1 would both listen on port 9093;"
            " move one of them with --base-port or --http-port",
        ),
        (
            SystemSettings(api_port=9094),
            {},
            "the Kafka door of broker-3 and the HTTP API of the coordinator would both listen on port 9094;"
            " move one of them with --base-port or --api-port",
        ),
        (
            SystemSettings(console_port=8080),
            {},
            "the console of the coordinator and the HTTP API of the coordinator would both listen on port 8080;"
            " move one of them with --console-port or --api-port",
        ),
        (
            SystemSettings(),
            {"http_port": 9191},
            "the http door of broker-1 and the metadata process would both listen on port 9191;"
            " move one of them with --http-port or --base-port",
        ),
        (
            SystemSettings(),
            {"text_port": 9192},
            "the producer service and the text door of broker-2 would both listen on port 9193;"
            " move one of them with --base-port or --text-port",
        ),
    ],
)
def test_a_collision_names_both_and_the_remedy(
    system: SystemSettings, flags: dict[str, object], told: str
) -> None:
    assert [one.partition(": ")[2].partition(": ")[2] for one in problems(3, system, **flags)] == [told]


def test_services_are_told_their_brokers_and_options(tmp_path: Path) -> None:
    system = SystemSettings(
        producer=ProducerSettings(batch_bytes_max=16_384, linger_ms=100),
        consumer=ConsumerSettings(session_ms=9_000),
    )
    plan = plan_cluster(load_settings(None, {}, {"data_dir": str(tmp_path)}), 5, system=system)
    producer, consumer = plan.services
    assert (producer.port, consumer.port) == (9193, 9194)
    assert service_command(plan, producer, 77, "a:1,b:2", Path("r"))[3:] == [
        "producer-service",
        "--host=127.0.0.1",
        "--port=77",
        "--bootstrap=a:1,b:2",
        "--linger-ms=100",
        "--batch-bytes=16384",
        "--log-level=info",
        "--log-format=text",
        "--ready-file=r",
    ]
    assert consumer.flags == ("--session-ms=9000",)


def test_brokers_two_and_three_stand_in_for_the_services() -> None:
    """Clients that were told the ports 9093 and 9094 find the services there."""
    plan = plan_cluster(load_settings(None, {}, {"host": "0.0.0.0"}), 4, system=SystemSettings())
    targets = [relay_target(broker.settings, plan.services) for broker in plan.brokers]
    assert targets == [None, "127.0.0.1:9193", "127.0.0.1:9194", None]
    assert [broker.settings.grpc_relay for broker in plan.brokers] == targets
    free = plan_cluster(load_settings(None, {}, {"port": 0}), 3, system=SystemSettings())
    assert [relay_target(broker.settings, free.services) for broker in free.brokers] == [None, None, None]
    assert reachable_host("10.0.0.1") == "10.0.0.1"


def test_metadata_of_records_in_memory_has_its_own_directory(tmp_path: Path) -> None:
    flags = {"data_dir": str(tmp_path), "storage": "memory"}
    assert plan_cluster(load_settings(None, {}, flags), 1).coordinator_dir == tmp_path / "coordinator-memory"


@pytest.mark.parametrize(("brokers", "factor"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_topics_of_a_local_cluster_have_up_to_three_replicas(brokers: int, factor: int) -> None:
    plan = plan_cluster(load_settings(), brokers)
    assert {one.settings.default_replication_factor for one in plan.brokers} == {factor}


def test_the_settings_and_the_brokers_of_one_machine_decide_otherwise() -> None:
    given = plan_cluster(load_settings(None, {}, {"default_replication_factor": 2}), 3)
    assert {one.settings.default_replication_factor for one in given.brokers} == {2}
    cores = plan_cluster(load_settings(), 3, (0, 1, 2))
    assert {one.settings.default_replication_factor for one in cores.brokers} == {0}


def test_brokers_that_are_not_started_are_known(tmp_path: Path) -> None:
    for name in ("broker-1", "broker-2", "broker-3", "coordinator"):
        (tmp_path / name).mkdir()
    plan = plan_cluster(load_settings(None, {}, {"data_dir": str(tmp_path)}), 2)
    assert plan.unplanned == ["broker-3"]


CHANGED = {
    "text_port": None,
    "http_allowed_hosts": ".internal,with space",
    "metadata": "coordinator://127.0.0.1:99?secret=/a%20b",
    "storage": "memory",
    "auto_create_topics": False,
    "session_ms": 9_000,
    "rack": "it's a rack",
    "retention_ms": -1,
    "log_format": "json",
}


def test_a_command_line_says_exactly_what_the_settings_are() -> None:
    """Parsed by the command itself: what a child is told is what was meant."""
    known = {definition.name for definition in DEFINITIONS}
    given = {name: value for name, value in CHANGED.items() if name in known}
    settings = load_settings(
        None, {}, {name: "off" if v is None else v for name, v in given.items()}
    ).settings
    seen: dict[str, object] = {}

    def collect(**flags: object) -> None:
        seen.update({name: value for name, value in flags.items() if value is not None})

    command = SettingsCommand("start", callback=collect)
    arguments = broker_arguments(settings, Path("r"))
    assert arguments[0] == "start" and arguments[-1] == "--ready-file=r"
    ran = CliRunner().invoke(command, arguments[1:-1], standalone_mode=False)
    assert ran.exception is None and seen.keys() == given.keys()
    assert load_settings(None, {}, seen).settings == settings
    assert broker_command(settings, Path("r"))[-len(arguments) :] == arguments


def test_defaults_need_no_flags() -> None:
    assert broker_arguments(Settings(), Path("r")) == ["start", "--ready-file=r"]


def test_the_coordinator_is_told_session_and_logging(tmp_path: Path) -> None:
    flags = {"data_dir": str(tmp_path), "session_ms": 3_000, "log_format": "json", "log_level": "debug"}
    plan = plan_cluster(load_settings(None, {}, flags), 1)
    command = coordinator_command(plan, 77, Path("r"))
    assert command[3:] == [
        f"--data-dir={tmp_path / 'coordinator'}",
        "--port=77",
        "--session-ttl-ms=3000",
        "--linger-ms=15000",
        "--log-level=debug",
        "--log-format=json",
        "--ready-file=r",
    ]


def test_children_do_not_read_settings_from_the_environment() -> None:
    environment = {
        "PATH": "/bin",
        "PENSTOCK_PORT": "1",
        "PENSTOCK_CONFIG": "file",
        "PENSTOCK_DECODER": "python",
        "QB_DATA_DIR": "/x",
    }
    assert child_environment(environment) == {"PATH": "/bin", "PENSTOCK_DECODER": "python"}
