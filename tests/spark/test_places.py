"""Source, sink and every kind of pipeline away from `local[2]` and from Penstock: the same tests, at other places."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat.reference.__main__ import running_kafka
from spark.clusters import jars_of, standalone
from spark.places import RUN_S_MAX, run_there

SOURCE_AND_SINK = ("test_source.py", "test_sink.py")
KINDS = ("test_pipelines.py", "test_lakes.py", "test_aggregates.py")
PAGE = "page"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(RUN_S_MAX + 120)]


def test_every_kind_on_a_standalone_cluster(tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        print(run_there((*SOURCE_AND_SINK, *KINDS), master=master, without=[PAGE]))


def test_every_kind_with_apache_kafka() -> None:
    jars_of(Path(__file__).parents[1] / "compat" / "reference" / "pom.xml")
    with running_kafka() as bootstrap:
        print(run_there((*SOURCE_AND_SINK, *KINDS), bootstrap=bootstrap, without=[PAGE]))
