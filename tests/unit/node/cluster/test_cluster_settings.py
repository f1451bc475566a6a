"""Settings of a cluster: where they can be written, what is refused, and that passwords are not shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.apps.cli.main import cli
from penstock.node.settings_loader import SettingsError, load_settings

ETCD = "etcd://user:hush@a:2379,b:2379"


def problems(file: str | None = None, **flags: object) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(file, {}, flags)
    return [str(problem) for problem in caught.value.problems]


def test_a_broker_is_alone_unless_it_is_told_otherwise() -> None:
    settings = load_settings().settings
    assert (settings.metadata, settings.cluster, settings.rack) == (None, None, "")
    assert load_settings(None, {"PENSTOCK_METADATA": ETCD}, {"metadata": "off"}).settings.metadata is None


def test_a_file_has_a_section_or_plain_keys(tmp_path: Path) -> None:
    (file := tmp_path / "a.yaml").write_text(
        "cluster: {members: '1@a,2@b', metadata: off, session_timeout: 9s}\n"
    )
    settings = load_settings(str(file)).settings
    assert (settings.cluster, settings.metadata, settings.session_ms) == ("1@a,2@b", None, 9_000)
    file.write_text(f"cluster: off\nmetadata: {ETCD}\nrack: cellar\n")
    settings = load_settings(str(file)).settings
    assert (settings.cluster, settings.metadata, settings.rack) == (None, ETCD, "cellar")


def test_mistakes_are_told_with_their_remedy_and_without_the_password() -> None:
    assert problems(metadata="etcd://user:hush@a:x", cluster="1@a,1@b") == [
        "flag: --metadata: the port in 'a:x' must be a number from 1 to 65535",
        "flag: --cluster: node id 1 is listed twice in the cluster",
    ]
    (told,) = problems(metadata=ETCD + "\n")
    assert told == "flag: --metadata: found 'etcd://***@a:2379,b:2379\\n'; allowed: a URL, or off"
    assert "a URL, or off" in problems(metadata="")[0]
    assert "found 5; allowed: a URL" in problems(metadata=5)[0]


def test_an_own_member_excludes_another_store_and_memory() -> None:
    told = problems(metadata=ETCD, cluster="1@a,2@b", storage="memory")
    assert told == [
        "settings: cluster: is set (flag --cluster), and so is metadata (flag --metadata); set one of them",
        "settings: cluster: needs storage: disk, because etcd stores the cluster's metadata there",
    ]


@pytest.mark.parametrize("output", ["json", "table"])
def test_an_explanation_hides_the_password(output: str) -> None:
    ran = CliRunner().invoke(cli, ["config", "explain", "-o", output], env={"PENSTOCK_METADATA": ETCD})
    assert ran.exit_code == 0 and "hush" not in ran.output
    if output == "json":
        rows = {row["name"]: row["value"] for row in json.loads(ran.output)}
        assert (rows["metadata"], rows["cluster"]) == ("etcd://***@a:2379,b:2379", "off")
