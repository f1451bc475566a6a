"""A broker for tests: it comes back on its own ports, also when somebody has one of them for a moment."""

from __future__ import annotations

import socket
import threading

import pytest

from conditions import until
from penstock.testing import BrokerDied, running_broker


def test_a_port_that_is_taken_for_a_moment_is_waited_for() -> None:
    with running_broker(storage="memory") as broker:
        before = broker.bootstrap, broker.queue_port
        broker.kill()
        taken = socket.create_server((broker.host, broker.queue_port))

        def let_go() -> None:
            until(lambda: "Cannot listen on" in broker.output(), "the broker did not want its port")
            taken.close()

        other = threading.Thread(target=let_go)
        other.start()
        broker.start()
        other.join()
        assert (broker.bootstrap, broker.queue_port) == before


def test_a_port_that_was_asked_for_and_is_taken_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerDied, match=f"Cannot listen on 127.0.0.1:{port}"), running_broker(port=port):
            raise AssertionError("it started on a port that is taken")
