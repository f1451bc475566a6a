"""Prints the messages of a topic until Ctrl-C, or COUNT of them. Waits for messages that are not there yet.

Needs a running broker.

python examples/consume.py [TOPIC] [COUNT]
"""

from __future__ import annotations

import sys

from penstock import Admin, Consumer


def main(topic: str = "example-orders", count: str = "") -> None:
    with Admin() as admin:
        admin.create_topic(topic, if_not_exists=True)
    with Consumer(topic, value_serializer="json", key_serializer="string") as consumer:
        left = int(count) if count else -1
        wanted = f"{count} messages" if count else "messages"
        print(f"waiting for {wanted} of topic {topic}; Ctrl-C stops", file=sys.stderr, flush=True)
        while left:
            message = consumer.poll(1.0)
            if message is not None:
                print(f"{message.offset} {message.key} {message.value}", flush=True)
                left -= 1


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        print("stopped")
