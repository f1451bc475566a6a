"""The etcd member of a broker: its command line, what cannot be used, and three real ones together."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from contract.etcd_ground import PATIENT, etcd_log
from contract.metadata_contract import topic
from etcd_cluster import free_addresses
from penstock.apps import etcd_member as module
from penstock.apps.etcd_member import (
    MemberPlan,
    etcd_member,
    etcd_version,
    explain,
    find_etcd,
    member_command,
    member_environment,
)
from penstock.apps.ready import StartError
from penstock.core.model import Address
from penstock.node.cluster.members import ClusterMember, parse_members
from penstock.node.etcd.target import TlsFiles

MEMBERS = parse_members("1@a,2@b,3@c:3379")


def flags(command: list[str]) -> dict[str, str]:
    return {name.removeprefix("--"): value for name, _, value in (one.partition("=") for one in command[1:])}


def command_of(
    plan: MemberPlan, version: tuple[int, int, int] = (3, 4, 23), address: str = "10.0.0.2"
) -> dict[str, str]:
    return flags(member_command("etcd", version, plan, lambda _: address))


def test_the_command_line_names_all_members(tmp_path: Path) -> None:
    found = command_of(MemberPlan(MEMBERS, 2, tmp_path))
    assert found["name"] == "broker-2"
    assert found["data-dir"] == str(tmp_path / "etcd/data")
    assert found["initial-cluster"] == "broker-1=http://a:2380,broker-2=http://b:2380,broker-3=http://c:3380"
    assert found["listen-client-urls"] == "http://10.0.0.2:2379"
    assert found["advertise-client-urls"] == "http://b:2379"
    assert found["listen-peer-urls"] == "http://10.0.0.2:2380"
    assert found["initial-advertise-peer-urls"] == "http://b:2380"
    assert found["election-timeout"] == "2000"
    assert found["experimental-initial-corrupt-check"] == "true"
    assert {"auto-compaction-retention", "quota-backend-bytes"} <= found.keys()


def test_members_agree_on_a_token_that_other_clusters_do_not_have(tmp_path: Path) -> None:
    tokens = {
        command_of(MemberPlan(MEMBERS, number, tmp_path))["initial-cluster-token"] for number in (1, 2, 3)
    }
    other = command_of(MemberPlan(MEMBERS[:2], 1, tmp_path))["initial-cluster-token"]
    assert len(tokens) == 1
    assert other not in tokens


def test_a_name_that_is_local_only_is_bound_to_all_addresses(tmp_path: Path) -> None:
    assert (
        command_of(MemberPlan(MEMBERS, 2, tmp_path), address="127.0.1.1")["listen-peer-urls"]
        == "http://0.0.0.0:2380"
    )
    local = parse_members("1@127.0.0.1:1000,2@127.0.0.1:2000")
    found = command_of(MemberPlan(local, 2, tmp_path), address="127.0.0.1")
    assert found["listen-peer-urls"] == "http://127.0.0.1:2001"


def test_tls_applies_to_clients_and_peers(tmp_path: Path) -> None:
    found = command_of(MemberPlan(MEMBERS, 1, tmp_path, TlsFiles("ca", "cert", "key")))
    assert found["advertise-client-urls"] == "https://a:2379"
    assert found["initial-cluster"].startswith("broker-1=https://a:2380,")
    for prefix in ("", "peer-"):
        assert (found[f"{prefix}cert-file"], found[f"{prefix}key-file"]) == ("cert", "key")
        assert (found[f"{prefix}trusted-ca-file"], found[f"{prefix}client-cert-auth"]) == ("ca", "true")


def test_new_versions_have_the_corruption_check_behind_a_gate(tmp_path: Path) -> None:
    found = command_of(MemberPlan(MEMBERS, 1, tmp_path), (3, 6, 1))
    assert found["feature-gates"] == "InitialCorruptCheck=true"
    assert "experimental-initial-corrupt-check" not in found


def test_a_broker_reaches_its_own_member_first(tmp_path: Path) -> None:
    plan = MemberPlan(MEMBERS, 3, tmp_path)
    assert plan.target.endpoints == (Address("c", 3379), Address("a", 2379), Address("b", 2379))
    with pytest.raises(StartError, match="node id 7, but --cluster lists 1, 2, 3"):
        _ = MemberPlan(MEMBERS, 7, tmp_path).target


def test_a_host_without_an_address_is_named(tmp_path: Path) -> None:
    plan = MemberPlan(parse_members("1@no-such-host.invalid"), 1, tmp_path)
    with pytest.raises(StartError, match=r"Cannot resolve the host 'no-such-host\.invalid'"):
        member_command("etcd", (3, 4, 0), plan)


def test_variables_of_etcd_are_not_passed_on() -> None:
    given = {"PATH": "/bin", "ETCD_NAME": "x", "ETCD_UNSUPPORTED_ARCH": "arm64"}
    assert member_environment(given) == {"PATH": "/bin", "ETCD_UNSUPPORTED_ARCH": "arm64"}


def test_a_missing_program_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StartError, match=r"not on PATH.*apt-get install etcd-server.*--metadata etcd://"):
        etcd_member(MemberPlan(MEMBERS, 1, tmp_path))


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("etcd Version: 3.3.25", "is version 3.3.25; Penstock needs 3.4 or later"),
        ("etcd Version: 3.5.1", "is version 3.5.1, which can lose data; install 3.5.3"),
        ("something else", "does not tell etcd's version"),
    ],
)
def test_releases_that_cannot_be_used_are_refused(output: str, words: str, tmp_path: Path) -> None:
    program = tmp_path / "etcd"
    program.write_text(f"#!/bin/sh\necho '{output}'\n")
    program.chmod(0o755)
    with pytest.raises(StartError) as caught:
        etcd_version(str(program))
    assert words in str(caught.value)
    program.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(StartError, match="Cannot run"):
        etcd_version(str(program))


def test_the_installed_release_can_be_used() -> None:
    assert etcd_version(find_etcd()) >= (3, 4, 0)


def test_known_failures_have_a_remedy() -> None:
    assert "etcdctl member remove" in explain("x\nmember 8e9 has already been bootstrapped\n")
    assert "Another process uses its port" in explain("listen tcp: bind: address already in use")
    assert explain("something new") == ""


def test_three_members_form_a_store_and_one_that_dies_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_MS", 50)
    monkeypatch.setattr(module, "ELECTION_MS", 500)
    members = tuple(ClusterMember(number, address) for number, address in enumerate(free_addresses(3), 1))
    plans = [MemberPlan(members, member.node_id, tmp_path / str(member.node_id)) for member in members]

    async def scene() -> None:
        children = [etcd_member(plan) for plan in plans]
        for child in children:
            await child.start()
        try:
            log = etcd_log(plans[0].target, PATIENT)
            await log.open()
            assert await log.append(0, [topic(1)]) == 1
            for number, child in enumerate(children, 1):
                assert child.pid is not None
                os.kill(child.pid, signal.SIGKILL)
                assert await log.append(number, [topic(number + 1)]) == number + 1
                while child.start_count < 2 or child.pid is None:
                    await asyncio.sleep(0.01)
                own = etcd_log(plans[number - 1].target, PATIENT)
                await own.open()
                assert (await own.read(0))[-1].index == number + 1
                await own.close()
            await log.close()
        finally:
            await asyncio.gather(*(child.stop() for child in children))

    asyncio.run(scene())
    assert all((plan.data_dir / "etcd" / "data" / "member").is_dir() for plan in plans)
