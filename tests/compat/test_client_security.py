"""Every client of ours against Apache Kafka with TLS, SASL and mTLS: it works, or fails with cause and remedy."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import penstock
from certificates import KEY_PASSWORD
from compat.roster import do_without
from compat.secure_kafka import PASSWORD, PLAIN_PASSWORD, USER, SecureKafka, running_secure_kafka
from compat.vocabulary import MissingRuntime
from penstock import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer, Record, pipe
from penstock.apps.cli.main import cli
from penstock.client.errors import AuthenticationFailed, BadArgument, ClientError, TlsFailed, Unreachable
from penstock.client.options import ConnectionOptions, resolve_options
from penstock.client.rdkafka.library import LibraryErrors, configure


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    try:
        with running_secure_kafka(tmp_path_factory.mktemp("kafka")) as server:
            yield server
    except MissingRuntime as missing:
        do_without(missing)


@pytest.fixture(autouse=True)
def config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No profile and no variable of whoever runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def token(*, is_expired: bool = False) -> str:
    """An unsigned token, which Kafka's default validator accepts."""
    now_s = int(time.time())
    claims = {"sub": USER, "iat": now_s - 7200, "exp": now_s + (-3600 if is_expired else 3600)}
    parts = (json.dumps({"alg": "none"}), json.dumps(claims))
    return ".".join(base64.urlsafe_b64encode(one.encode()).decode().rstrip("=") for one in parts) + "."


WAYS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "mTLS", "mTLS with an encrypted key")


def options_of(way: str, kafka: SecureKafka, directory: Path) -> dict[str, Any]:
    """Options of a client that authenticates this way."""
    files = kafka.certificates
    if way.startswith("mTLS"):
        key = {"tls_key": files.client_key}
        if "encrypted" in way:
            key = {"tls_key": files.encrypted_key, "tls_key_password": KEY_PASSWORD}
        return {"bootstrap": kafka.mtls, "tls_ca": files.ca, "tls_cert": files.client, **key}
    options = {"bootstrap": kafka.sasl_tls, "tls_ca": files.ca}
    if way == "OAUTHBEARER":
        (directory / "token").write_text(token())
        return {**options, "token_file": str(directory / "token")}
    (directory / "password").write_text(f"{PLAIN_PASSWORD if way == 'PLAIN' else PASSWORD}\n")
    (directory / "password").chmod(0o600)
    return {
        **options,
        "sasl_mechanism": way,
        "username": USER,
        "password_file": str(directory / "password"),
    }


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_authenticate_works_in_both_client_stacks(
    kafka: SecureKafka, tmp_path: Path, way: str
) -> None:
    options = options_of(way, kafka, tmp_path)
    topic = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(**options) as admin:
        admin.create_topic(topic, 1)
    with Producer(**options) as producer:
        producer.send_and_wait(topic, b"hello")
    with Consumer(topic, until_end=True, **options) as consumer:
        assert [message.value for message in consumer] == [b"hello"]
    found = penstock.table(topic, **options).to_arrow()
    assert found.column("value").to_pylist() == [b"hello"]


def test_asyncio_clients_and_pipes_authenticate(kafka: SecureKafka, tmp_path: Path) -> None:
    options = options_of("SCRAM-SHA-512", kafka, tmp_path)
    source, target = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("in", "out"))
    with Admin(**options) as admin:
        for name in (source, target):
            admin.create_topic(name, 1)

    async def write() -> None:
        async with AsyncProducer(**options) as producer:
            await producer.send_and_wait(source, b"a")

    async def read() -> list[bytes]:
        async with AsyncConsumer(target, until_end=True, **options) as consumer:
            return [message.value async for message in consumer]

    asyncio.run(write())
    reads = Consumer(source, group=source, delivery="exactly_once", until_end=True, **options)
    writes = Producer(delivery="exactly_once", transactional_id=source, **options)
    with reads, writes:
        assert pipe(reads, writes, lambda message: [Record(target, message.value + b"!")]) == 1
    assert asyncio.run(read()) == [b"a!"]


def with_password(kafka: SecureKafka, **changes: Any) -> dict[str, Any]:
    options = {
        "bootstrap": kafka.sasl_tls,
        "tls_ca": kafka.certificates.ca,
        "sasl_mechanism": "SCRAM-SHA-512",
        "username": USER,
        "password": PASSWORD,
    } | changes
    return {name: value for name, value in options.items() if value is not None}


