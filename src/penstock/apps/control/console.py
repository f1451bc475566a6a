"""Runs the commands of the console on the services of a coordinator. The one executor behind all surfaces.

`run` takes a line and never raises: a failure is a result with its exit status. Whether the caller has shown the
token is told by the surface.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from penstock.apps.control.cluster_facts import ClusterFacts, KafkaFacts, PartitionFact
from penstock.apps.control.commands import (
    BROKER,
    FIRST_WORDS,
    FORMS,
    GUARDED,
    Command,
    ConsoleError,
    FailureKind,
    Verb,
    forms_of,
    parse_command,
)
from penstock.apps.control.result import CommandResult, duration_text, failed_result
from penstock.apps.control.services import Health, ServiceError, ServiceKind, Services, ServiceStatus

UNKNOWN = "-"
LED_SHOWN_MAX = 8
"""Partitions of a broker that `leaders` shows as text; JSON has all of them."""
LOG_LINE_CHARS_MAX = 4_000
"""Longer lines of a log are cut: an answer stays in memory until it is read."""

_DONE = {Verb.START: "started", Verb.STOP: "stopped", Verb.RESTART: "restarted", Verb.KILL: "killed"}


class Console:
    """Commands on one coordinator."""

    def __init__(self, services: Services, facts: ClusterFacts | None = None) -> None:
        self.services = services
        self._facts: ClusterFacts = facts or KafkaFacts(lambda: services.bootstrap)
        self._handlers: dict[Verb, Callable[[Command], Awaitable[CommandResult]]] = {
            Verb.STATUS: self._status,
            Verb.BROKERS: self._brokers,
            Verb.START: self._change,
            Verb.STOP: self._change,
            Verb.RESTART: self._change,
            Verb.KILL: self._change,
            Verb.RESTART_ALL: self._restart_all,
            Verb.LEADERS: self._leaders,
            Verb.TOPICS: self._topics,
            Verb.LAG: self._lag,
            Verb.LOGS: self._logs,
            Verb.HELP: self._help,
            Verb.EXIT: self._exit,
            Verb.SHUTDOWN: self._shutdown,
        }

    async def run(self, text: str, *, is_trusted: bool, as_json: bool = False) -> str:
        """Run one line; returns what to print."""
        result, wants_json = await self.answer(text, is_trusted=is_trusted)
        return result.render(as_json=as_json or wants_json)

    async def answer(self, text: str, *, is_trusted: bool) -> tuple[CommandResult, bool]:
        """Run one line; returns its result, and whether the line asks for JSON."""
        try:
            command = parse_command(text)
        except ConsoleError as error:
            return failed_result(error), False
        try:
            return await self.execute(command, is_trusted=is_trusted), command.as_json
        except ConsoleError as error:
            return failed_result(error), command.as_json

    async def execute(self, command: Command, *, is_trusted: bool) -> CommandResult:
        """Run a command. Raises ConsoleError."""
        if command.verb in GUARDED and not is_trusted:
            raise ConsoleError(
                FailureKind.NO_TOKEN,
                f"'{command.verb.value}' needs the coordinator's token.",
                "Send it first; it is in the file run/console-token of the cluster's data directory.",
            )
        if command.service and command.service not in self.services.names:
            raise self._no_service(command.service)
        try:
            return await self._handlers[command.verb](command)
        except ServiceError as error:
            raise ConsoleError(FailureKind.REJECTED, str(error)) from error

    def _no_service(self, name: str) -> ConsoleError:
        kind, _, number = name.partition("-")
        brokers = [one.removeprefix(f"{BROKER}-") for one in self.services.names if one.startswith(BROKER)]
        if kind == BROKER:
            message = f"There is no broker {number}; the brokers are {', '.join(brokers)}."
        else:
            message = f"There is no service {name}; the services are {', '.join(self.services.names)}."
        return ConsoleError(FailureKind.NO_SUCH_SERVICE, message)

    # -- services

    async def _status(self, command: Command) -> CommandResult:
        found = self.services.status()
        columns = ("service", "health", "pid", "ports", "uptime", "restarts", "detail")
        rows = [_service_row(one) for one in found]
        content = status_content(self.services)
        return CommandResult(content, columns, rows, _detail_lines(found))

    async def _brokers(self, command: Command) -> CommandResult:
        found = [one for one in self.services.status() if one.kind is ServiceKind.BROKER]
        columns = ("broker", "health", "pid", "ports", "uptime", "restarts", "detail")
        rows = [(one.node_id, *_service_row(one)[1:]) for one in found]
        return CommandResult(
            {"brokers": [service_content(one) for one in found]}, columns, rows, _detail_lines(found)
        )

    async def _change(self, command: Command) -> CommandResult:
        acts = {
            Verb.START: self.services.start,
            Verb.STOP: self.services.stop,
            Verb.RESTART: self.services.restart,
            Verb.KILL: self.services.kill,
        }
        await acts[command.verb](command.service)
        now = self._state(command.service)
        content = {"service": service_content(now), "done": _DONE[command.verb]}
        return CommandResult(
            content, lines=[f"{command.service}: {_DONE[command.verb]}; it is {now.health.value} now"]
        )

    def _state(self, name: str) -> ServiceStatus:
        return next(one for one in self.services.status() if one.name == name)

    async def _restart_all(self, command: Command) -> CommandResult:
        await self.services.restart_all()
        found = self.services.status()
        healthy = sum(one.health is Health.HEALTHY for one in found)
        content = {**status_content(self.services), "done": "restarted"}
        return CommandResult(
            content, lines=[f"all services restarted; {healthy} of {len(found)} are healthy now"]
        )

    async def _logs(self, command: Command) -> CommandResult:
        found = [_shortened(line) for line in self.services.log_lines(command.service, command.lines)]
        return CommandResult(
            {"service": command.service, "lines": found},
            lines=found or [f"The log of {command.service} is empty."],
        )

    async def _shutdown(self, command: Command) -> CommandResult:
        self.services.shut_down()
        return CommandResult({"done": "stopping"}, lines=["stopping all services"])

    # -- the cluster

    async def _leaders(self, command: Command) -> CommandResult:
        led: dict[int | None, list[PartitionFact]] = {
            one.node_id: [] for one in self.services.status() if one.kind is ServiceKind.BROKER
        }
        for fact in await self._facts.partitions():
            led.setdefault(fact.leader, []).append(fact)
        ordered = sorted(led, key=lambda node_id: (node_id is None, node_id or 0))
        rows = [
            ("none" if node_id is None else node_id, len(led[node_id]), _led_text(led[node_id]))
            for node_id in ordered
        ]
        content = {
            "brokers": [
                {
                    "broker": node_id,
                    "leads": len(led[node_id]),
                    "partitions": [{"topic": one.topic, "partition": one.partition} for one in led[node_id]],
                }
                for node_id in ordered
            ]
        }
        return CommandResult(content, ("broker", "leads", "partitions"), rows)

    async def _topics(self, command: Command) -> CommandResult:
        found: dict[str, list[PartitionFact]] = {}
        for fact in await self._facts.partitions():
            found.setdefault(fact.topic, []).append(fact)
        topics = [
            {
                "topic": name,
                "partitions": len(facts),
                "replicas": max(len(one.replicas) for one in facts),
                "under_replicated": sum(len(one.in_sync) < len(one.replicas) for one in facts),
                "offline": sum(one.leader is None for one in facts),
            }
            for name, facts in found.items()
        ]
        columns = ("topic", "partitions", "replicas", "under-replicated", "offline")
        rows = [tuple(one.values()) for one in topics]
        return CommandResult({"topics": topics}, columns, rows, [] if rows else ["There are no topics."])

    async def _lag(self, command: Command) -> CommandResult:
        report = await self._facts.lag()
        lines = [] if report.facts else ["No group has committed offsets."]
        if report.skipped:
            lines.append(f"{report.skipped} more groups are not shown; see: penstock group lag GROUP")
        content = {"groups": [one._asdict() for one in report.facts], "skipped": report.skipped}
        return CommandResult(content, ("group", "topic", "partitions", "lag"), report.facts, lines)

    # -- the console itself

    async def _help(self, command: Command) -> CommandResult:
        forms = forms_of(command.word) if command.word else list(FORMS)
        if not forms:
            raise ConsoleError(
                FailureKind.WORDS,
                f"There is no command that begins with '{command.word[:40]}'.",
                "Type: help",
            )
        rows = [(form.text, form.meaning) for form in forms]
        content = {"commands": [{"command": text, "meaning": meaning} for text, meaning in rows]}
        lines = [] if command.word else ["Add --json to a command to get JSON."]
        return CommandResult(content, ("command", "meaning"), rows, lines)

    async def _exit(self, command: Command) -> CommandResult:
        return CommandResult({"done": "left"}, lines=["bye; the cluster runs on"], leaves=True)


def completions(names: Sequence[str]) -> Mapping[str, Any]:
    """Nested words for completion: each word with the words that may follow."""
    brokers = {name.removeprefix(f"{BROKER}-"): None for name in names if name.startswith(f"{BROKER}-")}
    services: dict[str, Any] = {BROKER: brokers, **dict.fromkeys(names)}
    following: dict[str, Any] = {"ID": brokers, "SERVICE": services, "[WORD]": dict.fromkeys(FIRST_WORDS)}
    tree: dict[str, Any] = {}
    for form in FORMS:
        first, *rest = form.parts
        if not rest:
            tree[first] = None
        elif rest[0] in following:
            tree[first] = following[rest[0]]
        else:
            after = following.get(rest[1]) if rest[1:] else None
            tree.setdefault(first, {})[rest[0]] = after
    return tree


# -- values


def status_content(services: Services) -> dict[str, Any]:
    """All services, for programs."""
    return {
        "cluster_id": services.cluster_id,
        "bootstrap": services.bootstrap,
        "services": [service_content(one) for one in services.status()],
    }


def service_content(one: ServiceStatus) -> dict[str, Any]:
    """One service, for programs."""
    return {
        "name": one.name,
        "kind": one.kind.value,
        "health": one.health.value,
        "node_id": one.node_id,
        "pid": one.pid,
        "ports": dict(one.ports),
        "uptime_s": None if one.uptime_s is None else round(one.uptime_s, 3),
        "restarts": one.restarts,
        "detail": one.detail,
    }


def _service_row(one: ServiceStatus) -> tuple[object, ...]:
    ports = ", ".join(f"{door} {port}" for door, port in one.ports.items())
    return (
        one.name,
        one.health.value,
        UNKNOWN if one.pid is None else one.pid,
        ports or UNKNOWN,
        duration_text(one.uptime_s),
        one.restarts,
        one.detail.partition("\n")[0],
    )


def _detail_lines(found: Sequence[ServiceStatus]) -> list[str]:
    """Details with several lines, such as the end of a log, below the table."""
    lines: list[str] = []
    for one in found:
        _, is_long, rest = one.detail.partition("\n")
        if is_long:
            lines += ["", f"{one.name}:", *(f"  {line}" for line in rest.splitlines())]
    return lines


def _shortened(line: str) -> str:
    return line if len(line) <= LOG_LINE_CHARS_MAX else f"{line[:LOG_LINE_CHARS_MAX]}…"


def _led_text(facts: Sequence[PartitionFact]) -> str:
    shown = ", ".join(f"{one.topic}-{one.partition}" for one in facts[:LED_SHOWN_MAX])
    left = len(facts) - LED_SHOWN_MAX
    return f"{shown}, and {left} more" if left > 0 else shown or UNKNOWN
