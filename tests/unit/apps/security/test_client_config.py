"""Texts of client configuration: they run or parse in their language, and contain no secret."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path

from penstock.apps.security.client_config import ClientFiles, client_configs, curl_options, java_properties
from penstock.client.access import read_access
from penstock.core.authentication.secret import Secret

PASSWORD = Secret("s3cret-Pass_word")


def files(directory: Path, host: str = "broker1") -> ClientFiles:
    names = (
        "ca.crt",
        "admin.password",
        "admin.pem",
        "admin.crt",
        "admin.key",
        "admin.properties",
        "admin.curlrc",
    )
    return ClientFiles(host, "admin", *(directory / name for name in names))


def test_no_text_contains_a_secret() -> None:
    configs = client_configs(files(Path("/etc/penstock")))
    assert list(configs) == ["confluent-kafka", "java", "java-mtls", "kafkajs", "spark", "curl"]
    assert all(PASSWORD.reveal_text() not in text for text in configs.values())


def test_python_is_python_whatever_the_directory() -> None:
    for directory in ("/etc/penstock", '/tmp/it\'s "here"', "/tmp/größe", "/tmp/back\\slash"):
        configs = client_configs(files(Path(directory)))
        for name in ("confluent-kafka", "spark"):
            strings = {
                node.value for node in ast.walk(ast.parse(configs[name])) if isinstance(node, ast.Constant)
            }
            assert f"{directory}/ca.crt" in strings
        assert shlex.split(configs["curl"])[2] == f"{directory}/admin.curlrc"


def test_properties_are_read_by_our_own_client() -> None:
    text = java_properties(files(Path("/etc/penstock")), PASSWORD)
    access = read_access(dict(line.split("=", 1) for line in text.splitlines()))
    assert access.bootstrap == "broker1:9092"
    assert access.credentials is not None
    assert (access.credentials.mechanism, access.credentials.username) == ("SCRAM-SHA-512", "admin")
    assert access.credentials.password == PASSWORD.reveal_text()
    assert access.encryption is not None
    assert access.encryption.ca_path == "/etc/penstock/ca.crt"


def test_addresses_of_version_6_are_in_brackets() -> None:
    configs = client_configs(files(Path("/etc/penstock"), "::1"))
    assert '"[::1]:9092"' in configs["confluent-kafka"]
    assert "https://[::1]:9080/" in configs["curl"]


def test_the_file_for_curl() -> None:
    text = curl_options(files(Path("/etc/penstock")), PASSWORD)
    assert text == 'cacert = "/etc/penstock/ca.crt"\nuser = "admin:s3cret-Pass_word"\n'
