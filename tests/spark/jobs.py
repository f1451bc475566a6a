"""Jobs that run in a process of their own: `python -m spark.jobs NAME JSON`, an answer as the last line in JSON.

Never imported by the tests themselves: a process has one Spark, and theirs is taken.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import penstock.spark

JOB_S_MAX = 280
SINGLE_DRIVER = {"spark.driver.memory": "600m", "spark.executor.memory": "600m"}


def run_job(name: str, environment: dict[str, str], **arguments: Any) -> Any:
    """What the job answers. Raises with all it printed when it fails."""
    command = [sys.executable, "-m", "spark.jobs", name, json.dumps(arguments)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=JOB_S_MAX, check=False
    )
    if done.returncode:
        raise RuntimeError(
            f"{name} left with {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-6000:]}"
        )
    return json.loads(done.stdout.strip().splitlines()[-1])


def count(master: str, bootstrap: str, topic: str, home: str) -> dict[str, Any]:
    """The records of a topic, once by a batch and once by a stream."""
    conf = {} if master.startswith("sc://") else SINGLE_DRIVER
    spark = penstock.spark.session(master, "count", **conf)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    batch = spark.read.format("penstock").options(**options).load().count()
    stream = spark.readStream.format("penstock").options(**options, startingOffsets="earliest").load()
    query = (
        stream.select("partition", "offset")
        .writeStream.format("parquet")
        .option("path", str(Path(home) / "table"))
        .option("checkpointLocation", str(Path(home) / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    streamed = spark.read.parquet(str(Path(home) / "table")).distinct().count()
    spark.stop()
    return {"batch": batch, "stream": streamed}


def compare(bootstrap: str, topic: str, back: str, jars: str) -> dict[str, Any]:
    """Spark's own connector and ours over the same topic; then a topic that the connector writes, read by ours."""
    spark = penstock.spark.session("local[2]", "compare", **SINGLE_DRIVER, **{"spark.jars": jars})
    options = {"kafka.bootstrap.servers": bootstrap, "includeHeaders": "true"}

    def read(form: str, name: str) -> Any:
        return spark.read.format(form).options(**options, subscribe=name).load()

    theirs, ours = read("kafka", topic), read("penstock", topic)
    missing = theirs.exceptAll(ours).count() + ours.exceptAll(theirs).count()
    theirs.select("key", "value", "headers", "partition").write.format("kafka").options(**options).option(
        "topic", back
    ).save()
    rows = ("key", "value", "headers", "partition")
    lost = theirs.select(*rows).exceptAll(read("penstock", back).select(*rows)).count()
    answer = {
        "schemas_equal": theirs.schema == ours.schema,
        "rows": theirs.count(),
        "different": missing,
        "lost": lost,
    }
    spark.stop()
    return answer


if __name__ == "__main__":
    print(json.dumps({"count": count, "compare": compare}[sys.argv[1]](**json.loads(sys.argv[2]))))
