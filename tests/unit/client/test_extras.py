"""Missing packages name the extra that brings them; the table is that of pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from penstock.client.errors import ClientError, NotInstalled
from penstock.client.extras import EXTRAS, extras

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]
MODULES = {
    "hdrhistogram": "hdrh",
    "prometheus-client": "prometheus_client",
    "googleapis-common-protos": "google",
    "protobuf": "google",
    "grpcio": "grpc",
    "grpcio-health-checking": "grpc_health",
    "grpcio-reflection": "grpc_reflection",
    "grpcio-status": "grpc_status",
}
"""Distributions whose package has another name."""


def distribution(requirement: str) -> str:
    name = requirement.partition("[")[0].partition(">")[0].strip()
    return MODULES.get(name, name)


def test_every_package_of_an_extra_names_it() -> None:
    optional = PROJECT["optional-dependencies"]
    for extra in ("spark", "avro", "bench", "grpc"):
        for package in map(distribution, optional[extra]):
            brings = EXTRAS[package]
            assert package in {distribution(one) for one in optional[brings]}, (
                "the extra that is named has it"
            )


def test_a_missing_package_of_an_extra() -> None:
    with (
        pytest.raises(
            NotInstalled, match=r"pyspark is not installed.*pip install 'penstock\[spark\]'"
        ) as told,
        extras(),
    ):
        raise ModuleNotFoundError("No module named 'pyspark.sql'", name="pyspark.sql")
    assert isinstance(told.value, ClientError)
    assert isinstance(told.value, ImportError)
    assert told.value.__suppress_context__, "one error, not two"


def test_other_missing_modules_are_ours_to_explain() -> None:
    with pytest.raises(ModuleNotFoundError, match="elsewhere"), extras():
        raise ModuleNotFoundError("elsewhere", name="elsewhere")
