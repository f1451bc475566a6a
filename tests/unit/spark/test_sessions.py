"""Sessions that cannot be had, without a JVM: the error says what is missing."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

import penstock.spark
from penstock.spark.sessions import CannotStart, _has_default_logs


def test_a_connect_server_that_is_not_there_is_missed_at_once() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        with pytest.raises(
            CannotStart, match=f"no Spark Connect server answers at 127.0.0.1:{port}: .*refused"
        ):
            penstock.spark.session(f"sc://127.0.0.1:{port}/;user_id=ann")


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(CannotStart, match="sc://host:15002"):
        penstock.spark.session("sc://127.0.0.1:many")


def test_logs_that_somebody_chose_stay_as_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert _has_default_logs({"spark.driver.extraJavaOptions": "-Xmx1g"})
    assert not _has_default_logs({"spark.log.level": "WARN"})
    assert not _has_default_logs({"spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=mine.xml"})
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert _has_default_logs({})
    (tmp_path / "log4j2.properties").touch()
    assert not _has_default_logs({})


@pytest.mark.parametrize("package", ["pyarrow", "pyspark.sql"])
def test_a_missing_extra_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        CannotStart, match=rf"{package} is not installed.*pip install 'penstock\[spark\]'"
    ) as told:
        penstock.spark.session()
    assert told.value.__suppress_context__, "one error, not two"
