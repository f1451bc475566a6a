"""The pipeline that is killed: one topic into another, exactly once. Runs until it is ended."""

from __future__ import annotations

import sys

import penstock.spark
from spark.kills import CLIENT_ID, INPUT, OUTPUT


def main(bootstrap: str, checkpoint: str) -> None:
    spark = penstock.spark.session(master="local[2,4]")
    kafka = kafka_options(bootstrap)
    reader = spark.readStream.format("penstock").options(**kafka).option("subscribe", INPUT)
    rows = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "120").load()
    written = rows.select("key", "value").writeStream.format("penstock").options(**kafka)
    query = written.option("topic", OUTPUT).option("checkpointLocation", checkpoint).start()
    query.awaitTermination()


def kafka_options(bootstrap: str) -> dict[str, str]:
    """What a pipeline under kills tells its clients."""
    return {
        "kafka.bootstrap.servers": bootstrap,
        "kafka.client.id": CLIENT_ID,
        "kafka.request.timeout.ms": "10000",
        "kafka.default.api.timeout.ms": "60000",
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
