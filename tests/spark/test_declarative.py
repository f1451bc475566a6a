"""Spark Declarative Pipelines use source and sink as they are; a second run goes on where the first one ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.java import find_java
from penstock.testing.child_server import SOURCE_DIR
from spark.shop import Shop, values

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative"
RUN_S_MAX = 280


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_runs_of_the_example(shop: Shop, tmp_path: Path) -> None:
    orders, large = shop.topic("orders", 2), shop.topic("large", 1)
    shutil.copytree(EXAMPLE, tmp_path / "project")
    spec = tmp_path / "project" / "spark-pipeline.yml"
    text = spec.read_text().replace("file:///tmp/penstock-declarative/storage", f"file://{tmp_path}/storage")
    text = text.replace("127.0.0.1:9092", shop.bootstrap)
    spec.write_text(text)
    code = tmp_path / "project" / "transformations" / "orders.py"
    code.write_text(
        code.read_text().replace('"orders")', f'"{orders}")', 1).replace('"large-orders"', f'"{large}"')
    )
    shop.put(orders, [{"order_id": number, "customer": "c", "amount": 90.0 + number} for number in range(20)])
    _run(tmp_path, spec)
    assert sorted(one["order_id"] for one in values(shop.read(large))) == list(range(11, 20))
    shop.put(orders, [{"order_id": 20, "customer": "c", "amount": 500.0}])
    _run(tmp_path, spec)
    assert sorted(one["order_id"] for one in values(shop.read(large))) == list(range(11, 21))


def _run(home: Path, spec: Path) -> None:
    java = find_java()
    environment = {
        **os.environ,
        **({"JAVA_HOME": str(java)} if java else {}),
        "PYTHONPATH": str(SOURCE_DIR),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [str(Path(sys.executable).with_name("spark-pipelines")), "run", "--spec", str(spec)]
    for setting in ("catalogImplementation=hive", f"warehouse.dir={home}/warehouse"):
        command += ["--conf", f"spark.sql.{setting}"]
    done = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, timeout=RUN_S_MAX
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
