"""Tombstones of an upsert on real Spark: keys of any form remove their row, unreadable ones are dead letters."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from spark.shop import Shop

FRAME = b"\0\0\0\0\7"
CONNECT = {"schema": {"type": "struct"}, "payload": {"id": 5}}
"""A key as Debezium's JSON converter writes it, schema and all."""


def upsert(topic: str, table: str, columns: str, key: list[str], **decode: Any) -> dict[str, Any]:
    return {
        "source": {"topics": [topic]},
        "decode": {"schema": columns, "dead_letters": {"table": f"dead/{table}"}, **decode},
        "sink": {"table": table, "mode": "upsert", "key": key},
    }


def test_keys_of_every_form_remove_their_row(spark: Any, shop: Shop) -> None:
    one, two, words = (shop.topic(name, 1) for name in ("one", "two", "words"))
    project = shop.project(
        {
            "one": upsert(one, "one", "id bigint, name string", ["id"]),
            "two": upsert(two, "two", "shop string, id bigint, name string", ["shop", "id"]),
            "words": upsert(words, "words", "id string, name string", ["id"]),
        }
    )
    shop.put(one, [{"id": number, "name": "n"} for number in range(1, 8)])
    for key in (b"1", b'"2"', b'{"id": 3}', b'{"id": "4"}', json.dumps(CONNECT).encode()):
        shop.put(one, [None], key=key)
    for key in (b"no number", b'{"other": 6}', b"\xff\xfe\x00", b"", b'{"id": 99999999999999999999}'):
        shop.put(one, [None], key=key)
    shop.put(one, [None])
    shop.put(two, [{"shop": "a", "id": 1}, {"shop": "b", "id": 1}])
    shop.put(two, [None], key=b'{"shop": "b", "id": 1}')
    shop.put(two, [None], key=b'{"shop": "a"}')
    shop.put(words, [{"id": "007"}, {"id": "x y"}, {"id": "{"}])
    for key in (b"007", b'"x y"', b'{"a": 1}'):
        shop.put(words, [None], key=key)
    shop.run(spark, project)
    assert sorted(row["id"] for row in shop.rows("one")) == [6, 7]
    dead = [row["reason"] for row in shop.rows("dead/one")]
    assert len(dead) == 6
    assert dead[0] == "the record has no value, and its key does not contain id: no number"
    assert dead[-1] == "the record has no value, and its key does not contain id: it has no key"
    assert [(row["shop"], row["id"]) for row in shop.rows("two")] == [("a", 1)]
    assert [row["reason"] for row in shop.rows("dead/two")] == [
        'the record has no value, and its key does not contain id: {"shop": "a"}'
    ]
    assert [row["id"] for row in shop.rows("words")] == ["{"]
    assert [row["_key"] for row in shop.rows("dead/words")] == [b'{"a": 1}']


def test_avro_keys_are_taken_by_field(spark: Any, shop: Shop) -> None:
    customers = shop.topic("customers", 1)
    field = {"name": "id", "type": "long"}
    key_schema = {"type": "record", "name": "Key", "fields": [field]}
    value_schema = {"type": "record", "name": "Value", "fields": [field, {"name": "name", "type": "string"}]}
    for name, schema in (("key.avsc", key_schema), ("value.avsc", value_schema)):
        (shop.home / name).write_text(json.dumps(schema))

    def avro(schema: dict[str, Any], row: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        return FRAME + out.getvalue()

    how = {"format": "avro", "schema_file": "value.avsc", "key_schema_file": "key.avsc"}
    pipeline = upsert(customers, "now", "", ["id"], **how, framing="confluent")
    del pipeline["decode"]["schema"]
    project = shop.project({"now": pipeline})
    for number in (1, 2, 3):
        shop.put(customers, [avro(value_schema, {"id": number, "name": "n"})], key=b"not Avro")
    shop.put(customers, [None], key=avro(key_schema, {"id": 2}))
    shop.put(customers, [None], key=b"2")
    shop.run(spark, project)
    assert sorted(row["id"] for row in shop.rows("now")) == [1, 3]
    (dead,) = shop.rows("dead/now")
    assert dead["reason"].endswith("does not start with a schema id"), dead["reason"]
