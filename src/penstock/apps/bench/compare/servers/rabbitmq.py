"""RabbitMQ with its stream plugin as a single node, with its own port mapper."""

from __future__ import annotations

import subprocess
from pathlib import Path

from penstock.apps.bench.compare.servers.install import CannotInstall, from_debian
from penstock.apps.bench.compare.servers.launcher import RunningServer
from penstock.apps.bench.harness.process import ServerProcess, free_port, is_listening
from penstock.core.model import Durability

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
WITH_PORT_MAPPER = 'epmd & exec "$0"'
"""RabbitMQ would start the port mapper in another session, where `ServerProcess` could not find and kill it."""
SETTINGS = """\
listeners.tcp.1 = 127.0.0.1:{port}
stream.listeners.tcp.1 = 127.0.0.1:{stream}
loopback_users = none
log.console = true
log.console.level = warning
"""


class RabbitMq:
    name = "RabbitMQ"

    @property
    def settings(self) -> dict[str, str]:
        return {
            "plugin rabbitmq_stream": "streams in all rows except 3 and 8",
            "quorum queues": "rows 3 and 8: flushed before the confirm",
            "log.console true, log.console.level warning": "no log line per connection",
            "loopback_users none": "its documented setting for tests; everything runs on loopback",
        }

    def prepare(self) -> str:
        from_debian("rabbitmqctl", "rabbitmq-server")
        if not PROGRAM.exists():
            raise CannotInstall(f"{PROGRAM} was not found")
        output = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server"],
            check=True,
            capture_output=True,
            text=True,
        )
        return output.stdout.partition("-")[0]

    def start(self, home: Path, cpu: int, durability: Durability) -> RunningServer:
        del durability  # streams do not flush, quorum queues do: the row chooses between them
        port, stream = free_port(), free_port()
        (home / "rabbitmq.conf").write_text(SETTINGS.format(port=port, stream=stream))
        (home / "plugins").write_text("[rabbitmq_stream].\n")
        environment = {
            "HOME": str(home),
            "RABBITMQ_NODENAME": f"bench{port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "ERL_EPMD_PORT": str(free_port()),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        process = ServerProcess(
            ["sh", "-c", WITH_PORT_MAPPER, str(PROGRAM)], home, cpu, environment=environment
        )
        process.await_ready(lambda: is_listening(port) and is_listening(stream))
        return RunningServer(process, {"main": port, "stream": stream})
