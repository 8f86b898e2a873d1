"""Change events of databases and Delta's change feed as tables, and states that say that there are no rows.

- Debezium's events, as columns and as text, with and without the row before, beside a dictionary by hand;
- what is refused: rows that are missing, tables that are truncated, texts that are no events;
- Delta's feed, and empty states.
"""

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError, SchemaError
from support.table_queries import Row, put_out

ROW = "struct<id long, city string>"
STRUCTS = f"op string, before {ROW}, after {ROW}, offset long"
TEXT = "value string, offset long"

History = tuple[list[list[dict[str, Any]]], list[Counter[Row]]]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Events of a database, epoch by epoch, and what is there after each."""
    there: dict[int, str | None] = {}
    epochs, states = [], []
    offset = 0
    for _ in range(draw(st.integers(1, 4))):
        events = []
        for _ in range(draw(st.integers(0, 4))):
            key, city = draw(st.integers(0, 3)), draw(st.sampled_from([None, "x", "y"]))
            before = {"id": key, "city": there[key]} if key in there else None
            after = {"id": key, "city": city} if before is None or draw(st.booleans()) else None
            kind = "d" if after is None else draw(st.sampled_from("cr")) if before is None else "u"
            there.pop(key, None)
            if after is not None:
                there[key] = city
            events.append({"op": kind, "before": before, "after": after, "offset": (offset := offset + 1)})
        epochs.append(events)
        states.append(Counter(there.items()))
    return epochs, states


def as_text(event: dict[str, Any], *, is_wrapped: bool) -> str:
    envelope = {"op": event["op"], "before": event["before"], "after": event["after"], "source": {"lsn": 1}}
    return json.dumps({"schema": {"type": "struct"}, "payload": envelope} if is_wrapped else envelope)


@settings(max_examples=20, deadline=None)
@given(
    history=histories(),
    form=st.sampled_from(["structs", "text", "wrapped"]),
    by_key=st.booleans(),
    w=st.integers(1, 3),
)
def test_events_make_the_table_that_the_database_has(
    history: History, form: str, by_key: bool, w: int
) -> None:
    epochs, states = history
    flow = ps.Dataflow("test")
    options: dict[str, Any] = {"key": "id", "order": "offset"} if by_key else {}
    if form == "structs":
        table = flow.stream_input("events", STRUCTS).to_table(format="debezium", **options)
    else:
        table = flow.stream_input("events", TEXT).to_table(
            format="debezium", schema="id long, city string", value="value", **options
        )
        epochs = [
            [{"value": as_text(e, is_wrapped=form == "wrapped"), "offset": e["offset"]} for e in events]
            for events in epochs
        ]
    flow.output("now", table)
    assert put_out(flow.run(events=epochs, workers=w)["now"], len(epochs)) == states


def test_with_a_key_the_row_before_may_be_missing_and_events_may_come_twice() -> None:
    flow = ps.Dataflow("test")
    flow.output(
        "now",
        flow.stream_input("events", TEXT).to_table(
            format="debezium", schema="id long, city string", value="value", key="id"
        ),
    )
    create, update = (
        {"op": "c", "after": {"id": 1, "city": "x"}},
        {"op": "u", "after": {"id": 1, "city": "y"}},
    )
    events = [create, update, update, {"op": "d", "before": {"id": 1}}]
    epochs = [[{"value": json.dumps(event), "offset": 0}] for event in events]
    found = put_out(flow.run(events=epochs)["now"], 4)
    assert found == [Counter([(1, "x")]), Counter([(1, "y")]), Counter([(1, "y")]), Counter()]


def test_tombstones_and_messages_say_nothing() -> None:
    flow = ps.Dataflow("test")
    flow.output(
        "now",
        flow.stream_input("events", "value binary").to_table(
            format="debezium", schema="id long", value="value"
        ),
    )
    texts = [
        None,
        b"null",
        b'{"schema": {}, "payload": null}',
        b'{"op": "m"}',
        b'{"op":"c","after":{"id":1}}',
    ]
    found = flow.run(events=[[{"value": text} for text in texts]])["now"]
    assert put_out(found, 1) == [Counter([(1,)])]


def test_text_and_numbers_become_times_and_decimals() -> None:
    flow = ps.Dataflow("test")
    columns = "d date, t timestamp, u timestamp, p decimal(10,2), x double, l array<long>"
    flow.output(
        "now",
        flow.stream_input("events", "value string").to_table(
            format="debezium", schema=columns, value="value"
        ),
    )
    row = {"d": 19_000, "t": "2024-01-01T00:00:00Z", "u": 1_000_000, "p": "1.25", "x": 2, "l": [1]}
    (found,) = flow.run(events=[[{"value": json.dumps({"op": "c", "after": row})}]])["now"][0].to_pylist()
    assert found == {
        "d": date(2022, 1, 8),
        "t": datetime(2024, 1, 1, tzinfo=UTC),
        "u": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "p": Decimal("1.25"),
        "x": 2.0,
        "l": [1],
        "diff": 1,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"op": "u", "after": {"id": 1}}',
            r"epoch 0: the event .* has no 'before'.*replica identity",
        ),
        ('{"op": "c", "before": {"id": 1}}', r"has no 'after'\. Look where the event comes from"),
        ('{"op": "t"}', "a truncate event.*Start a new query"),
        ('{"op": "x"}', "op must be one of c, r, u, d, m"),
        ('{"op": "c", "after"', "an event is not JSON"),
        ("[1]", r"'\[1\]' is not a change event"),
        ('{"after": {"id": 1}}', "is not a change event"),
        ('{"op": "c", "after": 5}', "is not a change event"),
        ('{"op": "c", "after": {"id": "x"}}', "column 'id' must be int64, got another value"),
        ('{"op": "c", "after": {"id": 1.5}}', "column 'id' must be int64, got 1.5"),
    ],
)
def test_what_is_no_event_is_refused_with_its_epoch(text: str, said: str) -> None:
    flow = ps.Dataflow("test")
    flow.output(
        "now",
        flow.stream_input("events", "value string").to_table(
            format="debezium", schema="id long", value="value"
        ),
    )
    with pytest.raises((FlowError, SchemaError), match=said):
        flow.run(events=[[{"value": text}]])


def test_what_cannot_be_asked_of_events_is_refused_in_words() -> None:
    flow = ps.Dataflow("test")
    structs, text = flow.stream_input("structs", STRUCTS), flow.stream_input("text", "value string, n long")
    cases: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: text.to_table(format="debezium", schema="id long"), "schema= is only for JSON events"),
        (lambda: text.to_table(format="debezium"), "needs the column 'op'"),
        (
            lambda: text.to_table(format="debezium", value="value"),
            "JSON events need schema=, the columns of the table",
        ),
        (
            lambda: text.to_table(format="debezium", schema="id long", value="n"),
            "'n' must be string or binary to hold JSON events, got int64",
        ),
        (
            lambda: text.to_table(format="debezium", schema="id long", value="value", key="key"),
            "key= needs the column 'key'",
        ),
        (
            lambda: text.to_table(format="debezium", schema="id long", value="value", key="id", order="at"),
            "order= needs the column 'at'",
        ),
        (lambda: structs.to_table(format="debezium", order="offset"), "order= needs key="),
        (
            lambda: structs.select("op", "before", after=ps.lit(1)).to_table(format="debezium"),
            "must be structs with the columns of the table",
        ),
    )
    for asked, said in cases:
        with pytest.raises((FlowError, SchemaError), match=said):
            asked()


def test_of_deltas_change_feed_only_the_row_counts() -> None:
    flow = ps.Dataflow("test")
    schema = "id long, city string, _change_type string, _commit_version long, _commit_timestamp timestamp"
    table = flow.table("feed", schema, operation="_change_type")
    assert table.schema.names == ["id", "city"]
    flow.output("now", table)
    feed = [(1, "x", "insert", 0), (1, "x", "update_preimage", 1), (1, "y", "update_postimage", 1)]
    feed += [(2, "x", "insert", 1), (2, "x", "delete", 2)]
    names = ("id", "city", "_change_type", "_commit_version")
    epochs = [
        [
            dict(zip(names, row, strict=True)) | {"_commit_timestamp": datetime(2024, 1, 1 + v, tzinfo=UTC)}
            for row in feed
            if row[3] == v
        ]
        for v in range(3)
    ]
    found = put_out(flow.run(feed=epochs, workers=2)["now"], 3)
    assert found == [Counter([(1, "x")]), Counter([(1, "y"), (2, "x")]), Counter([(1, "y")])]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_state_can_say_that_there_are_no_rows(workers: int) -> None:
    flow = ps.Dataflow("test")
    flow.output("now", flow.table("rows", "n long, none boolean", snapshots=True, empty="none"))
    rows = [{"n": n, "none": None if n % 2 else False} for n in range(5)]
    mark = {"n": None, "none": True}
    found = flow.run(rows=[rows, [], [mark], rows[:1], [mark, *rows[:2]]], workers=workers)["now"]
    sizes = [sum(total.values()) for total in put_out(found, 5)]
    assert sizes == [5, 5, 0, 1, 2]


def test_a_mark_of_empty_states_must_be_boolean() -> None:
    rows = ps.Dataflow("test").stream_input("rows", "n long")
    with pytest.raises(SchemaError, match="'n', which marks an empty state, must be boolean, got int64"):
        rows.to_table(snapshots=True, empty="n")
    with pytest.raises(SchemaError, match="needs the column 'none'"):
        rows.to_table(snapshots=True, empty="none")
