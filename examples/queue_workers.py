"""A work queue: two workers share the messages, one message is rejected. Ends by itself. Needs a running broker."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter

from penstock import BrokerClient
from penstock.client.queue import Message, Reject

TOPIC, SUBSCRIPTION, TASKS = "example-tasks", "example-workers", 40
WORK_S_MAX = 60

done: Counter[str] = Counter()
all_done = threading.Event()


def worker(name: str) -> BrokerClient:
    """Connect a worker to the subscription."""

    def work(message: Message) -> None:
        if message.text == "impossible":
            raise Reject("unsupported task")
        done[name] += 1
        if done.total() == TASKS:
            all_done.set()

    client = BrokerClient(client_id=name)
    client.connect()
    client.subscribe_to_subscription(SUBSCRIPTION, work)
    return client


def settle(boss: BrokerClient) -> None:
    """Wait until every message is handled or a dead letter."""
    ends_s = time.monotonic() + WORK_S_MAX
    all_done.wait(WORK_S_MAX)
    while left := sum(
        one["unsettled_count"] for one in boss.describe_subscription(SUBSCRIPTION)["partitions"]
    ):
        if time.monotonic() > ends_s:
            sys.exit(
                f"{left} tasks are left after {WORK_S_MAX} s: has {SUBSCRIPTION} other members, which hold them?"
            )
        time.sleep(0.05)


def main() -> None:
    with BrokerClient(client_id="boss") as boss:
        boss.create_topic(TOPIC)
        boss.create_subscription(SUBSCRIPTION, TOPIC)
        workers = [worker("ada"), worker("bob")]
        boss.publish_text(TOPIC, "impossible", urgency="high")
        for number in range(TASKS):
            boss.publish_text(TOPIC, f"task {number}")
        settle(boss)
        for client in workers:
            client.disconnect()
        for name, count in sorted(done.items()):
            print(f"{name} handled {count}")
        print(f"dead letters redriven: {boss.redrive(SUBSCRIPTION)}")


if __name__ == "__main__":
    main()
