"""Writes `wire/kafka/messages.pyi`, the types of Kafka's messages, from the field tables.

    python tools/kafka_stubs.py

The classes are made from the tables at run time, where no type checker can see them. The file is committed; a test
compares it with the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from penstock.wire.kafka.api import API, Api
from penstock.wire.kafka.classes import default_source
from penstock.wire.kafka.notation import NEVER, Schema, SchemaField, Struct

STUB = Path(__file__).resolve().parent.parent / "src/penstock/wire/kafka/messages.pyi"
LINE_CHARACTERS_MAX = 110

HEADER = '''\
"""Kafka's messages as type checkers see them. Written by `make stubs` from the field tables: do not edit.

The comment after a field names the versions that have it, if some lack it. `None` is allowed where any version
allows it.
"""

from penstock.wire.kafka.classes import Buffer, KafkaMessage, KafkaRequest, Part
'''

TYPES = {
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "Buffer",
}
"""Python's types for the types of the notation; all others are integers."""


def stub_text() -> str:
    """The whole file."""
    pieces = [HEADER]
    for api in API.values():  # the response first: its request refers to it
        pieces += ["\n".join(message_lines(api, schema)) + "\n" for schema in (api.response, api.request)]
    return "\n".join(pieces)


def message_lines(api: Api, schema: Schema) -> Iterator[str]:
    """One message with its structs."""
    base = f"KafkaRequest[{api.name}Response]" if schema is api.request else "KafkaMessage"
    yield f"class {schema.name}({base}):"
    yield f'    """API {int(api.key)}, versions {api.version_min} to {api.version_max}."""'
    if schema.root.fields:
        yield ""
    yield from field_lines(schema, schema.root, "    ")
    for struct in schema.structs.values():
        yield ""
        yield f"    class {struct.name}(KafkaMessage):"
        yield from field_lines(schema, struct, "        ")


def field_lines(schema: Schema, struct: Struct, indent: str) -> Iterator[str]:
    for field in struct.fields:
        default = default_source(field)
        is_shown = not default.endswith(("[]", "()")) and field.type not in ("uuid", "records")
        shown = default.replace("'", '"') if is_shown else "..."
        line = f"{indent}{field.name}: {type_source(schema, field)} = {shown}"
        versions = version_text(schema, field)
        if versions and len(line) + len(versions) + 5 <= LINE_CHARACTERS_MAX:
            line += f"  # {versions}"
        yield line


def type_source(schema: Schema, field: SchemaField) -> str:
    """The annotation of a field."""
    if field.struct is not None:
        kind = f"{schema.name}.{field.type}"
    elif field.type == "records":
        kind = "memoryview" if schema.name.endswith("Request") else "Part"
    else:
        kind = TYPES.get(field.type, "int")
    if field.is_array:
        kind = f"list[{kind}]"
    return f"{kind} | None" if is_nullable(field) else kind


def is_nullable(field: SchemaField) -> bool:
    """May the field hold None in any version? A tagged struct may: None means that it is absent."""
    return field.null_from != NEVER or default_source(field) == "None"


def version_text(schema: Schema, field: SchemaField) -> str:
    """The versions of the message that have this field; empty if all have it."""
    low, high = max(field.version_min, schema.version_min), min(field.version_max, schema.version_max)
    if (low, high) == (schema.version_min, schema.version_max):
        return ""
    return f"v{low}+" if high == schema.version_max else f"v{low}-{high}"


if __name__ == "__main__":
    STUB.write_text(stub_text())
