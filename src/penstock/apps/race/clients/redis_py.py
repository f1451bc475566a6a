"""`python -m penstock.apps.race.clients.redis_py HOST PORT COUNT`: redis-py on a stream and a consumer group."""

from __future__ import annotations

import sys

import redis

from penstock.apps.race.clients.timing import report
from penstock.apps.race.payload import payload

STREAM, GROUP = "race", "workers"
SIZE = 1024
AT_ONCE = 500


def main(host: str, port: str, count: int) -> None:
    client = redis.Redis(host=host, port=int(port))
    value = payload(SIZE)

    def produce() -> None:
        for _ in range(count // AT_ONCE):
            pipeline = client.pipeline(transaction=False)
            for _ in range(AT_ONCE):
                pipeline.xadd(STREAM, {"v": value})
            pipeline.execute()

    def consume() -> None:
        client.xgroup_create(STREAM, GROUP, id="0")
        seen = 0
        while seen < count:
            ((_, entries),) = client.xreadgroup(GROUP, "one", {STREAM: ">"}, count=AT_ONCE, block=10_000)
            client.xack(STREAM, GROUP, *(entry[0] for entry in entries))
            seen += len(entries)

    report(count, produce, consume)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
