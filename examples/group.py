"""A consumer group: two members in two threads, each with half of the partitions. Ends by itself.

Needs a running broker.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter

from penstock import Admin, Consumer, Producer

TOPIC, GROUP, PARTITIONS, PARCELS = "example-parcels", "example-packers", 4, 60
SHARE_S_MAX = 60
PACK_S_MAX = 60

handled: Counter[str] = Counter()
all_handled = threading.Event()
shared = threading.Barrier(3)


def pack(name: str) -> None:
    with Consumer(TOPIC, group=GROUP, value_serializer="string") as consumer:
        while len(consumer.assignment()) != PARTITIONS // 2 and not shared.broken:
            consumer.poll(0.1)
        shared.wait()
        while not all_handled.is_set():
            message = consumer.poll(0.2)
            if message is not None:
                handled[name] += 1
                if handled.total() >= PARCELS:
                    all_handled.set()


def check_topic(admin: Admin) -> None:
    """Create the topic, or exit if it exists with another partition count."""
    admin.create_topic(TOPIC, partitions=PARTITIONS, if_not_exists=True)
    found = len(admin.describe_topic(TOPIC).partitions)
    if found != PARTITIONS:
        sys.exit(
            f"Topic {TOPIC} has {found} partitions, this example needs {PARTITIONS}. Delete the topic first."
        )


def main() -> None:
    with Admin() as admin:
        check_topic(admin)
        members = [threading.Thread(target=pack, args=(name,), daemon=True) for name in ("ada", "bob")]
        for member in members:
            member.start()
        try:
            shared.wait(SHARE_S_MAX)
        except threading.BrokenBarrierError:
            sys.exit(
                f"The two members were not assigned two partitions each: check for other members of group {GROUP}."
            )
        with Producer(partitioning="round_robin") as producer:
            for number in range(PARCELS):
                producer.send(TOPIC, f"parcel {number}")
        if not all_handled.wait(PACK_S_MAX):
            sys.exit(
                f"Only {handled.total()} of {PARCELS} parcels arrived within {PACK_S_MAX} s: see the log of the broker."
            )
        for member in members:
            member.join()
        lag = sum(row.lag for row in admin.lag(GROUP))
    print(f"{handled.total()} parcels packed by {' and '.join(sorted(handled))}; lag {lag}")


if __name__ == "__main__":
    main()