def _wrong(kafka: SecureKafka, case: str) -> dict[str, Any]:
    sasl_port = kafka.sasl_tls.rpartition(":")[2]
    return {
        "wrong password": with_password(kafka, password="wrong-secret"),
        "unknown mechanism user": with_password(kafka, username="bob", password="wrong-secret"),
        "expired token": {
            "bootstrap": kafka.sasl_tls,
            "tls_ca": kafka.certificates.ca,
            "token": token(is_expired=True),
        },
        "untrusted": with_password(kafka, tls_ca=kafka.certificates.other_ca),
        "host name": with_password(kafka, bootstrap=f"localhost:{sasl_port}"),
        "tls to plaintext": {"bootstrap": kafka.open, "tls_ca": kafka.certificates.ca},
        "plaintext to tls": {"bootstrap": kafka.sasl_tls},
        "no client certificate": {"bootstrap": kafka.mtls, "tls_ca": kafka.certificates.ca},
        "no credentials": {
            "bootstrap": kafka.sasl_tls,
            "tls_ca": kafka.certificates.ca,
            "connect_s_max": 1.0,
        },
    }[case]


CASES: dict[str, tuple[type[ClientError], str]] = {
    "wrong password": (
        AuthenticationFailed,
        r"rejected user ann \(SCRAM-SHA-512\).*Check username and password",
    ),
    "unknown mechanism user": (AuthenticationFailed, r"rejected user bob"),
    "expired token": (AuthenticationFailed, r"rejected the token \(OAUTHBEARER\).*Check token"),
    "untrusted": (TlsFailed, r"is not trusted: .*Set tls_ca"),
    "host name": (TlsFailed, r"is for another host: .*localhost.*tls_verify=False"),
    "tls to plaintext": (TlsFailed, r"is a port without TLS\. Turn off tls"),
    "plaintext to tls": (TlsFailed, r"is a TLS port\. Turn on tls"),
    "no client certificate": (TlsFailed, r"rejected the client certificate or requires one.*Set tls_cert"),
    "no credentials": (Unreachable, r"may require authentication\. Set username and password"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_client_that_cannot_connect_says_why_and_what_to_do(kafka: SecureKafka, case: str) -> None:
    kind, words = CASES[case]
    with pytest.raises(kind, match=words) as raised:
        Producer(**_wrong(kafka, case))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("case", [case for case in CASES if case != "no credentials"])
def test_the_raw_client_says_the_same(kafka: SecureKafka, case: str) -> None:
    kind, words = CASES[case]
    with pytest.raises(kind, match=words):
        penstock.table("any", **_wrong(kafka, case)).to_arrow()


def test_the_host_name_check_is_off_only_on_request(kafka: SecureKafka) -> None:
    options = {**_wrong(kafka, "host name"), "tls_verify": False}
    with Admin(**options) as admin:
        assert admin.describe_cluster().brokers


@pytest.mark.parametrize(
    ("case", "kind", "words"),
    [
        ("wrong password", AuthenticationFailed, "Check sasl_mechanism, username and password"),
        ("untrusted", TlsFailed, "Check tls_ca"),
    ],
)
def test_errors_that_librdkafka_reports_later_become_the_cause_of_a_failed_call(
    kafka: SecureKafka, case: str, kind: type[ClientError], words: str
) -> None:
    """As when a password changes while a client runs: the check at the start is over."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    from penstock.client.rdkafka.translation import cause, translate

    options = resolve_options(ConnectionOptions, _wrong(kafka, case), "Admin")
    errors = LibraryErrors()
    client = AdminClient(configure(options, {}, errors))

    def failure() -> ClientError:
        with pytest.raises(KafkaException) as raised:
            client.list_topics(timeout=2.0)
        client.poll(0.1)
        return errors.explain(translate(cause(raised.value), "topics"))

    found = failure()
    while not isinstance(found, kind):  # the test's own time limit ends it
        found = failure()
    assert words in found.message


def test_plain_passwords_and_tokens_do_not_leave_the_machine_without_tls(
    kafka: SecureKafka, tmp_path: Path
) -> None:
    options = {"sasl_mechanism": "PLAIN", "username": USER, "password": PLAIN_PASSWORD}
    for away in (options, {"token": token()}):
        with pytest.raises(BadArgument, match=r"without TLS would send the (password|token) in plain text"):
            Producer(bootstrap="broker.example:9092", **away)  # type: ignore[arg-type]
        with pytest.raises(BadArgument, match=r"without TLS would send the (password|token) in plain text"):
            penstock.table("any", "broker.example:9092", **away)
    with Admin(bootstrap=kafka.sasl_open, **options) as admin:  # type: ignore[arg-type]
        assert admin.describe_cluster().brokers


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), env=environment)


def test_commands_use_flags_then_the_environment_then_a_profile(kafka: SecureKafka, tmp_path: Path) -> None:
    options = options_of("SCRAM-SHA-256", kafka, tmp_path)
    bootstrap, topic = options.pop("bootstrap"), f"cli-{uuid.uuid4().hex[:8]}"
    flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    assert run("topic", "create", topic, "--bootstrap", bootstrap, *flags).exit_code == 0
    assert run("profile", "add", "prod", "--bootstrap", bootstrap, *flags).exit_code == 0
    assert topic in run("topic", "list", "--profile", "prod").output
    assert topic in run("--profile", "prod", "topic", "list").output
    assert topic in run("topic", "list", PENSTOCK_PROFILE="prod").output
    refused = run("topic", "list", PENSTOCK_PROFILE="prod", PENSTOCK_PASSWORD="wrong-secret")
    assert refused.exit_code == 5
    assert "rejected user ann" in refused.output
    assert "wrong-secret" not in refused.output
    wins = run("topic", "list", "--password-file", options["password_file"], PENSTOCK_PROFILE="prod",
               PENSTOCK_PASSWORD="wrong-secret")  # fmt: skip
    assert topic in wins.output
    assert run("profile", "use", "prod").exit_code == 0
    assert topic in run("topic", "list").output


def test_every_kind_of_command_connects_with_a_profile(kafka: SecureKafka, tmp_path: Path) -> None:
    options = options_of("mTLS", kafka, tmp_path)
    topic = f"cli-{uuid.uuid4().hex[:8]}"
    flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    assert run("profile", "add", "prod", *flags).exit_code == 0
    commands = [
        ("topic", "create", topic),
        ("pub", "--topic", topic, "--message", "hello"),
        ("sub", "--topic", topic, "--until", "end"),
        ("group", "list"),
        ("txn", "list"),
        ("sql", f'select value from "{topic}"'),
        ("bench", "produce", "--topic", topic, "--count", "100"),
        ("bench", "consume", "--topic", topic, "--count", "100"),
        ("cluster", "brokers"),
    ]
    for command in commands:
        done = run(*command, PENSTOCK_PROFILE="prod")
        assert done.exit_code == 0, (command, done.output, done.exception)


def test_clients_take_a_profile_by_name(kafka: SecureKafka, tmp_path: Path, config_home: Path) -> None:
    options = options_of("SCRAM-SHA-512", kafka, tmp_path)
    stored = {"profiles": {"prod": options}}
    (config_home / "penstock").mkdir()
    (config_home / "penstock" / "profiles.yaml").write_text(json.dumps(stored))
    with Admin(profile="prod") as admin:
        assert admin.describe_cluster().brokers
    with pytest.raises(BadArgument, match=r"no profile 'prd'.*Did you mean 'prod'"):
        Admin(profile="prd")


def test_the_batch_reader_of_spark_authenticates(kafka: SecureKafka, tmp_path: Path) -> None:
    from penstock.spark.options import read_options
    from penstock.spark.reader import BatchReader

    options = options_of("SCRAM-SHA-512", kafka, tmp_path)
    topic = f"spark-{uuid.uuid4().hex[:8]}"
    with Admin(**options) as admin:
        admin.create_topic(topic, 1)
    with Producer(**options) as producer:
        producer.send_and_wait(topic, b"row")
    given = {"kafka.bootstrap.servers": options.pop("bootstrap"), "subscribe": topic, **options}
    reader = BatchReader(read_options(given, is_stream=False))
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == [b"row"]
    assert PASSWORD not in repr(read_options(given, is_stream=False))
