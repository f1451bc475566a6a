"""Generates the decoder of one message in one version, as Python source.

Guarantees of the generated code: a length or count is checked against the remaining bytes before anything is allocated;
payloads are slices, not copies; adjacent fixed-width fields cost one unpack; any error raises `Malformed`. The sliced
form is a generator that yields its cost periodically and returns the message.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any

from penstock.core.errors import Malformed
from penstock.core.limits import CODEC_ELEMENTS_PER_YIELD, CODEC_UNITS_PER_YIELD, MESSAGE_ELEMENTS_MAX
from penstock.wire.kafka import primitives
from penstock.wire.kafka.classes import Buffer, KafkaMessage, default_source
from penstock.wire.kafka.notation import FIXED, Schema, SchemaField, Struct
from penstock.wire.kafka.source import SourceText

Decoder = Callable[[Buffer, int], Any]
SlicedDecoder = Callable[[Buffer, int], Generator[int, None, Any]]

_RUNTIME: dict[str, Any] = {
    "Malformed": Malformed,
    "StructError": struct.error,
    "finish_varint": primitives.finish_varint,
    "new": object.__new__,
    "overrun": primitives.overrun,
    "read_varint": primitives.read_varint,
    "skip_tags": primitives.skip_tags,
    "too_many": primitives.too_many,
    "unexpected_null": primitives.unexpected_null,
    "unpack_from": struct.unpack_from,
}


def make_decoder(
    schema: Schema,
    version: int,
    classes: dict[str, type[KafkaMessage]],
    elements_max: int = MESSAGE_ELEMENTS_MAX,
) -> Decoder:
    """Compile `decode(frame, position) -> message`. A response must end where its frame ends.

    A request need not: Kafka ignores trailing bytes, and librdkafka sends some after Metadata.
    """
    decode: Decoder = _compile(_Writer(schema, version, elements_max), classes)
    return decode


def make_sliced_decoder(
    schema: Schema, version: int, classes: dict[str, type[KafkaMessage]], elements_max: int
) -> SlicedDecoder:
    """The same decoder as a generator, which pauses between elements."""
    decode: SlicedDecoder = _compile(_Writer(schema, version, elements_max, is_sliced=True), classes)
    return decode


def _compile(writer: _Writer, classes: dict[str, type[KafkaMessage]]) -> Any:
    source = writer.write()
    namespace = {**_RUNTIME, **classes, **writer.constants}
    exec(compile(source, f"<decode {writer.schema.name} v{writer.version}>", "exec"), namespace)
    return namespace["decode"]


def encoded_bytes_min(field: SchemaField, version: int, flexible: bool) -> int:
    """The minimum encoded size of one value of this field, or one element of an array."""
    if field.struct is not None:
        return struct_bytes_min(field.struct, version, flexible)
    if field.type in FIXED:
        return FIXED[field.type][1]
    return 1 if flexible else 2 if field.type == "string" else 4


def struct_bytes_min(struct: Struct, version: int, flexible: bool) -> int:
    """The minimum encoded size of a struct."""
    total = 1 if flexible else 0
    for field in struct.fields:
        if not field.present(version) or field.tag is not None:
            continue
        if field.is_array:
            total += 1 if flexible else 4
        elif field.struct is not None and field.nullable(version):
            total += 1
        else:
            total += encoded_bytes_min(field, version, flexible)
    return total


class _Writer(SourceText):
    """Writes one function. `run` collects fixed-width values to unpack together: (target, format, bytes)."""

    def __init__(self, schema: Schema, version: int, elements_max: int, is_sliced: bool = False) -> None:
        super().__init__()
        self.schema = schema
        self.version = version
        self.elements_max = elements_max
        self.is_sliced = is_sliced
        self.flexible = version >= schema.flexible_from
        self.constants: dict[str, Any] = {}
        self.run: list[tuple[str, str, int]] = []

    def write(self) -> str:
        self.emit("def decode(buf, pos):")
        self.depth = 1
        self.emit("if type(buf) is not memoryview: buf = memoryview(buf)")
        self.emit("end = len(buf)")
        self.emit(f"left = {self.elements_max}")
        if self.is_sliced:
            self.emit(f"turn = {CODEC_ELEMENTS_PER_YIELD}")
            self.emit("yield 0")
        with self.block("try:"):
            self.struct(self.schema.root, self.make(self.schema.root))
            self.flush()
        title = f"{self.schema.name} v{self.version}"
        with self.block("except (StructError, IndexError):"):
            self.emit(f"raise Malformed('{title} is cut short') from None")
        with self.block("except UnicodeDecodeError as error:"):
            self.emit(f"raise Malformed(f'{title}: not UTF-8: {{error}}') from None")
        if not self.schema.name.endswith("Request"):
            with self.block("if pos != end:"):
                self.emit(f"raise Malformed(f'{title}: {{end - pos}} bytes too many')")
        self.emit("return o1")
        return "\n".join(self.lines)

    def make(self, struct: Struct) -> str:
        name = self.name("o")
        self.emit(f"{name} = new({struct.name})")
        return name

    def fixed(self, target: str, letters: str, size: int) -> None:
        self.run.append((target, letters, size))

    def flush(self) -> None:
        """Unpack the collected values at once."""
        run, self.run = self.run, []
        if not run:
            return
        letters = ">" + "".join(item[1] for item in run)
        if letters == ">B":
            self.emit(f"{run[0][0]} = buf[pos]; pos += 1")
            return
        unpack = "unpack_" + letters[1:].replace("?", "t")
        self.constants[unpack] = struct.Struct(letters).unpack_from
        targets = ", ".join(item[0] for item in run)
        comma = "," if len(run) == 1 else ""
        self.emit(f"{targets}{comma} = {unpack}(buf, pos); pos += {sum(item[2] for item in run)}")

    def struct(self, struct: Struct, target: str) -> None:
        """All fields of a struct, then its tagged fields."""
        tagged = []
        for field in struct.fields:
            place = f"{target}.{field.name}"
            if not field.present(self.version):
                self.emit(f"{place} = {default_source(field)}")
            elif field.tag is not None:
                self.emit(f"{place} = {default_source(field)}")
                tagged.append(field)
            else:
                self.field(field, place)
        if self.flexible:
            self.tags(tagged, target)

    def field(self, field: SchemaField, target: str) -> None:
        nullable = field.nullable(self.version)
        if field.is_array:
            self.array(field, target, nullable)
        elif field.struct is None:
            self.scalar(field, target, nullable)
        elif nullable:
            mark = self.name("n")
            self.fixed(mark, "b", 1)
            self.flush()
            with self.block(f"if {mark} < 0:"):
                self.emit(f"{target} = None")
            with self.block("else:"):
                self.nested(field.struct, target)
                self.flush()
        else:
            self.nested(field.struct, target)

    def nested(self, struct: Struct, target: str) -> None:
        name = self.make(struct)
        self.emit(f"{target} = {name}")
        self.struct(struct, name)

    def scalar(self, field: SchemaField, target: str, nullable: bool) -> None:
        if field.type in FIXED:
            self.fixed(target, *FIXED[field.type])
            return
        count, stop = self.length("h" if field.type == "string" else "i"), self.name("e")
        value = f"buf[pos:{stop}]" + (".tobytes().decode()" if field.type == "string" else "")
        with self.block(f"if {count} >= 0:"):
            self.emit(f"{stop} = pos + {count}")
            self.emit(f"if {stop} > end: raise overrun('{field.name}', {count}, pos)")
            self.emit(f"{target} = {value}; pos = {stop}")
        self.null(field, target, nullable, count)

    def length(self, letter: str) -> str:
        """Read a length or count into a new name, -1 for null."""
        count = self.name("n")
        if self.flexible:
            self.fixed(count, "B", 1)
            self.flush()
            self.emit(f"if {count} > 127: {count}, pos = finish_varint(buf, pos, {count})")
            self.emit(f"{count} -= 1")
        else:
            self.fixed(count, letter, 2 if letter == "h" else 4)
            self.flush()
        return count

    def null(self, field: SchemaField, target: str, nullable: bool, count: str) -> None:
        if nullable:
            self.emit(f"elif {count} == -1: {target} = None")
        self.emit(f"else: raise unexpected_null('{field.name}', pos)")

    def array(self, field: SchemaField, target: str, nullable: bool) -> None:
        count, items = self.length("i"), self.name("l")
        size = encoded_bytes_min(field, self.version, self.flexible)
        assert size > 0, f"{self.schema.name}.{field.name}: elements without bytes"
        with self.block(f"if {count} > 0:"):
            self.emit(f"if {count} * {size} > end - pos: raise overrun('{field.name}', {count}, pos)")
            self.emit(f"left -= {count}")
            self.emit(f"if left < 0: raise too_many('{field.name}', pos, {self.elements_max})")
            if field.type in FIXED and field.type != "uuid":
                letter, size = FIXED[field.type]
                self.emit(f"{target} = list(unpack_from(f'>{{{count}}}{letter}', buf, pos))")
                self.emit(f"pos += {count} * {size}")
            else:
                self.emit(f"{target} = {items} = []")
                with self.block(f"for _ in range({count}):"):
                    if self.is_sliced:
                        self.pause(CODEC_ELEMENTS_PER_YIELD, CODEC_UNITS_PER_YIELD)
                    self.element(field, items)
                    self.flush()
        self.emit(f"elif {count} == 0: {target} = []")
        self.null(field, target, nullable, count)

    def element(self, field: SchemaField, items: str) -> None:
        if field.struct is not None:
            name = self.make(field.struct)
            self.emit(f"{items}.append({name})")
            self.struct(field.struct, name)
            return
        name = self.name("v")
        self.scalar(field, name, nullable=False)
        self.flush()
        self.emit(f"{items}.append({name})")

    def tags(self, known: list[SchemaField], target: str) -> None:
        count = self.name("t")
        self.fixed(count, "B", 1)
        self.flush()
        with self.block(f"if {count}:"):
            self.emit(f"if {count} > 127: {count}, pos = finish_varint(buf, pos, {count})")
            self.emit(f"if {count} * 2 > end - pos: raise overrun('tagged fields', {count}, pos)")
            self.emit(f"left -= {count}")
            self.emit(f"if left < 0: raise too_many('tagged fields', pos, {self.elements_max})")
            if known:
                self.known_tags(known, target, count)
            else:
                self.emit(f"pos = skip_tags(buf, pos, {count})")

    def known_tags(self, known: list[SchemaField], target: str, count: str) -> None:
        number, stop = self.name("k"), self.name("e")
        with self.block(f"for _ in range({count}):"):
            self.emit(f"{number}, pos = read_varint(buf, pos)")
            self.emit(f"{stop}, pos = read_varint(buf, pos); {stop} += pos")
            self.emit(f"if {stop} > end: raise overrun('tagged field', {stop} - pos, pos)")
            word = "if"
            for field in known:
                with self.block(f"{word} {number} == {field.tag}:"):
                    self.field(field, f"{target}.{field.name}")
                    self.flush()
                word = "elif"
            self.emit(f"else: pos = {stop}")
            with self.block(f"if pos != {stop}:"):
                self.emit(f"raise Malformed(f'tagged field {{{number}}} does not end at byte {{{stop}}}')")
