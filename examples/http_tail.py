"""Follows a topic over a WebSocket and prints its messages. Needs a running broker.

    python examples/http_tail.py TOPIC [QUERY] [COUNT]

QUERY is described in docs/protocols/http.md, for example `offset=earliest&json=level:error`. Exits after COUNT
messages, without COUNT on Ctrl-C. PENSTOCK_HTTP is the HTTP address; default 127.0.0.1:9080.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator

from wsproto import ConnectionType, WSConnection
from wsproto.events import CloseConnection, Event, Ping, RejectConnection, RejectData, Request, TextMessage


def events(line: socket.socket, websocket: WSConnection) -> Iterator[Event]:
    """WebSocket events until the connection closes."""
    while True:
        content = line.recv(65536)
        websocket.receive_data(content or None)
        yield from websocket.events()
        if not content:
            return


def tail(address: str, topic: str, query: str) -> Iterator[dict[str, object]]:
    """The messages of a topic, indefinitely."""
    host, _, port = address.rpartition(":")
    websocket = WSConnection(ConnectionType.CLIENT)
    with socket.create_connection((host, int(port))) as line:
        target = f"/api/v1/topics/{topic}/tail?{query}"
        line.sendall(websocket.send(Request(host=address, target=target)))
        text = ""
        for event in events(line, websocket):
            match event:
                case TextMessage():
                    text += event.data
                    if event.message_finished:
                        yield json.loads(text)
                        text = ""
                case Ping() | CloseConnection():
                    line.sendall(websocket.send(event.response()))
                case RejectData():
                    sys.exit(bytes(event.data).decode())
                case RejectConnection() if not event.has_body:
                    sys.exit(f"rejected with HTTP status {event.status_code}")


def main(topic: str, query: str = "", count: str = "0") -> None:
    address = os.environ.get("PENSTOCK_HTTP", "127.0.0.1:9080")
    wanted = "messages" if count == "0" else f"{count} messages"
    print(f"waiting for {wanted} of topic {topic}; Ctrl-C stops", file=sys.stderr, flush=True)
    for number, message in enumerate(tail(address, topic, query), 1):
        print(json.dumps(message), flush=True)
        if number == int(count):
            return


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        print("stopped")
