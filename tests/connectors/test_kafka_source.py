"""Topics of a real Kafka as a source.

- *Ranges*: pure, by hypothesis: whatever partitions have, each offset is in one unit.
- *Offsets without records*: marks of transactions and what was rolled back; a reader that waits for them
  would wait for ever.
- *Beginnings*: earliest, latest, since a time; where "latest" was is in the position.
- *What is found later*: records, which are heard of; partitions, and topics that match a pattern.
- *What is lost*: as text, or skipped.
- *Values and columns*: JSON, as they are, Avro and JSON in a registry's wire format; what else is known of a
  record; what cannot be decoded.
"""

import io
import select
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions
from hypothesis import given
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.arrow.schema import with_extra
from pointstamp.connectors.kafka.offset_ranges import offsets_in, range_of, records_in, units_up_to
from pointstamp.connectors.kafka.record_columns import KafkaFormat, OnBad
from pointstamp.connectors.kafka.record_decoding import decode_json, decode_json_schema
from pointstamp.connectors.kafka.source import BEHIND_RECORDS_MAX, KafkaSource, kafka
from pointstamp.connectors.source import Part, Position, Unit, deal
from pointstamp.errors import FlowError, SchemaError, SourceError
from pointstamp.query.intake import Intake
from support.kafka_broker import address, admin, new_topic, put, put_in_transaction

pytestmark = pytest.mark.kafka

SECONDS_MAX = 180.0
NUMBERS = pa.schema([("x", pa.int64())])


def _now(source: KafkaSource, position: Position = None) -> list[Unit]:
    return source.watch(position, available_now=True).poll()


def _rows(source: KafkaSource, units: list[Unit], schema: pa.Schema) -> list[dict[str, Any]]:
    batches = [batch for unit in units for part in unit.parts for batch in source.read(part, schema)]
    assert all(batch.schema == schema for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def _numbers(source: KafkaSource, position: Position = None) -> list[int]:
    return [row["x"] for row in _rows(source, _now(source, position), NUMBERS)]


def _json(*numbers: int) -> list[bytes | None]:
    return [b'{"x": %d}' % number for number in numbers]


PLACES = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2))


@given(st.dictionaries(PLACES, st.tuples(st.integers(0, 50), st.integers(0, 50))), st.integers(1, 20))
def test_units_take_every_offset_once_and_are_not_larger_than_asked(
    partitions: Mapping[tuple[str, int], tuple[int, int]], most: int
) -> None:
    starts = {place: start for place, (start, _) in partitions.items()}
    ends = {place: start + more for place, (start, more) in partitions.items()}
    source = kafka("nowhere:1", ["a", "b"])
    position: Position = None
    taken: list[tuple[str, int, int]] = []
    for unit in units_up_to(starts, ends, most):
        ranges = [range_of(part) for part in unit.parts]
        taken += [(*each.place, offset) for each in ranges for offset in range(each.start, each.stop)]
        position = source.after(position, unit)
        assert sum(each.stop - each.start for each in ranges) <= max(most, len(ranges))
    assert sorted(taken) == sorted((*p, offset) for p in starts for offset in range(starts[p], ends[p]))
    assert offsets_in(position) == {place: end for place, end in ends.items() if end > starts[place]}


