"""`penstock profile`: what is stored, shown and refused. Never talks to a broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.apps.cli.main import cli
from penstock.apps.cli.security_options import complete_profile
from penstock.client.profiles import load_profiles, profiles_path


@pytest.fixture(autouse=True)
def config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("PENSTOCK_PROFILE", raising=False)
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP", raising=False)
    return tmp_path


def run(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=typed)


def done(*arguments: str, typed: str | None = None) -> str:
    found = run(*arguments, typed=typed)
    assert found.exit_code == 0, found.output
    return found.output


def test_a_profile_from_its_start_to_its_end() -> None:
    assert "no profiles" in done("profile", "list")
    done("profile", "add", "prod", "--bootstrap", "one:9092", "--tls")
    done("profile", "add", "dev", "--bootstrap", "127.0.0.1:9092")
    assert json.loads(done("profile", "list", "--json")) == [
        {"name": "dev", "default": False, "bootstrap": "127.0.0.1:9092", "security": "none", "user": None},
        {"name": "prod", "default": False, "bootstrap": "one:9092", "security": "TLS", "user": None},
    ]
    done("profile", "use", "prod")
    assert json.loads(done("profile", "show", "-o", "json")) == {
        "name": "prod",
        "tls": True,
        "bootstrap": "one:9092",
    }
    done("profile", "use", "--none")
    assert run("profile", "show").exit_code == 4
    done("profile", "remove", "prod")
    assert list(load_profiles().profiles) == ["dev"]
    assert run("profile", "remove", "prod").exit_code == 4
    assert "Did you mean 'dev'" in run("profile", "use", "deev").output


def test_only_the_owner_can_read_the_file(config_home: Path) -> None:
    done(
        "profile",
        "add",
        "prod",
        "--bootstrap",
        "one:9092",
        "--username",
        "ann",
        "--ask-password",
        typed="hidden\n",
    )
    path = profiles_path()
    assert path == config_home / "config" / "penstock" / "profiles.yaml"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert load_profiles().profiles["prod"]["password"] == "hidden"
    for shown in (
        done("profile", "show", "prod"),
        done("profile", "show", "prod", "--json"),
        done("profile", "list"),
    ):
        assert "hidden)" in shown or "hidden" not in shown
        assert "hidden\n" not in shown
    path.chmod(0o644)
    refused = run("topic", "list", "--profile", "prod")
    assert refused.exit_code == 2
    assert "chmod 600" in refused.output


def test_a_name_is_not_replaced_by_accident() -> None:
    done("profile", "add", "prod", "--bootstrap", "one:9092")
    assert run("profile", "add", "prod", "--bootstrap", "two:9092").exit_code == 2
    done("profile", "add", "prod", "--bootstrap", "two:9092", "--replace")
    assert load_profiles().profiles["prod"] == {"bootstrap": "two:9092"}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "--bootstrap"),
        (["--bootstrap", "one"], "HOST:PORT"),
        (["--bootstrap", "one:1", "--username", "a", "--sasl-mechanism", "PLAIN"], "--auth-without-tls"),
        (["--bootstrap", "one:1", "--no-tls", "--tls-ca", "x"], "contradicts"),
        (["--bootstrap", "one:1", "--password-file", "x"], "needs username"),
        (["--bootstrap", "one:1", "--password", "x"], "No such option"),
    ],
)
def test_what_could_not_work_is_not_stored(flags: list[str], words: str) -> None:
    refused = run("profile", "add", "prod", *flags)
    assert refused.exit_code == 2
    assert words in refused.output
    assert not load_profiles().profiles


def test_files_are_stored_by_their_full_path(config_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(config_home)
    Path("password").write_text("s")
    done("profile", "add", "prod", "--bootstrap", "one:1", "--username", "ann", "--password-file", "password")
    assert load_profiles().profiles["prod"]["password_file"] == str(config_home / "password")


def test_a_properties_file_is_imported_and_flags_go_before_it(config_home: Path) -> None:
    file = config_home / "client.properties"
    file.write_text(
        "bootstrap.servers=one:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.username=ann\nsasl.password=s\nlinger.ms=5\n"
    )
    (config_home / "password").write_text("s")
    out = done(
        "profile", "add", "prod", "--from", str(file), "--password-file", str(config_home / "password")
    )
    assert "linger.ms" in out
    assert load_profiles().profiles["prod"] == {
        "bootstrap": "one:1",
        "sasl_mechanism": "SCRAM-SHA-256",
        "username": "ann",
        "password_file": str(config_home / "password"),
    }


def test_a_flag_then_the_environment_then_the_profile_name_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done("profile", "add", "prod", "--bootstrap", "127.0.0.1:1")
    done("profile", "use", "prod")
    assert "at 127.0.0.1:1:" in run("topic", "list").output
    assert "at 127.0.0.1:9092:" not in run("topic", "list", "--profile", "prod").output
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:2")
    assert "at 127.0.0.1:2:" in run("topic", "list").output
    assert "at 127.0.0.1:3:" in run("topic", "list", "--bootstrap", "127.0.0.1:3").output
    assert "no profile 'prd'" in run("--profile", "prd", "topic", "list").output


def test_names_are_completed() -> None:
    done("profile", "add", "prod", "--bootstrap", "one:1")
    done("profile", "add", "dev", "--bootstrap", "one:1")
    import click

    context = click.Context(cli)
    assert [one.value for one in complete_profile(context, cli.params[0], "p")] == ["prod"]


def test_variables_of_clients_do_not_stop_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PENSTOCK_PROFILE", "PENSTOCK_PASSWORD", "PENSTOCK_CLIENT_TLS_CA"):
        monkeypatch.setenv(name, "hidden")
    assert "hidden" not in done("config", "explain")
