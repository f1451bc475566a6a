"""RabbitMQ as a runner, with its stream door. Never part of a cluster; it brings its own port mapper."""

from __future__ import annotations

import subprocess
from pathlib import Path

from penstock.apps.race.servers.installing import Missing, from_debian
from penstock.apps.race.servers.process import ServerProcess, free_port, is_listening
from penstock.apps.race.servers.runner import Promise, Running

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
WITH_PORT_MAPPER = 'epmd & exec "$0"'
"""Started beside it, not by it: it would leave the mapper behind, in a session where nobody finds it."""
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
            "plugin rabbitmq_stream": "streams in all rows but 3 and 8",
            "quorum queues": "rows 3 and 8: flushed before they confirm",
            "log.console true, log.console.level warning": "no log line for each connection",
            "loopback_users none": "its documentation's setting for tests; all is on loopback here",
        }

    def prepare(self) -> str:
        from_debian("rabbitmqctl", "rabbitmq-server")
        if not PROGRAM.exists():
            raise Missing(f"there is no {PROGRAM}")
        told = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server"],
            check=True,
            capture_output=True,
            text=True,
        )
        return told.stdout.partition("-")[0]

    def start(self, home: Path, cpu: int, promise: Promise) -> Running:
        del promise  # streams leave flushing to the system, quorum queues flush: the row chooses between them
        port, stream = free_port(), free_port()
        (home / "rabbitmq.conf").write_text(SETTINGS.format(port=port, stream=stream))
        (home / "plugins").write_text("[rabbitmq_stream].\n")
        more = {
            "HOME": str(home),
            "RABBITMQ_NODENAME": f"race{port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "ERL_EPMD_PORT": str(free_port()),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        process = ServerProcess(["sh", "-c", WITH_PORT_MAPPER, str(PROGRAM)], home, cpu, more=more)
        process.await_ready(lambda: is_listening(port) and is_listening(stream))
        return Running(process, {"main": port, "stream": stream})
