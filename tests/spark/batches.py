"""The batch jobs that are killed: each one copies what has arrived since the last one. Runs until it is ended.

A job is planned in a file before it runs. After a kill the last one runs again under its version, as often as it takes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

import penstock.spark
from spark.copying import kafka_options
from spark.kills import INPUT, OUTPUT, PARTITIONS, POLL_S, QUIET

ROWS_MAX = 120
ANSWER_S_MAX = 10.0

Offsets = dict[str, int]
"""By partition, as the options of the source have them."""


def main(bootstrap: str, plan_file: str) -> None:
    spark = penstock.spark.session(master="local[2,4]")
    kafka = kafka_options(bootstrap)
    consumer = Consumer({"bootstrap.servers": bootstrap, **QUIET, "group.id": "batches"})
    path = Path(plan_file)
    begin: Offsets = dict.fromkeys(map(str, range(PARTITIONS)), 0)
    version = 0
    if path.exists():
        job = json.loads(path.read_text())
        version, begin = run(spark, kafka, **job), job["end"]
    while True:
        end = following(consumer, begin)
        if end == begin:
            time.sleep(POLL_S)
            continue
        job = {"version": version + 1, "begin": begin, "end": end}
        (planned := path.with_suffix(".next")).write_text(json.dumps(job))
        planned.replace(path)
        version, begin = run(spark, kafka, **job), end


def run(spark: Any, kafka: dict[str, str], version: int, begin: Offsets, end: Offsets) -> int:
    """Copy the records between these offsets; returns the version."""
    bounds = {
        "startingOffsets": json.dumps({INPUT: begin}),
        "endingOffsets": json.dumps({INPUT: end}),
    }
    rows = spark.read.format("penstock").options(**kafka, **bounds).option("subscribe", INPUT).load()
    writer = rows.select("key", "value").write.format("penstock").options(**kafka).option("topic", OUTPUT)
    writer.option("txnAppId", "batches").option("txnVersion", str(version)).mode("append").save()
    return version


def following(consumer: Consumer, begin: Offsets) -> Offsets:
    """The ends of the partitions, at most ROWS_MAX further; a partition that nobody leads at the moment has to wait."""
    found = dict(begin)
    for partition, offset in begin.items():
        try:
            _, high = consumer.get_watermark_offsets(TopicPartition(INPUT, int(partition)), ANSWER_S_MAX)
        except KafkaException:
            continue
        found[partition] = min(high, offset + ROWS_MAX // PARTITIONS)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
