"""Windows of event time, as columns of tables and streams, beside DuckDB's ``time_bucket``.

- the law: tumbling and sliding windows under inserts and deletes, after every epoch, on one to three workers;
- types: what timestamps of every unit, dates and integers give, and what is refused when the flow is written.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError, SchemaError
from support.table_events import EVENT_ROWS, judge_events
from support.table_queries import changes

# Size, slide and offset in minutes; the slide need not divide the size.
LENGTHS = st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(-40, 40)).map(
    lambda lengths: (max(lengths[:2]), min(lengths[:2]), lengths[2])
)


def minutes(number: int) -> timedelta:
    return timedelta(minutes=number)


@settings(max_examples=20, deadline=None)
@given(data=st.data(), lengths=LENGTHS, workers=st.integers(1, 3), epochs=st.integers(1, 4))
def test_windows_are_duckdbs_after_every_epoch(
    data: st.DataObject, lengths: tuple[int, int, int], workers: int, epochs: int
) -> None:
    size, slide, offset = lengths
    judge_events(
        lambda a: a.window("at", minutes(size), slide=minutes(slide), offset=minutes(offset)),
        f"""select k, "at", n, start, start + interval '{size} minutes' from (
              select *, time_bucket(interval '{slide} minutes', "at", timestamp '1970-01-01'
                + interval '{offset} minutes') - back * interval '{slide} minutes' as start
              from a, range(0, 31) as earlier(back))
            where "at" is not null and start + interval '{size} minutes' > "at" """,  # noqa: S608 - our own text
        data.draw(changes(EVENT_ROWS, epochs)),
        workers,
    )


@settings(max_examples=30, deadline=None)
@given(data=st.data(), size=st.integers(1, 90), workers=st.integers(1, 3))
def test_aggregates_of_windows_are_duckdbs_after_every_epoch(
    data: st.DataObject, size: int, workers: int
) -> None:
    judge_events(
        lambda a: a.select("n", start=ps.functions.tumbling("at", minutes(size), offset="1 minute"))
        .group_by("start").agg(rows=ps.count(), total=ps.sum("n")),
        f"""select time_bucket(interval '{size} minutes', "at", timestamp '1970-01-01 00:01:00') as start,
              count(*), sum(n)::bigint from a group by start""",  # noqa: S608 - our own text
        data.draw(changes(EVENT_ROWS, 3)),
        workers,
    )  # fmt: skip


TYPES: list[tuple[pa.DataType, Any, Any, Any, Any]] = [
    (pa.timestamp("s"), datetime(2024, 5, 1, 10, 17), "1 hour",
     datetime(2024, 5, 1, 10), datetime(2024, 5, 1, 11)),
    (pa.timestamp("ms"), datetime(1969, 12, 31, 23, 59), "1 day",
     datetime(1969, 12, 31), datetime(1970, 1, 1)),
    (pa.timestamp("us", "Asia/Kolkata"), datetime(2024, 5, 1, 0, 10, tzinfo=UTC), "1 hour",
     datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 1, 1, tzinfo=UTC)),
    (pa.date32(), date(2024, 5, 1), "1 week", date(2024, 4, 25), date(2024, 5, 2)),
    (pa.int64(), -3, 10, -10, 0),
    (pa.uint8(), 255, 100, 200, 300),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "at", "size", "start", "end"), TYPES)
def test_windows_have_the_type_of_their_event_time(
    kind: pa.DataType, at: object, size: str | int, start: object, end: object
) -> None:
    flow = ps.Dataflow("types")
    rows = flow.stream_input("rows", pa.schema({"at": kind}))
    flow.output("stream", rows.window("at", size))
    flow.output("table", rows.to_table().window("at", size, start="s", end="e"))
    flow.output("starts", rows.select(start=ps.functions.tumbling("at", size)))
    found = flow.run(rows=[pa.table({"at": pa.array([at, None], kind)})])
    assert found["stream"][0].to_pylist() == [{"at": at, "window_start": start, "window_end": end}]
    assert found["table"][0].to_pylist() == [{"at": at, "s": start, "e": end, "diff": 1}]
    assert found["starts"][0]["start"].to_pylist() == [start, None]
    gives = pa.int64() if pa.types.is_integer(kind) else kind
    assert found["stream"][0].schema.field("window_end").type == gives


def test_nanoseconds_are_counted() -> None:
    flow = ps.Dataflow("types")
    flow.output(
        "starts", flow.stream_input("rows", pa.schema({"at": pa.timestamp("ns")})).window("at", "1 us")
    )
    found = flow.run(rows=[pa.table({"at": pa.array([2_700], pa.timestamp("ns"))})])["starts"][0]
    assert [column.cast(pa.int64()).to_pylist() for column in found.columns] == [[2_700], [2_000], [3_000]]


CASES: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda t: t.window("time", "1 hour"), SchemaError, "'window' of .* needs the column 'time'"),
    (lambda t: t.window("s", "1 hour"), SchemaError, "needs a timestamp, a date or an integer .* got string"),
    (lambda t: t.window("at", "one hour"), FlowError, "size must be a timedelta or text such as"),
    (lambda t: t.window("at", 5), FlowError, "size must be a timedelta or text .* got 5"),
    (lambda t: t.window("n", "1 hour"), FlowError, "must be an integer, as the column is, got '1 hour'"),
    (lambda t: t.window("at", "0 s"), FlowError, "size and slide of windows must be above 0"),
    (lambda t: t.window("at", "1 hour", slide="2 hours"), FlowError, "slide '2 hours' is longer than"),
    (lambda t: t.window("day", "36 hours"), SchemaError, "multiple of the unit of date32"),
    (lambda t: t.window("at", "1 hour", start="n"), SchemaError, "column 'n' already exists"),
    (lambda t: t.window("at", "1 hour", start="x", end="x"), SchemaError, "column 'x' already exists"),
    (
        lambda t: t.select(x=ps.functions.tumbling("s", "1 hour")),
        SchemaError,
        "a timestamp, a date or an integer",
    ),
    (lambda t: t.tumble("at", "1 hour"), AttributeError, r"here that is window\('at', '10 minutes'"),
]


@pytest.mark.parametrize("is_table", [False, True])
@pytest.mark.parametrize(("asked", "kind", "said"), CASES)
def test_what_is_no_window_is_refused_in_words(
    is_table: bool, asked: Callable[[Any], Any], kind: type[Exception], said: str
) -> None:
    rows = ps.Dataflow("test").stream_input("rows", "at timestamp, day date, n long, s string")
    with pytest.raises(kind, match=said):
        asked(rows.to_table() if is_table else rows)


def test_the_weight_cannot_be_the_name_of_a_window() -> None:
    rows = ps.Dataflow("test").stream_input("rows", "at timestamp")
    with pytest.raises(SchemaError, match="cannot be called 'diff'"):
        rows.to_table().window("at", "1 hour", start="diff")
