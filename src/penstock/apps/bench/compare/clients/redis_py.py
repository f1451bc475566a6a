"""Client row: redis-py on a stream and a consumer group.

`python -m penstock.apps.bench.compare.clients.redis_py HOST PORT COUNT STREAM`
"""

from __future__ import annotations

import sys

import redis

from penstock.apps.bench.compare.clients.timing import report
from penstock.apps.bench.harness.payload import payload

GROUP = "workers"
SIZE = 1024
AT_ONCE = 500


def main(host: str, port: str, count: int, stream: str) -> None:
    client = redis.Redis(host=host, port=int(port))
    value = payload(SIZE)
    client.xgroup_create(stream, GROUP, id="0", mkstream=True)

    def produce(messages: int) -> None:
        for _ in range(messages // AT_ONCE):
            pipeline = client.pipeline(transaction=False)
            for _ in range(AT_ONCE):
                pipeline.xadd(stream, {"v": value})
            pipeline.execute()

    def consume(messages: int) -> None:
        seen = 0
        while seen < messages:
            wanted = min(AT_ONCE, messages - seen)
            ((_, entries),) = client.xreadgroup(GROUP, "one", {stream: ">"}, count=wanted, block=10_000)
            client.xack(stream, GROUP, *(entry[0] for entry in entries))
            seen += len(entries)

    report(count, produce, consume)
    client.unlink(stream)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
