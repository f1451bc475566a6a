"""Security options together: what they make, what contradicts, and where values come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from certificates import KEY_PASSWORD, make_certificates
from penstock.client.access import Credentials, Encryption, Security, is_loopback_host, read_access
from penstock.client.errors import BadArgument
from penstock.client.options import ConnectionOptions, definitions, layered_options, resolve_options
from penstock.client.security import read_security, resolve_access
from penstock.node.settings_loader import OTHER_VARIABLES


@pytest.fixture(autouse=True)
def config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def store(home: Path, **profiles: dict[str, Any]) -> None:
    (home / "penstock").mkdir(exist_ok=True)
    path = home / "penstock" / "profiles.yaml"
    path.write_text(yaml.safe_dump({"profiles": profiles}))
    path.chmod(0o600)


def test_nothing_is_plaintext() -> None:
    assert read_security({}) == Security()


def test_a_username_means_scram_and_a_token_means_oauthbearer() -> None:
    assert read_security({"username": "ann", "password": "s"}).credentials == Credentials(
        "SCRAM-SHA-512", "ann", "s"
    )
    found = read_security({"token": "t"}).credentials
    assert found is not None and found.token is not None
    assert (found.mechanism, found.token.fetch().value) == ("OAUTHBEARER", "t")


def test_a_password_file_is_read_without_its_line_break(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("s p\n")
    found = read_security({"username": "ann", "password_file": str(path)})
    assert found.credentials == Credentials("SCRAM-SHA-512", "ann", "s p")


def test_tls_is_on_with_any_of_its_files(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    assert read_security({"tls": True}).encryption == Encryption()
    assert read_security({"tls_ca": files.ca, "tls_verify": False}).encryption == Encryption(
        files.ca, checks_name=False
    )
    encrypted = {"tls_cert": files.client, "tls_key": files.encrypted_key}
    assert read_security({**encrypted, "tls_key_password": KEY_PASSWORD}).encryption is not None
    with pytest.raises(BadArgument, match="tls_key_password"):
        read_security(encrypted)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"username": "ann"}, "PENSTOCK_PASSWORD"),
        ({"sasl_mechanism": "PLAIN", "password": "s"}, "needs username"),
        ({"password_file": "/x"}, "needs username"),
        ({"username": "ann", "password": "s", "password_file": "/x"}, "exclude each other"),
        ({"token": "t", "token_file": "/x"}, "exclude each other"),
        ({"sasl_mechanism": "OAUTHBEARER", "username": "ann"}, "token, token_file or token_url"),
        ({"sasl_mechanism": "PLAIN", "token": "t"}, "not for sasl_mechanism PLAIN"),
        ({"token_url": "https://x", "username": "ann"}, "client secret"),
        ({"token_url": "file:///etc/passwd", "username": "a", "password": "s"}, "expected https"),
        ({"token_url": "http://idp.example/t", "username": "a", "password": "s"}, "expected https"),
        ({"tls_key": "/x"}, "need tls_cert"),
        ({"tls": False, "tls_ca": "/x"}, "contradicts tls=False"),
        ({"tls_ca": "/no/such/file"}, "cannot load TLS files /no/such/file"),
        ({"username": "ann", "password_file": "/no/such/file"}, "cannot read password_file"),
    ],
)
def test_contradictions_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadArgument, match=words):
        read_security(options)


def test_secrets_are_in_no_repr_and_no_error() -> None:
    found = read_security({"username": "ann", "password": "hidden-1"})
    token = read_security({"token": "hidden-2"})
    url = read_security({"token_url": "https://x", "username": "a", "password": "hidden-3"})
    assert "hidden" not in repr((found, token, url))
    for name in ("password", "token", "tls_key_password"):
        with pytest.raises(BadArgument, match=f"invalid {name}: expected") as raised:
            resolve_options(ConnectionOptions, {name: ["hidden-4"]}, "Admin")
        assert "hidden" not in str(raised.value)


def test_what_sends_a_secret_needs_tls_or_loopback() -> None:
    plain = read_security({"sasl_mechanism": "PLAIN", "username": "ann", "password": "s"})
    for host in ("localhost", "127.0.0.1", "127.9.9.9", "::1"):
        plain.check_secrecy(host)
    with pytest.raises(BadArgument, match=r"broker\.example.*auth_without_tls"):
        plain.check_secrecy("broker.example")
    read_security({"username": "ann", "password": "s"}).check_secrecy("broker.example")
    Security(plain.credentials, None, auth_without_tls=True).check_secrecy("broker.example")
    Security(plain.credentials, Encryption()).check_secrecy("broker.example")
    assert not is_loopback_host("localhost.example")


def test_given_goes_before_the_environment_and_that_before_the_profile(config_home: Path) -> None:
    store(config_home, prod={"bootstrap": "stored:1", "username": "stored", "tls": True})
    environment = {"PENSTOCK_PROFILE": "prod", "PENSTOCK_USERNAME": "named"}
    assert layered_options({}, environment) == {"bootstrap": "stored:1", "username": "named", "tls": True}
    assert layered_options({"username": "given", "tls": None}, environment)["username"] == "given"
    assert layered_options({"profile": ""}, environment) == {"username": "named"}


def test_a_password_belongs_to_its_user_and_one_source_replaces_another(config_home: Path) -> None:
    store(
        config_home,
        prod={"username": "ann", "password": "s", "sasl_mechanism": "PLAIN"},
        token={"token": "t", "sasl_mechanism": "OAUTHBEARER"},
        tls={"tls_ca": "/ca"},
    )
    assert layered_options({"profile": "prod", "password_file": "/f"}, {}) == {
        "username": "ann",
        "password_file": "/f",
        "sasl_mechanism": "PLAIN",
    }
    assert "password" not in layered_options({"profile": "prod", "username": "bob"}, {})
    assert layered_options({"profile": "prod", "token": "t"}, {}) == {"token": "t"}
    assert layered_options({"profile": "token", "username": "bob"}, {}) == {"username": "bob"}
    assert layered_options({"profile": "tls", "tls": False}, {}) == {"tls": False}


def test_variables_and_profiles_are_validated(config_home: Path) -> None:
    with pytest.raises(BadArgument, match="PENSTOCK_CLIENT_TLS is 'maybe'"):
        layered_options({}, {"PENSTOCK_CLIENT_TLS": "maybe"})
    with pytest.raises(BadArgument, match="SCRAM-SHA-256"):
        layered_options({}, {"PENSTOCK_CLIENT_SASL_MECHANISM": "GSSAPI"})
    store(config_home, odd={"tls_caa": "x"}, typed={"tls": "x"})
    with pytest.raises(BadArgument, match=r"profile odd has no option 'tls_caa'.*tls_ca"):
        layered_options({"profile": "odd"}, {})
    with pytest.raises(BadArgument, match="profile typed: invalid tls"):
        layered_options({"profile": "typed"}, {})
    with pytest.raises(BadArgument, match=r"there is no profile 'typd'.*Did you mean 'typed'"):
        layered_options({"profile": "typd"}, {})


def test_variables_of_clients_are_told_from_settings_of_brokers() -> None:
    variables = {option.variable for _, option in definitions(ConnectionOptions).values() if option.variable}
    assert variables <= set(OTHER_VARIABLES)


def test_access_takes_names_of_kafka_or_ours(config_home: Path) -> None:
    store(config_home, prod={"bootstrap": "127.0.0.1:9", "username": "ann", "password": "s"})
    ours = resolve_access({}, {"profile": "prod"})
    assert (ours.bootstrap, ours.credentials) == ("127.0.0.1:9", Credentials("SCRAM-SHA-512", "ann", "s"))
    given = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL"}
    assert resolve_access(given, {}).encryption == Encryption()
    with pytest.raises(BadArgument, match=r"security\.protocol and username exclude each other"):
        resolve_access(given, {"username": "ann"})
    with pytest.raises(BadArgument, match=r"kafka\.bootstrap\.servers.*profile"):
        resolve_access({}, {})


def test_kafka_options_of_oauth_name_an_endpoint() -> None:
    options = {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
    }
    with pytest.raises(BadArgument, match=r"token\.endpoint\.url"):
        read_access(options)
    prefix = "sasl.oauthbearer."
    more = {
        f"{prefix}token.endpoint.url": "https://idp/t",
        f"{prefix}client.id": "a",
        f"{prefix}client.secret": "s",
    }
    found = read_access({**options, **more}).credentials
    assert found is not None and found.token is not None
    assert (found.token.url, found.token.client_id) == ("https://idp/t", "a")
