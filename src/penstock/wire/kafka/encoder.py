"""Generates the encoder of one message in one version, as Python source.

Guarantees of the generated code: adjacent fixed-width fields cost one pack; record payloads are not copied; a value
that this version cannot carry (an illegal null, a number out of range, a field that the version lacks and that is not
ignorable) is a bug in the caller and raises `AssertionError`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any

from penstock.core.limits import CODEC_ELEMENTS_PER_YIELD, CODEC_UNITS_PER_YIELD, RECORDS_COPIED_BYTES_MAX
from penstock.wire.kafka.notation import FIXED, Schema, SchemaField, Struct
from penstock.wire.kafka.primitives import write_varint
from penstock.wire.kafka.source import SourceText

Encoder = Callable[[Any, list[Any], list[int]], None]
"""`encode(message, parts, cuts)` appends to `parts`, and to `cuts` the index of each uncopied part."""

SlicedEncoder = Callable[[Any, list[Any], list[int]], Generator[int, None, None]]
"""The same as a generator, which pauses between elements and yields its cost."""

_RUNTIME: dict[str, Any] = {
    "BUFFERS": (bytes, bytearray, memoryview),
    "BYTE": [bytes([i]) for i in range(128)],
    "StructError": struct.error,
    "pack": struct.pack,
    "write_varint": write_varint,
}


def make_encoder(schema: Schema, version: int) -> Encoder:
    """Compile the encoder. All parts are bytes, except record payloads, which are not copied."""
    encode: Encoder = _compile(_Writer(schema, version))
    return encode


def make_sliced_encoder(schema: Schema, version: int) -> SlicedEncoder:
    """The same encoder as a generator."""
    encode: SlicedEncoder = _compile(_Writer(schema, version, is_sliced=True))
    return encode


def _compile(writer: _Writer) -> Any:
    source = writer.write()
    namespace = {**_RUNTIME, **writer.constants}
    exec(compile(source, f"<encode {writer.schema.name} v{writer.version}>", "exec"), namespace)
    return namespace["encode"]


def differs_source(field: SchemaField, place: str) -> str:
    """The Python expression that tests whether a field differs from its default."""
    if field.is_array:
        return f"{place} is not None" if field.default is None else place
    if field.struct is not None:
        if field.default is None:
            return f"{place} is not None"
        inner = " or ".join(differs_source(item, f"{place}.{item.name}") for item in field.struct.fields)
        return f"({place} is not None and ({inner}))" if field.tag is not None else f"({inner})"
    if field.default is None:
        return f"{place} is not None"
    return f"{place} != {field.default!r}"


class _Writer(SourceText):
    """Writes one function. `run` collects fixed-width values to pack together: (format, expression)."""

    def __init__(self, schema: Schema, version: int, is_sliced: bool = False) -> None:
        super().__init__()
        self.schema = schema
        self.version = version
        self.is_sliced = is_sliced
        self.flexible = version >= schema.flexible_from
        self.constants: dict[str, Any] = {}
        self.run: list[tuple[str, str]] = []
        self.add = "add"

    def write(self) -> str:
        self.emit("def encode(o, parts, cuts):")
        self.depth = 1
        if self.is_sliced:
            self.emit(f"turn = {CODEC_ELEMENTS_PER_YIELD}")
            self.emit("yield 0")
        with self.block("try:"):
            self.emit("add = parts.append")
            self.struct(self.schema.root, "o")
            self.flush()
        with self.block("except (AttributeError, TypeError, StructError) as error:"):
            self.emit(f"raise AssertionError(f'{self.schema.name} v{self.version}: {{error}}') from error")
        return "\n".join(self.lines)

    def packed(self, run: list[tuple[str, str]]) -> str:
        """The expression that packs a run."""
        letters = "".join(item[0] for item in run)
        if not letters.strip("x"):
            return repr(bytes(len(letters)))
        pack = "pack_" + letters.replace("?", "t")
        self.constants[pack] = struct.Struct(">" + letters).pack
        return f"{pack}({', '.join(item[1] for item in run if item[0] != 'x')})"

    def flush(self) -> None:
        """Pack the collected values at once."""
        run, self.run = self.run, []
        if run:
            self.emit(f"{self.add}({self.packed(run)})")

    def varint(self, value: str) -> None:
        """Pack the collected values together with a varint, which is usually one byte."""
        run, self.run = self.run, []
        if not run:
            self.emit(f"{self.add}(BYTE[{value}] if {value} < 128 else write_varint({value}))")
            return
        self.emit(f"if {value} < 128: {self.add}({self.packed([*run, ('B', value)])})")
        self.emit(f"else: {self.add}({self.packed(run)}); {self.add}(write_varint({value}))")

    def struct(self, struct: Struct, source: str) -> None:
        tagged = []
        for field in struct.fields:
            place = f"{source}.{field.name}"
            if not field.present(self.version):
                if not field.is_ignorable:
                    unfit = differs_source(field, place)
                    self.emit(f"assert not {unfit}, '{field.name} is not in v{self.version}'")
            elif field.tag is not None:
                tagged.append(field)
            else:
                self.field(field, place)
        if not self.flexible:
            return
        if tagged:
            self.tags(sorted(tagged, key=lambda field: field.tag or 0), source)
        else:
            self.run.append(("x", ""))

    def field(self, field: SchemaField, place: str) -> None:
        nullable = field.nullable(self.version)
        if field.is_array:
            self.array(field, place, nullable)
        elif field.struct is None:
            self.scalar(field, place, nullable)
        else:
            name = self.name("o")
            self.emit(f"{name} = {place}")
            if not nullable:
                self.struct(field.struct, name)
                return
            self.flush()
            self.emit(f"if {name} is None: {self.add}(b'\\xff')")
            with self.block("else:"):
                self.run.append(("b", "1"))
                self.struct(field.struct, name)
                self.flush()

    def scalar(self, field: SchemaField, place: str, nullable: bool) -> None:
        if field.type == "uuid":
            self.emit(f"assert len({place}) == 16, '{field.name} is no uuid'")
        if field.type in FIXED:
            self.run.append((FIXED[field.type][0], place))
            return
        value, count = self.name("s"), self.name("n")
        one = " + 1" if self.flexible else ""
        if field.type == "string":
            present = f"{value} = {value}.encode(); {count} = len({value}){one}"
        elif field.type == "records":
            present = f"{count} = (len({value}) if isinstance({value}, BUFFERS) else {value}.length){one}"
        else:
            present = f"{count} = len({value}){one}"
        self.emit(f"{value} = {place}")
        if nullable:
            self.emit(f"if {value} is None: {value} = b''; {count} = {0 if self.flexible else -1}")
            self.emit(f"else: {present}")
        else:
            self.emit(present)
        self.length(count, "h" if field.type == "string" else "i")
        if field.type == "records":
            limit = RECORDS_COPIED_BYTES_MAX + self.flexible
            self.emit(f"if {count} > {limit} or not isinstance({value}, BUFFERS):")
            self.emit("    cuts.append(len(parts))")
        self.emit(f"{self.add}({value})")

    def length(self, count: str, letter: str) -> None:
        if self.flexible:
            self.varint(count)
        else:
            self.run.append((letter, count))
            self.flush()

    def array(self, field: SchemaField, place: str, nullable: bool) -> None:
        items, count = self.name("l"), self.name("n")
        self.emit(f"{items} = {place}")
        one = " + 1" if self.flexible else ""
        if nullable:
            null = 0 if self.flexible else -1
            self.emit(f"if {items} is None: {items} = (); {count} = {null}")
            self.emit(f"else: {count} = len({items}){one}")
        else:
            self.emit(f"{count} = len({items}){one}")
        self.length(count, "i")
        if field.type in FIXED and field.type != "uuid":
            letter = FIXED[field.type][0]
            self.emit(f"if {items}: {self.add}(pack(f'>{{len({items})}}{letter}', *{items}))")
            return
        item = self.name("o")
        with self.block(f"for {item} in {items}:"):
            if self.is_sliced:
                self.pause(CODEC_ELEMENTS_PER_YIELD, CODEC_UNITS_PER_YIELD)
            if field.struct is not None:
                self.struct(field.struct, item)
            else:
                self.scalar(field, item, nullable=False)
            self.flush()

    def tags(self, known: list[SchemaField], source: str) -> None:
        """The tagged fields that differ from their defaults; usually none, encoded as a single zero."""
        conditions = [differs_source(field, f"{source}.{field.name}") for field in known]
        run, self.run = self.run, []
        with self.block(f"if not ({' or '.join(conditions)}):"):
            self.emit(f"{self.add}({self.packed([*run, ('x', '')])})")
        with self.block("else:"):
            self.run = run
            self.flush()
            pieces, count = self.name("p"), self.name("n")
            self.emit(f"{pieces} = []; {count} = 0")
            for field, condition in zip(known, conditions, strict=True):
                with self.block(f"if {condition}:"):
                    self.emit(f"{count} += 1")
                    self.tag(field, source, pieces)
            self.emit(f"{self.add}(write_varint({count})); {self.add}(b''.join({pieces}))")

    def tag(self, field: SchemaField, source: str, pieces: str) -> None:
        inner, value, outer = self.name("q"), self.name("d"), self.add
        self.emit(f"{inner} = []")
        self.add = f"{inner}.append"
        self.field(field, f"{source}.{field.name}")
        self.flush()
        self.add = outer
        self.emit(f"{value} = b''.join({inner})")
        self.emit(f"{pieces} += (write_varint({field.tag}), write_varint(len({value})), {value})")
