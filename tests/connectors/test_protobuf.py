"""Values in Protobuf.

- *Fields*: what each kind of field becomes, compared with what a message was made of.
- *Wire format*: bytes that were put together by hand, with and without a registry's header.
- *Bad values*: each is told with its place, and the others are decoded.
- *A topic*: of a real broker, with the descriptors in a file.
- *Mistakes*: rejected with an error when the source is made, or when its columns are known.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from pointstamp.connectors.kafka.record_decoding import ProtobufDecoder
from pointstamp.errors import FlowError, SchemaError
from pointstamp.io import kafka
from support.kafka_broker import address, new_topic, put

FIELD = descriptor_pb2.FieldDescriptorProto
ONE, MANY = FIELD.LABEL_OPTIONAL, FIELD.LABEL_REPEATED


def _files() -> descriptor_pb2.FileDescriptorSet:
    """A file of proto3 with the messages Other and Order; in Order are Line and a map's entry."""
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto",
        package="shop",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"],
    )
    file.message_type.add(name="Other").field.add(name="x", number=1, type=FIELD.TYPE_INT64, label=ONE)
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    line.field.add(name="item", number=1, type=FIELD.TYPE_STRING, label=ONE)
    line.field.add(name="count", number=2, type=FIELD.TYPE_INT32, label=ONE)
    entry = order.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=FIELD.TYPE_STRING, label=ONE)
    entry.field.add(name="value", number=2, type=FIELD.TYPE_DOUBLE, label=ONE)
    state = file.enum_type.add(name="State")
    for number, name in enumerate(("NEW", "PAID")):
        state.value.add(name=name, number=number)
    plain = {
        "id": FIELD.TYPE_UINT64,
        "price": FIELD.TYPE_SINT64,
        "paid": FIELD.TYPE_BOOL,
        "photo": FIELD.TYPE_BYTES,
    }
    for number, (name, kind) in enumerate(plain.items(), 1):
        order.field.add(name=name, number=number, type=kind, label=ONE)
    order.field.add(name="state", number=5, type=FIELD.TYPE_ENUM, type_name=".shop.State", label=ONE)
    named = {"type": FIELD.TYPE_MESSAGE, "type_name": ".shop.Order.Line"}
    order.field.add(name="first", number=6, label=ONE, **named)
    order.field.add(name="lines", number=7, label=MANY, **named)
    order.field.add(name="sizes", number=8, type=FIELD.TYPE_INT32, label=MANY)
    named["type_name"] = ".shop.Order.TagsEntry"
    order.field.add(name="tags", number=9, label=MANY, **named)
    named["type_name"] = ".google.protobuf.Timestamp"
    order.field.add(name="at", number=10, label=ONE, **named)
    named["type_name"] = ".google.protobuf.StringValue"
    order.field.add(name="note", number=11, label=ONE, **named)
    order.oneof_decl.add(name="_rank")
    order.field.add(
        name="rank", number=12, type=FIELD.TYPE_INT32, label=ONE, proto3_optional=True, oneof_index=0
    )
    needed = []
    for module in (timestamp_pb2, wrappers_pb2):
        copied = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(copied)
        needed.append(copied)
    return descriptor_pb2.FileDescriptorSet(file=[*needed, file])


FILES = _files()
DESCRIPTORS: bytes = FILES.SerializeToString()
LINE = pa.struct([("item", pa.string()), ("count", pa.int64())])
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "price": pa.int64(),
        "paid": pa.bool_(),
        "photo": pa.binary(),
        "state": pa.string(),
        "first": LINE,
        "lines": pa.list_(LINE),
        "sizes": pa.list_(pa.int64()),
        "tags": pa.map_(pa.string(), pa.float64()),
        "at": pa.timestamp("us", "UTC"),
        "note": pa.string(),
        "rank": pa.int64(),
    }
)


def _class(name: str) -> Any:  # noqa: ANN401 - as the package has it
    pool = DescriptorPool()
    for file in FILES.file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))


def _decoder(message: str = "shop.Order", *, has_header: bool = False) -> ProtobufDecoder:
    return ProtobufDecoder(DESCRIPTORS, message, has_header)


def test_each_kind_of_field_is_the_value_that_it_was_made_of() -> None:
    whole = _class("shop.Order")(
        id=7,
        price=-3,
        paid=True,
        photo=b"\0\xff",
        state=1,
        first={"item": "pen", "count": 2},
        lines=[{"item": "ink"}, {"count": 4}],
        sizes=[3, 1],
        tags={"a": 0.5, "b": 2.0},
        note={"value": "soon"},
        rank=0,
    )
    whole.at.FromDatetime(datetime(2026, 5, 1, 12, 0, 0, 250, tzinfo=UTC))
    empty = _class("shop.Order")()
    found = _decoder()([whole.SerializeToString(), None, empty.SerializeToString()], SCHEMA)
    assert not found.problems
    first, missing, second = found.rows.to_pylist()
    assert {**first, "tags": dict(first["tags"])} == {
        "id": 7,
        "price": -3,
        "paid": True,
        "photo": b"\0\xff",
        "state": "PAID",
        "first": {"item": "pen", "count": 2},
        "lines": [{"item": "ink", "count": 0}, {"item": "", "count": 4}],
        "sizes": [3, 1],
        "tags": {"a": 0.5, "b": 2.0},
        "at": datetime(2026, 5, 1, 12, 0, 0, 250, tzinfo=UTC),
        "note": "soon",
        "rank": 0,
    }
    assert missing == dict.fromkeys(SCHEMA.names)
    absent = {"first": None, "at": None, "note": None, "rank": None}
    zeros = {"id": 0, "price": 0, "paid": False, "photo": b"", "state": "NEW"}
    assert second == {**zeros, "lines": [], "sizes": [], "tags": [], **absent}