def test_a_tick_takes_small_units_together_and_a_large_one_by_itself() -> None:
    source = kafka("nowhere:1", "t", rows_per_tick=10)
    ends = [3, 6, 9, 14, 40, 41]
    units = [
        unit
        for start, stop in zip([0, *ends], ends, strict=False)
        for unit in units_up_to({("t", 0): start}, {("t", 0): stop}, 100)
    ]
    intake = Intake({"in": None}, [], 0, shares={"in": source.share_of_tick})
    intake.offer("in", units)
    sizes = []
    while intake.has_units:
        taken, _ = intake.take()
        sizes.append([int(unit.parts[0].size_bytes) // 200 for unit in taken["in"]])
    assert sizes == [[3, 3, 3], [5], [26], [1]]


def test_a_tick_takes_as_many_bytes_as_it_may_and_a_larger_unit_by_itself() -> None:
    units = [Unit(str(size), (Part(str(size), size),)) for size in (30, 60, 20, 250, 10)]
    for source in (
        kafka("nowhere:1", "t", rows_per_tick=None, bytes_per_tick=100),
        ps.io.files("nowhere", bytes_per_tick=100),
        ps.io.published("nowhere", "counts", bytes_per_tick=100),
    ):
        intake = Intake({"in": source.units_per_tick}, [], 0, shares={"in": source.share_of_tick})
        intake.offer("in", units)
        sizes = []
        while intake.has_units:
            taken, _ = intake.take()
            sizes.append([unit.name for unit in taken["in"]])
        assert sizes == [["30", "60"], ["20"], ["250"], ["10"]]
        with pytest.raises(FlowError, match="bytes_per_tick must be at least 1, got 0"):
            ps.io.files("nowhere", bytes_per_tick=0)


def test_units_have_as_many_records_as_fit_into_the_bytes_of_a_tick() -> None:
    topic = new_topic()
    put(topic, [b"x" * 400] * 50)
    watch = kafka(address(), topic, bytes_per_tick=4_000).watch(None, available_now=True)
    units = watch.poll()
    assert [records_in(unit) for unit in units] == [10] * 5
    assert {part.size_bytes for unit in units for part in unit.parts} == {4_000}


def test_a_partition_stays_at_its_worker() -> None:
    ends = {("t", number): 5 for number in range(4)}
    (unit,) = units_up_to(dict.fromkeys(ends, 0), ends, 100)
    hands = [[[range_of(p).partition for p in hand] for hand in deal(unit.parts, 2, turn)] for turn in (0, 1)]
    assert hands[0] == hands[1]
    assert sorted(map(len, hands[0])) == [2, 2]


def test_offsets_that_hold_no_record_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    topic = new_topic()
    source = kafka(address(), topic)
    put_in_transaction(topic, _json(1, 2))
    put_in_transaction(topic, _json(3), commits=False)
    first = _now(source)
    assert [row["x"] for row in _rows(source, first, NUMBERS)] == [1, 2]
    position = source.after(None, first[0])
    put_in_transaction(topic, _json(4), commits=False)
    nothing = _now(source, position)  # offsets, and no record in them
    assert [unit.name for unit in nothing]
    assert _rows(source, nothing, NUMBERS) == []
    position = source.after(position, nothing[0])
    put(topic, _json(5, 6))
    last = _now(source, position)
    assert [row["x"] for row in _rows(source, last, NUMBERS)] == [5, 6]
    # Each range again, also out of turn.
    again = [[row["x"] for row in _rows(source, units, NUMBERS)] for units in (last, first, nothing, first)]
    assert again == [[5, 6], [1, 2], [], [1, 2]]


def test_a_query_begins_where_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    topic = new_topic(2)
    put(topic, _json(1, 2), timestamp=1_000)
    put(topic, _json(3), partition=1, timestamp=5_000)
    assert _numbers(kafka(address(), topic)) == [1, 2, 3]
    assert _numbers(kafka(address(), topic, starting=2_000)) == [3]
    assert _numbers(kafka(address(), topic, starting=datetime.fromtimestamp(5, UTC))) == [3]
    assert _numbers(kafka(address(), topic, starting=6_000)) == []
    latest = kafka(address(), topic, starting="latest")
    (unit,) = _now(latest)
    position = latest.after(None, unit)
    put(topic, _json(4), timestamp=9_000)
    assert _numbers(latest, position) == [4]


def test_partitions_and_topics_that_are_made_later_are_read_from_their_beginning() -> None:
    topic = new_topic()
    named = kafka(address(), topic, starting="latest", topics_every_seconds=0.0)
    matched = kafka(address(), pattern=f"{topic}(-.*)?", starting="latest", topics_every_seconds=0.0)
    watches = [source.watch(None) for source in (named, matched)]
    try:
        positions = [named.after(None, watch.poll()[0]) for watch in watches]
        assert all(positions)
        admin().create_partitions([NewPartitions(topic, 2)])[topic].result(SECONDS_MAX)
        new_topic(name=f"{topic}-more")
        put(topic, _json(1), partition=1)
        put(f"{topic}-more", _json(2))
        for source, watch, wanted in zip((named, matched), watches, ([1], [1, 2]), strict=True):
            found: list[int] = []
            deadline = time.monotonic() + SECONDS_MAX
            while sorted(found) != wanted:
                assert time.monotonic() < deadline, "what was added is not found"
                found += [row["x"] for row in _rows(source, watch.poll(), NUMBERS)]
    finally:
        for watch in watches:
            watch.close()


def test_a_partition_without_a_record_is_told_of_once_so_that_event_time_waits_for_it() -> None:
    topic = new_topic(2)
    source = kafka(address(), topic)
    assert _now(source) == []
    put(topic, _json(1))
    (unit,) = _now(source)
    assert [(range_of(part).partition, part.size_bytes > 0) for part in unit.parts] == [(0, True), (1, False)]
    position = source.after(None, unit)
    assert position == {topic: [1, 0]}
    assert source.lanes(position) == [part.lane for part in unit.parts]
    put(topic, _json(2))
    assert [len(unit.parts) for unit in _now(source, position)] == [1]


def test_records_that_come_are_heard_of_before_kafka_is_asked() -> None:
    """Also where so many come at once that the consumer at the end leaves them out."""
    topic = new_topic(2)
    source = kafka(address(), topic, look_every_seconds=1e6, rows_per_tick=None, gather_seconds=0.0)
    watch = source.watch(None)
    watch.poll()
    news, found = watch.fileno(), 0
    assert news is not None
    try:
        for sent in (1, BEHIND_RECORDS_MAX + 5, 3):
            for partition in (0, 1):
                put(topic, [b"{}"] * sent, partition)
            found += 2 * sent
            while found:
                assert select.select([news], [], [], SECONDS_MAX)[0], "Kafka's news was not heard"
                found -= sum(map(records_in, watch.poll()))
    finally:
        watch.close()


def test_a_topic_that_is_not_there_is_told() -> None:
    with pytest.raises(SourceError, match=r"has no topic 'not-there'. Create it, or name another"):
        _now(kafka(address(), "not-there"))


def test_what_retention_has_removed_is_said_in_words_or_skipped() -> None:
    topic = new_topic()
    source, patient = kafka(address(), topic), kafka(address(), topic, on_lost="skip")
    put(topic, _json(1, 2, 3))
    (unit,) = _now(source)
    admin().delete_records([TopicPartition(topic, 0, 2)])
    deadline = time.monotonic() + SECONDS_MAX
    while _numbers(source) != [3]:
        assert time.monotonic() < deadline, "records are not removed"
    words = (
        r"topic '.*', partition 0 .* records from offset 0 on are needed, but the first .* is 2: retention"
    )
    with pytest.raises(SourceError, match=words):
        _rows(source, [unit], NUMBERS)
    with pytest.raises(SourceError, match=words):
        _now(source, {topic: [0]})
    assert [row["x"] for row in _rows(patient, [unit], NUMBERS)] == [3]
    assert _numbers(patient, {topic: [0]}) == [3]
    with pytest.raises(SourceError, match=r"the partition ends before offset 3 now. The topic was probably"):
        _now(source, {topic: [9]})


ALL = pa.schema(
    [
        ("x", pa.int64()),
        ("id", pa.int64()),
        ("raw", pa.string()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("at", pa.timestamp("us", "UTC")),
        ("topic", pa.string()),
        ("number", pa.int32()),
        ("offset", pa.int64()),
        ("gone", pa.bool_()),
    ]
)


def test_what_is_known_of_a_record_are_columns_on_demand() -> None:
    topic = new_topic()
    put(topic, [b'{"x": 1}', None], key=b"7", headers=[("h", b"v")], timestamp=1_500)
    columns = {"raw": "value", "headers": "headers", "at": "timestamp", "topic": "topic"}
    more = {"number": "partition", "offset": "offset", "gone": "tombstone"}
    source = kafka(address(), topic, key="id", columns={**columns, **more})
    known = {"headers": [{"key": "h", "value": b"v"}], "at": datetime.fromtimestamp(1.5, UTC), "topic": topic}
    assert _rows(source, _now(source), ALL) == [
        {"x": 1, "id": 7, "raw": '{"x": 1}', **known, "number": 0, "offset": 0, "gone": False},
        {"x": None, "id": 7, "raw": None, **known, "number": 0, "offset": 1, "gone": True},
    ]


def test_what_cannot_be_decoded_goes_where_the_user_says(caplog: pytest.LogCaptureFixture) -> None:
    topic = new_topic()
    put(topic, [*_json(1), b"{", b'{"x": "no"}', *_json(4)])
    with pytest.raises(
        SourceError, match=r"the record at offset 1 cannot be decoded: .* It is b'\{'. 1 more"
    ):
        _numbers(kafka(address(), topic))
    assert _numbers(kafka(address(), topic, on_bad="skip")) == [1, 4]
    assert "from offset 0 to 3, 2 records could not be decoded and were skipped" in caplog.text
    kept = kafka(address(), topic, on_bad="keep", columns={"why": "error", "raw": "value"})
    schema = pa.schema([("x", pa.int64()), ("why", pa.string()), ("raw", pa.binary())])
    rows = _rows(kept, _now(kept), schema)
    assert [(row["x"], row["why"] is None, row["raw"]) for row in rows] == [
        (1, True, b'{"x": 1}'),
        (None, False, b"{"),
        (None, False, b'{"x": "no"}'),
        (4, True, b'{"x": 4}'),
    ]


@given(
    st.lists(
        st.sampled_from([b'{"x":1}', b'{\n"x" : 1}', b"", b"{", b'{"x":1}{"x":1}', b"[1]", None, b"{} 3"])
    )
)
def test_each_value_is_decoded_as_if_it_were_alone(values: list[bytes | None]) -> None:
    good = (b'{"x":1}', b'{\n"x" : 1}')
    found = decode_json(values, NUMBERS)
    assert found.rows.column("x").to_pylist() == [1 if value in good else None for value in values]
    assert sorted(found.problems) == [n for n, v in enumerate(values) if v is not None and v not in good]


def test_json_and_avro_in_a_registrys_wire_format() -> None:
    header = b"\0" + (3).to_bytes(4, "big")
    found = decode_json_schema([header + b'{"x": 1}', b'{"x": 1}', None], NUMBERS)
    assert found.rows.column("x").to_pylist() == [1, None, None]
    assert list(found.problems) == [1]
    written = {"type": "record", "name": "N", "fields": [{"name": "x", "type": "long"}]}
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(written), {"x": 5})
    topic = new_topic()
    put(topic, [header + body.getvalue(), b"\0" + (4).to_bytes(4, "big") + b"?", b"none"])
    avro = kafka(
        address(), topic, format="avro", registry={3: written}, on_bad="keep", columns={"why": "error"}
    )
    rows = _rows(avro, _now(avro), pa.schema([("x", pa.int64()), ("why", pa.string())]))
    assert [row["x"] for row in rows] == [5, None, None]
    assert ["" if row["why"] is None else row["why"][:28] for row in rows] == [
        "",
        "its schema id is 4, which re",
        "it does not begin with the z",
    ]


def test_json_that_is_not_utf8_cannot_be_decoded() -> None:
    values = [b'{"s": "a"}', b'{"s": "caf\xe9"}', b'{"s": "b", "t": "caf\xe9"}']
    found = decode_json(values, pa.schema([("s", pa.string())]))
    assert found.rows.column("s").to_pylist() == ["a", None, None]
    assert found.problems[1] == "it is not UTF-8: byte 0xe9 at position 10"
    assert list(found.problems) == [1, 2]


class Record:
    """A record of a topic, as far as its columns are made of it."""

    def __init__(self, value: bytes, key: bytes | None = None) -> None:
        self._value, self._key = value, key

    def value(self) -> bytes:
        return self._value

    def key(self) -> bytes | None:
        return self._key

    def offset(self) -> int:
        return 7


AVRO = {
    "type": "record",
    "name": "N",
    "fields": [{"name": "x", "type": "long"}, {"name": "__op", "type": "string"}],
}


def avro(row: dict[str, object]) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(AVRO), row)
    return b"\0" + (3).to_bytes(4, "big") + body.getvalue()


@pytest.mark.parametrize("on_bad", ["error", "skip", "drop"])
@pytest.mark.parametrize(
    ("format_name", "values"),
    [
        ("json", [b'{"x": 1}', b'{"x": 2, "__op": "d"}']),
        ("json", [b'{"x": 1, "__OP": "d"}']),
        ("json", [b'{"x": 1}', b'{"x": 2, "is_deleted": true}']),
        ("json_schema", [b"\0\0\0\0\3" + b'{"x": 1, "__op": "d"}']),
        ("avro", [avro({"x": 1, "__op": "d"})]),
    ],
)
def test_an_undeclared_change_of_a_record_is_an_error_whatever_becomes_of_bad_ones(
    format_name: KafkaFormat, values: list[bytes], on_bad: OnBad
) -> None:
    more: dict[str, Any] = {"registry": {3: AVRO}} if format_name == "avro" else {}
    columns = kafka("nowhere:1", "t", format=format_name, on_bad=on_bad, **more).columns
    records: Any = [Record(value) for value in values]
    with pytest.raises(SchemaError, match=r"topic: the rows have a column '(__op|__OP|is_deleted)', which"):
        columns.rows(records, NUMBERS, "topic")
    rows, _ = columns.rows(records, with_extra(NUMBERS, "ignore"), "topic")
    assert rows.column("x").to_pylist() == [1, 2][: len(values)]
    assert rows.schema.metadata is None


def test_a_change_that_is_declared_for_the_key_may_be_in_the_value() -> None:
    columns = kafka("nowhere:1", "t", key="op").columns
    records: Any = [Record(b'{"x": 1, "op": "d"}', b"d")]
    rows, _ = columns.rows(records, pa.schema([("x", pa.int64()), ("op", pa.string())]), "topic")
    assert rows.to_pylist() == [{"x": 1, "op": "d"}]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "expected either topic names or pattern="),
        ({"topics": "t", "starting": "now"}, "starting must be 'earliest', 'latest', a datetime or"),
        ({"topics": "t", "format": "xml"}, "format must be one of json, raw, avro, json_schema, protobuf, "),
        (
            {"topics": "t", "columns": ["ofset"]},
            "must ask for fields of a record .key, value, headers.* got 'ofset'",
        ),
        ({"topics": "t", "on_bad": "keep"}, r"Ask for it: columns=\{'why': 'error'"),
        ({"topics": "t", "format": "avro"}, "format='avro' needs registry="),
        ({"topics": "t", "rows_per_tick": 0}, "rows_per_tick must be at least 1, got 0"),
    ],
)
def test_what_cannot_work_is_refused_at_once(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(FlowError, match=words):
        kafka("nowhere:1", **arguments)
