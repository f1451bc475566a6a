"""Message classes generated from schemas: one slots class per struct, shared by all versions.

Type checkers see these classes through `messages.pyi`, which `make stubs` writes from the same schemas.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar, dataclass_transform

from penstock.wire.kafka.notation import Schema, SchemaField, Struct

UNSET: Any = object()
"""Placeholder for a fresh default, if the default is a list or a struct."""

Buffer = bytes | bytearray | memoryview
"""The type of a bytes field: a slice of the frame when decoded, any buffer when encoded."""


class StoredRecords(Protocol):
    """Record data stored elsewhere, such as a slice of a file: only its length matters here."""

    @property
    def length(self) -> int:
        """The size in bytes."""
        ...


Part = Buffer | StoredRecords
"""Part of a response: bytes, or stored record data to send without copying."""


@dataclass_transform(kw_only_default=True)
class KafkaMessage:
    """Base of all messages and their structs: printed and compared by their fields."""

    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


ResponseT = TypeVar("ResponseT", bound=KafkaMessage)


class KafkaRequest(KafkaMessage, Generic[ResponseT]):
    """A request whose response has type ResponseT."""

    __slots__ = ()


_classes: dict[str, dict[str, type[KafkaMessage]]] = {}


def classes_of(schema: Schema) -> dict[str, type[KafkaMessage]]:
    """The classes of a message and its structs, by name. Created on first use."""
    made = _classes.get(schema.name)
    if made is None:
        made = _classes[schema.name] = _make_classes(schema)
    return made


def default_source(field: SchemaField) -> str:
    """The Python expression of a field's default.

    A tagged struct defaults to None (absent): a struct of defaults would not be sent either.
    """
    if field.default is None or (field.struct is not None and field.tag is not None and not field.is_array):
        return "None"
    if field.is_array:
        return "[]"
    if field.struct is not None:
        return f"{field.type}()"
    return repr(field.default)


def _make_classes(schema: Schema) -> dict[str, type[KafkaMessage]]:
    """The structs become attributes of the message's class, however deep they are nested on the wire:
    `ProduceRequest.TopicProduceData`, `ProduceRequest.PartitionProduceData`.
    """
    namespace: dict[str, Any] = {"UNSET": UNSET}
    structs = (schema.root, *schema.structs.values())
    classes = {struct.name: _make_class(schema, struct, namespace) for struct in structs}
    namespace.update(classes)
    for name in schema.structs:
        setattr(classes[schema.name], name, classes[name])
    return classes


def _make_class(schema: Schema, struct: Struct, namespace: dict[str, Any]) -> type[KafkaMessage]:
    names = tuple(field.name for field in struct.fields)
    members: dict[str, Any] = {"__slots__": names, "__module__": "penstock.wire.kafka.messages"}
    if struct is not schema.root:
        members["__qualname__"] = f"{schema.name}.{struct.name}"
    if names:
        members["__init__"] = _make_init(struct, namespace)
    is_request = struct is schema.root and schema.name.endswith("Request")
    return type(struct.name, (KafkaRequest if is_request else KafkaMessage,), members)


def _make_init(struct: Struct, namespace: dict[str, Any]) -> Any:
    arguments, body = [], []
    for field in struct.fields:
        default = default_source(field)
        name = field.name
        if default.endswith(("[]", "()")):
            arguments.append(f"{name}=UNSET")
            body.append(f"    self.{name} = {default} if {name} is UNSET else {name}")
        else:
            arguments.append(f"{name}={default}")
            body.append(f"    self.{name} = {name}")
    source = "\n".join([f"def __init__(self, *, {', '.join(arguments)}):", *body])
    made: dict[str, Any] = {}
    exec(compile(source, f"<{struct.name}>", "exec"), namespace, made)
    return made["__init__"]