def test_an_enum_is_its_number_where_that_is_declared_and_one_that_is_not_known_too() -> None:
    values = [b"\x28\x01", b"\x28\x09"]  # field 5, a varint
    numbers = _decoder()(values, pa.schema([("state", pa.int64())]))
    names = _decoder()(values, pa.schema([("state", pa.string())]))
    assert numbers.rows.column("state").to_pylist() == [1, 9]
    assert names.rows.column("state").to_pylist() == ["PAID", "9"]


NUMBER = pa.schema([("x", pa.int64())])
LINES = pa.schema([("item", pa.string())])
FIVE = b"\x08\x05"  # field 1, a varint
HEADER = b"\0" + (3).to_bytes(4, "big")


def test_a_registrys_header_says_which_message_of_its_file_it_is() -> None:
    values = [HEADER + b"\0" + FIVE, HEADER + b"\x02\0" + FIVE, HEADER + b"\x02\x02" + FIVE, FIVE, HEADER]
    found = _decoder("shop.Other", has_header=True)(values, NUMBER)
    assert found.rows.column("x").to_pylist() == [5, 5, None, None, None]
    assert {place: words[:28] for place, words in found.problems.items()} == {
        2: "it is message [1] of its fil",
        3: "it does not begin with the z",
        4: "it ends inside its message i",
    }
    nested = _decoder("shop.Order.Line", has_header=True)([HEADER + b"\x04\x02\0" + b"\x0a\x01a"], LINES)
    assert nested.rows.column("item").to_pylist() == ["a"]


def test_what_cannot_be_decoded_or_does_not_fit_is_told_with_its_place() -> None:
    too_large = _class("shop.Order")(id=2**63).SerializeToString()
    good = [_class("shop.Order")(id=number).SerializeToString() for number in range(3)]
    values = [good[0], b"\x0a", good[1], too_large, good[2]]
    found = _decoder()(values, pa.schema([("id", pa.int64())]))
    assert found.rows.column("id").to_pylist() == [0, None, 1, None, 2]
    assert sorted(found.problems) == [1, 3]
    wrong = _decoder()([_class("shop.Order")(sizes=[1]).SerializeToString()], pa.schema([("sizes", LINE)]))
    assert wrong.problems == {0: f"its field 'sizes' is repeated, but the column is {LINE}"}


@pytest.mark.kafka
def test_a_topic_is_read_with_the_descriptors_of_a_file(tmp_path: Path) -> None:
    file, topic = tmp_path / "shop.desc", new_topic()
    file.write_bytes(DESCRIPTORS)
    put(topic, [FIVE, b"\x08", None])
    settings: dict[str, Any] = {"format": "protobuf", "message": "shop.Other", "descriptors": file}
    source = kafka(address(), topic, on_bad="keep", columns={"why": "error"}, **settings)
    file.unlink()  # workers get what was read
    (unit,) = source.watch(None, available_now=True).poll()
    rows = [
        row
        for part in unit.parts
        for batch in source.read(part, pa.schema([("x", pa.int64()), ("why", pa.string())]))
        for row in batch.to_pylist()
    ]
    assert [row["x"] for row in rows] == [5, None, None]
    assert [row["why"] is None for row in rows] == [True, False, True]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"format": "protobuf"}, "need message=, a message's full name, and descriptors="),
        ({"message": "shop.Order"}, "other formats accept neither"),
        ({"format": "protobuf", "message": "Order", "descriptors": DESCRIPTORS}, "have no message 'Order'"),
        ({"format": "protobuf", "message": "x", "descriptors": b"no"}, "have no message 'x'"),
        ({"format": "protobuf", "message": "x", "descriptors": "/not/there"}, "'/not/there' cannot be read"),
    ],
)
def test_what_cannot_work_is_refused_when_the_source_is_made(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(FlowError, match=words):
        kafka("nowhere:1", "t", **arguments)


def test_a_column_that_the_message_does_not_have_is_refused() -> None:
    with pytest.raises(SchemaError, match="has no field 'cost'; it has id, price, paid"):
        _decoder()([b""], pa.schema([("cost", pa.int64())]))


def test_a_decoder_tells_all_fields_of_its_message() -> None:
    found = _decoder()([_class("shop.Order")(id=1).SerializeToString()], pa.schema([("id", pa.int64())]))
    assert found.rows.to_pylist() == [{"id": 1}]
    assert found.keys == tuple(SCHEMA.names)
