"""A member of a subscription as a process of its own: notes every delivery in a file before it acknowledges it.

`python queue_member.py PORT SUBSCRIPTION FILE [hold]`; with `hold` it notes and never acknowledges.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from penstock import BrokerClient
from penstock.client.errors import ClientError
from penstock.client.queue import Message


def main(port: int, subscription: str, path: Path, *, is_holding: bool) -> None:
    with path.open("a") as notes:

        def handle(message: Message) -> None:
            notes.write(f"{message.partition} {message.offset} {message.delivery} {message.text}\n")
            notes.flush()
            if is_holding:
                threading.Event().wait()

        client = BrokerClient(port=port, client_id=path.stem, request_timeout_s=60)
        while not client.is_connected:
            try:
                client.connect()
            except ClientError:
                time.sleep(0.05)
        client.subscribe_to_subscription(subscription, handle, window=20)
        threading.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), is_holding=sys.argv[4:] == ["hold"])
