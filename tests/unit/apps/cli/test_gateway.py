"""Wrong options of the gRPC services end with a message and an exit code, before anything is started."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from penstock.apps.cli.main import cli


@pytest.mark.parametrize("command", ["producer-service", "consumer-service"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--coordinator", "127.0.0.1:8080", "--bootstrap", "127.0.0.1:9092"), "exclude each other"),
        (("--coordinator", "nonsense"), "invalid address 'nonsense'"),
        (("--bootstrap", "127.0.0.1:99999"), "invalid address '127.0.0.1:99999'"),
        (("--port", "70000"), "is not in the range"),
    ],
)
def test_wrong_options(command: str, options: tuple[str, ...], message: str) -> None:
    ran = CliRunner().invoke(cli, [command, *options])
    assert ran.exit_code == 2
    assert message in ran.output


def test_the_environment_yields_to_the_coordinator() -> None:
    """PENSTOCK_BOOTSTRAP may be set for other commands; it is no contradiction."""
    options = ["producer-service", "--coordinator", "nonsense"]
    ran = CliRunner().invoke(cli, options, env={"PENSTOCK_BOOTSTRAP": "127.0.0.1:9092"})
    assert "exclude" not in ran.output
    assert "nonsense" in ran.output
