"""Options as Spark passes them: strings under case-insensitive names. Rejects unknown names; never guesses."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.client.access import OPTIONS as ACCESS_OPTIONS
from penstock.client.access import Access, nearest, whole_number
from penstock.client.errors import BadArgument
from penstock.client.security import OWN_NAMES, resolve_access

KAFKA = "kafka."

WITHOUT_EFFECT = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "exclude.internal.topics",
        "group.instance.id",
        "heartbeat.interval.ms",
        "max.in.flight.requests.per.connection",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metric.reporters",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
    }
)
"""Settings that tune the internals of Kafka's own client. Existing jobs set them, so they are logged and ignored."""

_LOG = logging.getLogger("penstock.spark")
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_DURATION_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class RawOptions:
    """The options of one read or write. Names outside `known` and `kafka_known` are rejected."""

    def __init__(
        self,
        options: Mapping[str, str],
        known: Iterable[str],
        kafka_known: Iterable[str],
        refused: Mapping[str, str],
    ) -> None:
        self._values = {name.lower(): str(value) for name, value in options.items()}
        names = {name.lower(): name for name in (*known, *OWN_NAMES)}
        kafka_names = {*ACCESS_OPTIONS, *kafka_known}
        for name, why in refused.items():
            if self.has(name):
                raise BadArgument(f"option {name!r} cannot be set here: {why}")
        for name in self._values:
            if name.startswith(KAFKA):
                self._check_kafka(name.removeprefix(KAFKA), kafka_names)
            elif name not in names:
                offered = [*names.values(), *(KAFKA + one for one in kafka_names)]
                raise BadArgument(f"there is no option {name!r}.{nearest(name, offered)}")

    def _check_kafka(self, name: str, known: set[str]) -> None:
        if name in WITHOUT_EFFECT:
            _LOG.warning("option %s%s is ignored: it tunes a client that Penstock does not use", KAFKA, name)
        elif name not in known:
            raise BadArgument(
                f"there is no option {KAFKA + name!r}.{nearest(KAFKA + name, map(KAFKA.__add__, known))}"
            )

    def access(self) -> Access:
        """Connection settings. Secret files, the environment and the profile are read here, on the driver."""
        own = {name: self._values[name] for name in OWN_NAMES if name in self._values}
        return resolve_access(self.kafka(), own)

    def kafka(self) -> dict[str, str]:
        """The options below `kafka.`, without the prefix."""
        return {
            name.removeprefix(KAFKA): value for name, value in self._values.items() if name.startswith(KAFKA)
        }

    def has(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str, default: str | None = None) -> str | None:
        return self._values.get(name.lower(), default)

    def number(self, name: str, least: int = 1) -> int | None:
        """An integer of at least `least`, or None if the option is not set."""
        return whole_number({name: self._values[name.lower()]}, name, 0, least) if self.has(name) else None

    def flag(self, name: str, default: bool) -> bool:
        value = self._values.get(name.lower(), str(default)).strip().lower()
        if value not in ("true", "false"):
            raise BadArgument(f"{name} is {value!r}; it must be true or false")
        return value == "true"

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self._values.get(name.lower(), default).strip().lower()
        if value not in choices:
            raise BadArgument(f"{name} is {value!r}; it must be one of {', '.join(choices)}")
        return value

    def duration_ms(self, name: str, default_ms: int) -> int:
        """`500ms`, `15m`, or a number of milliseconds."""
        if not self.has(name):
            return default_ms
        match = _DURATION.fullmatch(self._values[name.lower()].strip().lower())
        if match is None:
            raise BadArgument(f"{name} is {self._values[name.lower()]!r}; write it as 500ms, 30s or 15m")
        return int(match[1]) * _DURATION_MS[match[2] or "ms"]

    def json(self, name: str, example: str) -> Any:
        """A JSON value. Raises BadArgument with an example of the expected form."""
        try:
            return json.loads(self._values[name.lower()])
        except ValueError as error:
            raise BadArgument(f"{name} is not JSON: {error}. Write it as {example}") from None
