"""A real broker as a child process, for tests, demos and notebooks: start, kill, stop, restart, read its log.

with running_broker(storage="memory") as broker:
    Producer(bootstrap=broker.bootstrap)
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.testing.child_server import ChildServer

Flag = str | int | bool | Path


def _arguments(flags: dict[str, Flag]) -> list[str]:
    """`log_level="debug"` becomes `--log-level debug`; True is a bare flag, False omits it."""
    arguments: list[str] = []
    for name, value in flags.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(option)
        elif value is not False:
            arguments += [option, str(value)]
    return arguments


PORTS = ("port", "text_port", "json_port", "queue_port", "http_port")
"""Port flags of `penstock start`. Each defaults to a free port, so that brokers can run side by side."""


class Broker(ChildServer):
    """One broker process with one data directory. Keeps its ports across restarts."""

    command: tuple[str, ...] = (sys.executable, "-m", "penstock")
    """The command line; a subclass may wrap it."""

    def __init__(self, home: Path, flags: dict[str, Flag]) -> None:
        super().__init__(home)
        self.host = "127.0.0.1"
        self._ports = {name: str(flags.get(name, 0)) for name in PORTS}
        self._flags = {name: value for name, value in flags.items() if name not in PORTS}

    @property
    def port(self) -> int:
        """Kafka port; 0 before the first start."""
        return int(self._ports["port"])

    @property
    def text_port(self) -> int:
        return self._door("text_port")

    @property
    def json_port(self) -> int:
        return self._door("json_port")

    @property
    def queue_port(self) -> int:
        return self._door("queue_port")

    @property
    def http_port(self) -> int:
        return self._door("http_port")

    def _door(self, name: str) -> int:
        assert self._ports[name] not in ("0", "off"), f"{name}: this listener is off or not started"
        return int(self._ports[name])

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def _command_line(self) -> list[str]:
        return [
            *(*self.command, "start"),
            *("--data-dir", str(self.data_dir), "--ready-file", str(self.ready_path)),
            *_arguments({**self._ports, **self._flags}),
        ]

    def _set_ready(self, ready: dict[str, object]) -> None:
        self.host = str(ready["host"])
        self._ports |= {name: str(ready[name]) for name in PORTS if name in ready}


@contextmanager
def running_broker(home: Path | None = None, **flags: Flag) -> Iterator[Broker]:
    """A ready broker; keywords are the flags of `penstock start` with underscores. `home` is not deleted."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as scratch:
        broker = Broker(home or Path(scratch), dict(flags))
        broker.start()
        try:
            yield broker
        finally:
            broker.close()
