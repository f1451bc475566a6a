"""`penstock security init` and `check` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.apps.cli.main import cli


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["security", *map(str, words)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("security") / "files"
    assert run("init", "--dir", directory, "--host", "broker1").exit_code == 0
    return directory


def check_words(made: Path) -> tuple[object, ...]:
    return (
        "check",
        "--tls-cert",
        made / "server.crt",
        "--tls-key",
        made / "server.key",
        "--tls-ca",
        made / "ca.crt",
    )


def test_init_says_what_it_made_and_shows_no_secret(tmp_path: Path) -> None:
    result = run("init", "--dir", tmp_path / "files", "--host", "broker1")
    assert result.exit_code == 0
    for text in (
        "broker1, localhost, 127.0.0.1, ::1",
        "CN=admin",
        "--- confluent-kafka",
        "--- kafkajs",
        "--- curl",
    ):
        assert text in result.output
    assert (tmp_path / "files" / "admin.password").read_text().strip() not in result.output
    assert "PRIVATE KEY" not in result.output


@pytest.mark.parametrize("flag", [["--json"], ["-o", "json"]])
def test_init_for_programs(tmp_path: Path, flag: list[str]) -> None:
    result = run("init", "--dir", tmp_path / "files", "--client", "a", "--client", "b", *flag)
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["directory"] == str(tmp_path / "files")
    assert list(found["certificates"]) == ["ca", "server", "admin", "a", "b"]
    assert all(Path(path).is_file() for path in found["files"].values())
    assert "SASL_SSL" in found["clients"]["java"]


def test_init_does_not_overwrite(made: Path) -> None:
    result = run("init", "--dir", made)
    assert result.exit_code == 2
    assert "use --force to replace them all" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "a b"], "is not a host name or address"),
        (["--client", "../x"], "client name"),
        (["--days", "0"], "--days"),
    ],
)
def test_init_with_wrong_words(tmp_path: Path, words: list[str], said: str) -> None:
    result = run("init", "--dir", tmp_path / "files", *words)
    assert result.exit_code == 2
    assert said in result.output
    assert not (tmp_path / "files").exists()


def test_init_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("init", "--dir", tmp_path / "file" / "files")
    assert result.exit_code == 1
    assert "cannot write to" in result.output


def test_check(made: Path) -> None:
    result = run(*check_words(made), "--host", "broker1")
    assert result.exit_code == 0
    assert "CN=broker1: valid until" in result.output
    assert "the files can be used" in result.output


def test_check_for_programs(made: Path) -> None:
    found = json.loads(run(*check_words(made), "--json").stdout)
    assert found["chain"][0]["subject"] == "CN=broker1"
    assert found["chain"][0]["days_left"] == 824
    assert [one["subject"] for one in found["authorities"]] == ["CN=Penstock development CA"]


def test_check_says_what_is_wrong(made: Path) -> None:
    result = run(*check_words(made), "--host", "broker2")
    assert result.exit_code == 2
    assert "Hostname mismatch" in result.output
    result = run("check", "--tls-cert", made / "server.crt", "--tls-key", made / "admin.key")
    assert result.exit_code == 2
    assert "does not belong to the first certificate" in result.output


def test_check_warns_before_the_end(tmp_path: Path) -> None:
    assert run("init", "--dir", tmp_path / "files", "--days", "5").exit_code == 0
    result = run(*check_words(tmp_path / "files"))
    assert result.exit_code == 0
    assert "expires in 4 days; renew it" in result.stderr
