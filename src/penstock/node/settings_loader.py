"""Merges defaults < file < environment < flags into one Settings and records the source of each value.

Reports all problems together. Opens no file but the settings file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from penstock.core.errors import InvalidConfig
from penstock.core.model import Storage
from penstock.node.definitions.definition import SettingDefinition, SettingKind
from penstock.node.definitions.values import read_value, without_login
from penstock.node.file_shapes import FOUND_NAME, SERVER_PORT, FileShape
from penstock.node.settings import DEFINITION_OF, DEFINITIONS, Settings
from penstock.node.settings_file import (
    GROUPS,
    NOT_HERE,
    FileEntry,
    UnreadableFile,
    read_settings_file,
    snake_case,
)

PREFIX = "PENSTOCK_"

FOREIGN_VARIABLES = {
    "QB_SERVER_HOST": "host",
    "QB_SERVER_PORT": "queue_port",
    "QB_DATA_DIR": "data_dir",
    "QB_LOG_LEVEL": "log_level",
}
"""Supported variables of another broker, whose protocol the queue door implements; ours take precedence."""

OTHER_VARIABLES = (
    "PENSTOCK_API",
    "PENSTOCK_BOOTSTRAP",
    "PENSTOCK_CACHE_DIR",
    "PENSTOCK_COMPAT_BOOTSTRAP",
    "PENSTOCK_CONFIG",
    "PENSTOCK_DECODER",
    "PENSTOCK_QUEUE",
    "PENSTOCK_REQUIRE_CLIENTS",
    "PENSTOCK_TOKEN_FILE",
    # of clients
    "PENSTOCK_CLIENT_AUTH_WITHOUT_TLS",
    "PENSTOCK_CLIENT_SASL_MECHANISM",
    "PENSTOCK_CLIENT_TLS",
    "PENSTOCK_CLIENT_TLS_CA",
    "PENSTOCK_CLIENT_TLS_CERT",
    "PENSTOCK_CLIENT_TLS_KEY",
    "PENSTOCK_CLIENT_TLS_KEY_PASSWORD",
    "PENSTOCK_CLIENT_TLS_VERIFY",
    "PENSTOCK_CLIENT_TOKEN_FILE",
    "PENSTOCK_CLIENT_TOKEN_SCOPE",
    "PENSTOCK_CLIENT_TOKEN_URL",
    "PENSTOCK_PASSWORD",
    "PENSTOCK_PASSWORD_FILE",
    "PENSTOCK_PROFILE",
    "PENSTOCK_TOKEN",
    "PENSTOCK_USERNAME",
)
"""Variables with our prefix that are not node settings: those of the command line and the test suite."""

_SERVICE_LINK = re.compile(r"PENSTOCK_(?:(?:TEXT|JSON|QUEUE|HTTP)_)?(SERVICE_.*|PORT_\d+_(TCP|UDP).*)")
"""Variables that Kubernetes sets in every container if a service is called penstock, penstock-text, and so on.
`PENSTOCK_PORT=tcp://…` is another."""


class Problem(NamedTuple):
    """One problem: its source, the key, and a description."""

    where: str
    key: str
    what: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.key, self.what) if part)


class SettingsError(Exception):
    """The settings are invalid. Not in the broker's error tree: it is raised before there is a broker."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class LoadedSettings(NamedTuple):
    """Settings with the source of each value: `default`, `file F: key`, `environment NAME` or `flag --name`."""

    settings: Settings
    sources: Mapping[str, str]
    file: str | None = None
    """The settings file that was read."""
    notes: Sequence[str] = ()
    """What the user should know about the file: keys without effect, keys that mean something else than usual."""


class FoundFile(NamedTuple):
    """The outcome of a search: the settings file, or why there is none if there is a file of that name."""

    path: str | None = None
    note: str = ""


def find_settings_file(directory: Path, is_alone: bool) -> FoundFile:
    """`config.json` in the directory, if its shape is one that is recognised: other programs have such files too.

    A broker of a cluster (`is_alone` false) takes no file that it was not given: its settings come from the one who
    planned the cluster.
    """
    path = directory / FOUND_NAME
    if not is_alone or not path.is_file():
        return FoundFile()
    try:
        file = read_settings_file(path)
    except UnreadableFile as error:
        return FoundFile(note=_not_read(str(error)))
    unknown = [entry.key for entry in file.entries if entry.name is None and not entry.note]
    if unknown:
        return FoundFile(note=_not_read(f"{unknown[0][:100]!r} is not a setting of a broker"))
    if file.shape is None:
        return FoundFile(note=_not_read("it does not look like the settings of a broker"))
    return FoundFile(FOUND_NAME)


def _not_read(why: str) -> str:
    return f"{FOUND_NAME} in the working directory was not read: {why}; --config {FOUND_NAME} reads it anyway"


