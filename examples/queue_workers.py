"""A work queue: two workers share the messages, one message is rejected. Needs a running broker."""

from __future__ import annotations

import threading
import time
from collections import Counter

from penstock import BrokerClient
from penstock.client.queue import Message, Reject

TOPIC, SUBSCRIPTION, TASKS = "example-tasks", "example-workers", 40

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


def main() -> None:
    with BrokerClient(client_id="boss") as boss:
        boss.create_topic(TOPIC)
        boss.create_subscription(SUBSCRIPTION, TOPIC)
        workers = [worker("ada"), worker("bob")]
        boss.publish_text(TOPIC, "impossible", urgency="high")
        for number in range(TASKS):
            boss.publish_text(TOPIC, f"task {number}")
        all_done.wait()
        while sum(one["unsettled_count"] for one in boss.describe_subscription(SUBSCRIPTION)["partitions"]):
            time.sleep(0.05)
        for client in workers:
            client.disconnect()
        for name, count in sorted(done.items()):
            print(f"{name} handled {count}")
        print(f"dead letters redriven: {boss.redrive(SUBSCRIPTION)}")


if __name__ == "__main__":
    main()
