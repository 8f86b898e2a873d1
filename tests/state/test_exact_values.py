"""Values of rows as keys and values of saved state: each comes back as exactly what it was.

Families:
- *kinds*: every kind of value that Arrow gives as Python, one by one and inside others;
- *any*: random nested values; it finds two kinds that hide each other;
- *rows*: whole rows of every Arrow type through a query that continues, with a key of each type that can be
  one, on another number of workers.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest
import pytz  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.state import saved
from pointstamp.state.exact_encoding import is_exact

BERLIN = ZoneInfo("Europe/Berlin")
WALL = datetime(2024, 5, 6, 7, 8, 9, 123456)
VALUES = [
    WALL,
    datetime.min,  # noqa: DTZ901 - as above
    datetime(2024, 3, 31, 2, 30, tzinfo=BERLIN),  # which no clock has shown
    datetime(2024, 5, 6, tzinfo=UTC),
    datetime(2024, 5, 6, tzinfo=ZoneInfo("UTC")),
    datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN),
    datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
    datetime(2024, 5, 6, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
    datetime(2024, 5, 6, tzinfo=timezone(timedelta(hours=1), "here")),
    pytz.timezone("Europe/Berlin").localize(WALL),
    date(9999, 12, 31),
    time(23, 59, 59, 999999),
    timedelta(days=-1, microseconds=1),
    timedelta.max,
    Decimal("1.50"),
    Decimal("-0"),
    Decimal("1E+70"),
    Decimal("NaN"),
    UUID(int=5),
    b"\x00\xff",
    (1, (2, Decimal("0.1")), [(3,)]),
    {"at": date(2024, 5, 6), "of": {"price": Decimal("9.90"), "tags": [("a", b"b")]}},
    {date(2024, 5, 6): [time(1)], (1, 2): None},
    pd.Timestamp("2024-05-06 07:08:09.123456789"),
    pd.Timestamp("2024-10-27 00:30:00.000000001", tz="UTC").tz_convert("Europe/Berlin"),
    pd.Timestamp("2024-05-06").as_unit("s"),
    pd.Timedelta(1, "ns"),
]


def back(value: Any, how: saved.Saving) -> Any:  # noqa: ANN401 - any value
    return how.from_table("it", how.to_piece("it", value).table, None)


WAYS: dict[str, tuple[saved.Saving, Callable[[Any], Any]]] = {
    "values": (saved.values(), lambda value: value),
    "a list": (saved.values(list), lambda value: [value]),
    "rows": (saved.values(list[dict[str, Any]]), lambda value: [{"it": value}]),
    "mapping": (saved.mapping("long"), lambda value: {7: value}),
    "mapping of rows": (saved.mapping("long", dict[str, Any]), lambda value: {7: {"it": value}}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_of_a_row_comes_back_as_it_was(value: Any, way: str) -> None:  # noqa: ANN401 - of any kind
    how, held = WAYS[way][0], WAYS[way][1](value)
    came = back(held, how)
    assert is_exact(held, came)
    assert repr(came) == repr(held)


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(), st.binary()
)
LEAVES = st.one_of(
    PLAIN,
    st.datetimes(timezones=st.one_of(st.none(), st.timezones(), st.just(UTC))),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.decimals(),
    st.uuids(),
)


def nested(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    hashable = st.one_of(st.text(), st.integers(0, 9), st.dates(), st.decimals(allow_nan=False))
    return st.one_of(
        st.lists(inside, max_size=3),
        st.lists(inside, max_size=3).map(tuple),
        st.dictionaries(hashable, inside, max_size=3),
    )


@given(value=st.recursive(LEAVES, nested, max_leaves=8))
def test_nested_values_come_back_as_they_were(value: Any) -> None:  # noqa: ANN401 - of any kind
    came = back({1: value}, saved.mapping("long"))[1]
    assert is_exact(value, came)
    assert repr(came) == repr(value)


KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [WALL.replace(tzinfo=UTC) + n * timedelta(1) for n in range(6)],
    ),
    "timestamp_ntz": (pa.timestamp("us"), [WALL + n * timedelta(1) for n in range(6)]),
    "nanoseconds": (pa.timestamp("ns"), [pd.Timestamp(WALL) + pd.Timedelta(n, "ns") for n in range(6)]),
    "date": (pa.date32(), [date(2024, 5, 6) + n * timedelta(1) for n in range(6)]),
    "time": (pa.time64("us"), [time(n, 1, 2, 3) for n in range(6)]),
    "duration": (pa.duration("us"), [timedelta(microseconds=n) for n in range(6)]),
    "decimal": (pa.decimal128(9, 2), [Decimal(n) / 4 for n in range(6)]),
    "binary": (pa.binary(), [bytes([n]) for n in range(6)]),
}


class Last:
    """Keeps the last row of each key, and sends the one before with each new one."""

    def __init__(self, kind: pa.DataType, schema: pa.Schema) -> None:
        self.rows: dict[Any, dict[str, Any]] = {}
        self.state = {"rows": saved.mapping(kind)}
        self.outputs = schema

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        for row in batch.to_pylist():
            if row["key"] in self.rows:
                context.send([self.rows[row["key"]]])
            self.rows[row["key"]] = row


def epochs(kind: pa.DataType, keys: list[Any]) -> Iterator[pa.Table]:
    inner = pa.struct([("price", pa.decimal128(9, 2)), ("at", pa.timestamp("us", "Europe/Berlin"))])
    schema = pa.schema(
        {"key": kind, "number": pa.int64(), "inner": inner, "marks": pa.map_(pa.string(), pa.date32())}
    )
    moment = datetime(2024, 10, 27, 0, 30, tzinfo=UTC)
    for epoch in range(3):
        rows = [
            {
                "key": key,
                "number": epoch,
                "inner": {"price": Decimal(number) / 4, "at": moment + epoch * timedelta(hours=1)},
                "marks": [("seen", date(2024, 5, 6)), ("never", None)],
            }
            for number, key in enumerate(keys)
        ]
        yield pa.Table.from_pylist(rows, schema=schema)


@pytest.mark.parametrize("name", KEYS)
def test_rows_by_a_key_of_any_type_go_on_on_another_number_of_workers(name: str, tmp_path: Path) -> None:
    kind, keys = KEYS[name]
    given = list(epochs(kind, keys))
    flow = ps.Dataflow("last")
    rows = flow.stream_input("rows", given[0].schema).exchange("key")
    flow.output("out", ps.operator("last", Last(kind, given[0].schema), rows=rows))
    for count, workers in ((1, 2), (2, 3), (3, 1)):
        query = flow.start(
            rows=given[:count],
            checkpoint=tmp_path / "checkpoint",
            output=tmp_path / "out",
            workers=workers,
            available_now=True,
        )
        query.await_termination()
    found = ps.read_changes(str(tmp_path / "out"), "out").drop_columns(["epoch"])
    expected = pa.concat_tables(given[:2])
    order = [(name, "ascending") for name in ("key", "number")]
    assert found.cast(expected.schema).sort_by(order).equals(expected.sort_by(order))
