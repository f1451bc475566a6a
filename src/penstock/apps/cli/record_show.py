"""How `sub` shows records: filters, decodes values (JSON, Avro), selects fields, and formats. Never reads or writes.

Records whose value cannot be decoded are not shown; the first one is reported, and at the end how many there were.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from penstock.apps.cli.colours import coloured_json, has_colours
from penstock.apps.cli.field_path import FieldPath, parse_path
from penstock.apps.cli.formats import RecordView, Template, compile_template, record_content, record_json
from penstock.apps.cli.plain_output import JSON, TABLE, yaml_text
from penstock.apps.cli.terminal import counted, escape_lines, say
from penstock.client.serializers import Avro

DEFAULT_TEMPLATE = r"%v\n"
CONFLUENT_HEADER_BYTES = 5
"""A zero byte and the id of a schema, which other clients write in front of Avro values."""

Condition = Callable[[RecordView], bool]


@dataclass(slots=True)
class RecordShow:
    """Formats one record after the other; None means that a record is not shown."""

    output: str = TABLE
    template: str | None = None
    condition: Condition | None = None
    avro: Avro | None = None
    path: FieldPath | None = None
    is_pretty: bool = False
    for_terminal: bool = False
    is_coloured: bool = False
    skipped: int = 0
    _format: Template = field(init=False)

    def __post_init__(self) -> None:
        text = self.template if self.template is not None else DEFAULT_TEMPLATE
        shows = self._shown_value if self._decodes or self.is_pretty else None
        self._format = compile_template(text, for_terminal=self.for_terminal, show_value=shows)

    @property
    def _decodes(self) -> bool:
        return self.avro is not None or self.path is not None

    def show(self, record: RecordView) -> bytes | None:
        if self.condition is not None and not self.condition(record):
            return None
        try:
            return self._format(record) if self.output == TABLE else self._content(record)
        except _NothingSelected:
            return None
        except _Undecodable as error:
            self._skip(record, error)
            return None

    def ended(self) -> None:
        """Say how many records were not shown."""
        if self.skipped > 1:
            say(f"{counted(self.skipped, 'record')} skipped, because they could not be decoded.", err=True)

    def _skip(self, record: RecordView, error: _Undecodable) -> None:
        self.skipped += 1
        if self.skipped == 1:
            say(
                f"{record.topic} partition {record.partition} offset {record.offset} skipped: {error}",
                err=True,
            )

    def _content(self, record: RecordView) -> bytes:
        """One record as JSON or YAML. A decoded value is part of it, not text inside it."""
        content = record_content(record)
        if self._decodes or self.is_pretty:
            content.pop("value_base64", None)
            content["value"] = self._value(record)
        if self.output == JSON:
            line = record_json(content, indent=2 if self.is_pretty else None)
            return coloured_json(line.decode()).encode() if self.is_pretty and self.is_coloured else line
        return ("---\n" + yaml_text(content)).encode()

    def _value(self, record: RecordView) -> Any:
        value = self._decoded(record)
        if self.path is None:
            return value
        found = self.path.select(value)
        return found[0] if self.path.is_single else found

    def _decoded(self, record: RecordView) -> Any:
        """The value; without an order to decode, text that is no JSON stays as it is. Raises _Undecodable."""
        if record.value is None:
            return None
        if self.avro is not None:
            return _read_avro(self.avro, record.value)
        try:
            return json.loads(record.value)
        except ValueError as error:
            if self.path is not None:
                raise _Undecodable(f"the value is not JSON ({error})") from error
            return record.value.decode("utf-8", "backslashreplace")

    def _shown_value(self, record: RecordView) -> bytes:
        """The value for %v: one line per selected value, or indented JSON."""
        if record.value is None:
            return b""
        value = self._decoded(record)
        found = [value] if self.path is None else self.path.select(value)
        if not found:
            raise _NothingSelected
        return "\n".join(map(self._text, found)).encode()

    def _text(self, value: Any) -> str:
        if isinstance(value, str):
            return escape_lines(value) if self.for_terminal else value
        text = json.dumps(value, ensure_ascii=self.for_terminal, indent=2 if self.is_pretty else None)
        return coloured_json(text) if self.is_pretty and self.is_coloured else text


class _NothingSelected(Exception):
    """A path with `[]` found no element: a record without lines."""


class _Undecodable(Exception):
    """The message says why."""


def _read_avro(avro: Avro, data: bytes) -> Any:
    """A value without a container, or behind the header of a schema registry."""
    starts = (0, CONFLUENT_HEADER_BYTES) if data[:1] == b"\0" else (0,)
    reason = ""
    for start in starts:
        try:
            return _plain(avro.decode(data[start:], ""))
        except Exception as error:  # noqa: BLE001 - the decoder raises whatever the bytes provoke
            reason = reason or f"{type(error).__name__}: {error}"
    raise _Undecodable(f"the value does not match the Avro schema ({reason})")


def _plain(value: Any) -> Any:
    """Values that JSON does not have become text."""
    return json.loads(json.dumps(value, default=_as_text))


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def grep_condition(pattern: str) -> Condition:
    """Records whose key, value or a header matches. Linear time, whatever the pattern. Raises click's usage error."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        matcher = re2.compile(pattern.encode(), options)
    except re2.error as error:
        raise click.BadParameter(
            f"{pattern!r} is not a regular expression: {error}.", param_hint="'--grep'"
        ) from error

    def matches(record: RecordView) -> bool:
        parts = [record.key, record.value, *(value for _, value in record.headers)]
        return any(part is not None and matcher.search(part) is not None for part in parts)

    return matches


def _load_avro(path: Path) -> Avro:
    import_module("fastavro")  # if it is missing, the command line names the extra
    return Avro(path)


def make_show(
    *,
    output: str,
    template: str | None = None,
    grep: str | None = None,
    avro: Path | None = None,
    path: str | None = None,
    is_pretty: bool = False,
) -> RecordShow:
    """From the options of a command. Raises click's usage errors."""
    if output != TABLE and template is not None:
        raise click.UsageError(f"--format and {output.upper()} output are mutually exclusive.")
    try:
        fields = None if path is None else parse_path(path)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="'--jq'") from error
    condition = None if grep is None else grep_condition(grep)
    decoder = None if avro is None else _load_avro(avro)
    try:
        return RecordShow(
            output,
            template,
            condition,
            decoder,
            fields,
            is_pretty,
            for_terminal=sys.stdout.isatty(),
            is_coloured=has_colours(),
        )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--format'") from error