def load_settings(
    file: str | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
    *,
    other_sections: Collection[str] = (),
    other_keys: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """Merge the layers; flags are by setting name, as strings or typed. Raises SettingsError with every problem.

    `other_sections` of the file belong to the caller and are skipped; `other_keys` are further names of settings in it.
    """
    merge = _Merge()
    if file is not None:
        merge.add_file(Path(file), other_sections, other_keys or {})
    merge.add_environment(environment or {})
    merge.add_flags(flags or {})
    if merge.problems:
        raise SettingsError(merge.problems)
    settings = Settings(**merge.values)
    sources = {definition.name: merge.sources.get(definition.name, "default") for definition in DEFINITIONS}
    contradictions = list(_contradictions(settings, sources))
    if contradictions:
        raise SettingsError(contradictions)
    return LoadedSettings(settings, sources, file, tuple(merge.notes))


class _Merge:
    """Values, sources and problems while layers are merged, lowest first."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.notes: list[str] = []

    def add_file(
        self, path: Path, other_sections: Collection[str] = (), other_keys: Mapping[str, str] | None = None
    ) -> None:
        where = str(path)
        try:
            entries, shape = read_settings_file(path)
        except UnreadableFile as error:
            self.problems.append(Problem(where, "", str(error)))
            return
        keys: dict[str, str] = {}
        for written in entries:
            key = snake_case(written.key)
            if key in other_sections:
                continue
            if written.name is None and key in (other_keys or {}):
                written = written._replace(name=(other_keys or {})[key])
            if written.note:
                self.notes.append(f"{where}: {written.key} {written.note}")
            elif written.problem:
                self.problems.append(Problem(where, written.key, written.problem))
            elif written.name is None:
                self.problems.append(Problem(where, written.key, _unknown_in_file(written)))
            elif written.name in keys:
                self.problems.append(Problem(where, written.key, f"sets the same as '{keys[written.name]}'"))
            else:
                keys[written.name] = written.key
                self._set(written.name, written.value, where, written.key, f"file {where}: {written.key}")
        if shape is not None:
            self._add_shape(where, shape, keys)

    def _add_shape(self, where: str, shape: FileShape, keys: Mapping[str, str]) -> None:
        if shape.port_setting in keys:
            self.notes.append(
                f"{where}: {SERVER_PORT} sets {shape.port_setting}, because this is a file for the {shape.protocol}"
                " protocol; `port` at the top of a file is the port of the Kafka protocol"
            )
        if shape.data_dir is not None and "data_dir" not in keys:
            self._set("data_dir", shape.data_dir, where, "storage", f"file {where}: default of its shape")

    def add_environment(self, environment: Mapping[str, str]) -> None:
        for variable, name in FOREIGN_VARIABLES.items():
            if variable in environment:
                self._set(name, environment[variable], "environment", variable, f"environment {variable}")
        for variable in sorted(environment):
            if not variable.startswith(PREFIX) or variable in OTHER_VARIABLES:
                continue
            value = environment[variable]
            if _SERVICE_LINK.fullmatch(variable) or (variable.endswith("_PORT") and "://" in value):
                continue
            name = variable.removeprefix(PREFIX).lower()
            if name not in DEFINITION_OF:
                known = [definition.variable for definition in DEFINITIONS]
                self.problems.append(
                    Problem("environment", variable, "unknown setting" + _hint(variable, known))
                )
            else:
                self._set(name, value, "environment", variable, f"environment {variable}")

    def add_flags(self, flags: Mapping[str, object]) -> None:
        for name, value in flags.items():
            flag = DEFINITION_OF[name].flag
            self._set(name, value, "flag", flag, f"flag {flag}")

    def _set(self, name: str, raw: object, where: str, key: str, source: str) -> None:
        definition = DEFINITION_OF.get(name)
        if definition is None:
            self.problems.append(
                Problem(where, key, f"{_found(raw)}; allowed: a list of two sizes, receive and send")
            )
            return
        try:
            self.values[name] = read_value(definition, raw)
        except InvalidConfig as error:
            self.problems.append(Problem(where, key, str(error)))
            return
        except ValueError:
            hint = ""
            if definition.choices is not None and isinstance(raw, str):
                hint = _hint(raw.lower(), [member.value for member in definition.choices])
            self.problems.append(
                Problem(where, key, f"{_found_value(definition, raw)}; allowed: {definition.allowed}{hint}")
            )
            return
        self.sources[name] = source


def _found(raw: object) -> str:
    if raw is None:
        return "found nothing"
    return f"found {'on' if raw is True else 'off' if raw is False else repr(raw)}"


def _found_value(definition: SettingDefinition, raw: object) -> str:
    is_url = definition.kind is SettingKind.URL and isinstance(raw, str)
    return _found(without_login(str(raw)) if is_url else raw)


def _unknown_in_file(written: FileEntry) -> str:
    dotted = ".".join(snake_case(part) for part in written.key.split("."))
    group, _, inner = dotted.rpartition(".")
    for known_key in (dotted, group):
        if known_key in NOT_HERE:
            return f"is not supported here: {NOT_HERE[known_key]}"
    if not group and isinstance(written.value, dict):
        return f"unknown section{_hint(dotted, GROUPS)}"
    known = [definition.name for definition in DEFINITIONS if group in ("", "broker", definition.section)]
    if group and inner in DEFINITION_OF:
        return f"belongs in section '{DEFINITION_OF[inner].section}', or at the top of the file"
    return f"unknown setting{_hint(inner, known)}"


def _hint(name: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _contradictions(settings: Settings, sources: Mapping[str, str]) -> Iterable[Problem]:
    """Problems with pairs of settings."""
    if settings.cluster is not None:
        if settings.metadata is not None:
            what = (
                f"is set ({sources['cluster']}), and so is metadata ({sources['metadata']}); set one of them"
            )
            yield Problem("settings", "cluster", what)
        if settings.storage is Storage.MEMORY:
            yield Problem(
                "settings", "cluster", "needs storage: disk, because etcd stores the cluster's metadata there"
            )
    for larger, smaller in (
        ("frame_bytes_max", "message_bytes_max"),
        ("inflight_bytes_max", "frame_bytes_max"),
    ):
        high, low = getattr(settings, larger), getattr(settings, smaller)
        if high < low:
            what = f"found {high} ({sources[larger]}); allowed: at least {smaller}, which is {low} ({sources[smaller]})"
            yield Problem("settings", larger, what)
