"""Jobs that run in a process of their own: `python -m spark.jobs NAME JSON`, an answer as the last line in JSON.

Never imported by the tests themselves: a process has one Spark, and theirs is taken.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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


def copy_in_a_thread(master: str, bootstrap: str, topic: str, target: str, home: str) -> dict[str, Any]:
    """Write a topic to another one, as a batch and as a stream, from a thread that did not make the session."""
    spark = penstock.spark.session(master, "copy")
    where = {"kafka.bootstrap.servers": bootstrap}

    def batch() -> None:
        rows = spark.read.format("penstock").options(**where, subscribe=topic).load().select("value")
        rows.write.format("penstock").options(**where, topic=target).mode("append").save()

    def stream() -> None:
        reader = spark.readStream.format("penstock").options(**where, subscribe=topic)
        rows = reader.option("startingOffsets", "earliest").load().select("value")
        writer = rows.writeStream.format("penstock").options(**where, topic=target)
        writer = writer.option("checkpointLocation", str(Path(home) / "copied"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with ThreadPoolExecutor(1) as fresh:
        fresh.submit(batch).result()
        fresh.submit(stream).result()
    written = spark.read.format("penstock").options(**where, subscribe=target).load().count()
    spark.stop()
    return {"written": written}


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
    jobs: dict[str, Any] = {"count": count, "copy_in_a_thread": copy_in_a_thread, "compare": compare}
    print(json.dumps(jobs[sys.argv[1]](**json.loads(sys.argv[2]))))
