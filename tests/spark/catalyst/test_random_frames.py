"""Random queries are Spark's own answer after every epoch, on one worker and on two.

What only this finds: operators beside each other that no query written by hand has, over values at the limits
of their types (NaN, -0.0, decimals of 38 digits, dates before 1970, hours that clocks show twice) and with
nulls everywhere. ``POINTSTAMP_RANDOM_FRAMES`` says how many queries the long test draws.
"""

import datetime
import os
from typing import Final

import pyarrow as pa
import pytest
from benchmarks.sql.answers import added_up, check_same, rows_of_table
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.flow.plan import NodeKind
from support.batch_answers import WEIGHT, Fed, with_deletions
from support.random_frames import queries

ZONES: Final = ("UTC", "America/New_York", "Europe/Berlin", "Asia/Kathmandu")
LONG_EXAMPLES: Final = int(os.environ.get("POINTSTAMP_RANDOM_FRAMES", "2000"))
REJECTED: Final = ("reads no table", "has no order here", "needs a column of an ordered type")
"""A view of constants, and orders of lists and structs, which have none here."""
INSTANTS: Final = (
    "1883-11-18T17:00",
    "1969-12-31T23:59",
    "2024-03-10T07:30",
    "2024-11-03T05:30",
    "2024-11-03T06:30",
)


def rows_of_t(first: int) -> pa.Table:
    count = 9
    at = [datetime.datetime.fromisoformat(each).replace(tzinfo=datetime.UTC) for each in INSTANTS]
    limit = "99999999999999999999.999999999999999999"
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "k": ["a", "ß", None, "a", "日本", "", "A", "e\u0301", "a"],
            "i": pa.array([1, 2, None, -3, 2, 2, 0, 7, None], pa.int32()),
            "x": pa.array([0.5, float("nan"), None, -0.0, 0.0, float("inf"), -2.25, 3.0, float("nan")]),
            "d": pa.array(
                ["1.25", None, "-0.01", "9999999999.99", "2.50", "2.50", "0.00", "-7.00", None]
            ).cast(pa.decimal128(12, 2)),
            "e": pa.array([limit, f"-{limit}", None, "0", "1", "1", None, "0.000000000000000001", "2"]).cast(
                pa.decimal128(38, 18)
            ),
            "day": pa.array([0, -1, None, 19792, -141428, 19792, 1, -719000, None], pa.int32()).cast(
                pa.date32()
            ),
            "at": pa.array([*at, None, at[0], at[3], None], pa.timestamp("us", "UTC")),
            "b": [True, False, None, True, None, False, True, True, False],
            "s": pa.array([1, -32768, None, 32767, 2, 2, 0, None, 1], pa.int16()),
            "f": pa.array([0.1, float("nan"), None, -0.0, 0.0, -float("inf"), 1e30, 3.0, 0.1], pa.float32()),
            "n": pa.array([None, *at[:4], None, *at[2:]], pa.timestamp("us", "UTC")).cast(pa.timestamp("us")),
            "y": pa.array([b"", b"a", None, b"\x00\xff", b"a", b"\xc3\x9f", b"b", None, b"a"]),
            "l": pa.array(
                [[1, None], [], None, [2, 3, 2], [7], [None], [1, None], [0], [-3]], pa.list_(pa.int32())
            ),
            "r": pa.array(
                [(1, "a"), None, (None, "ß"), (1, None), (None, None), (2, "b"), (1, "a"), (0, ""), None],
                pa.struct([("p", pa.int32()), ("q", pa.string())]),
            ),
        }
    )


def rows_of_u(first: int) -> pa.Table:
    return rows_of_t(first).select(["id", "k", "i", "d", "day"]).slice(0, 6)


@pytest.fixture(scope="module")
def fed() -> Fed:
    empty_u = rows_of_u(0).slice(0, 0)
    epochs = {
        "t": [rows_of_t(0), rows_of_t(5), rows_of_t(9).slice(0, 0)],
        "u": [rows_of_u(3), empty_u, rows_of_u(0)],
    }
    return with_deletions(epochs, 11, {"t": "i", "u": "k"})


@pytest.fixture(scope="module")
def tables(spark: SparkSession, fed: Fed) -> SparkSession:
    """A session with each table as it is after each epoch, ``t_0`` and so on, and ``t`` for the plan."""
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")  # of columns of Arrow without a zone
    for name, epochs in fed.there.items():
        for epoch, table in enumerate(epochs):
            session.createDataFrame(table.combine_chunks()).createOrReplaceTempView(f"{name}_{epoch}")
        rows = session.createDataFrame(epochs[0].slice(0, 0))
        session.createDataFrame(spark.sparkContext.emptyRDD(), rows.schema).createOrReplaceTempView(name)
    session.conf.unset("spark.sql.timestampType")
    return session


def types_of(schema: pa.Schema) -> list[pa.DataType]:
    """The types of columns, without what Spark says of nulls in them."""
    return [_without_nulls(each) for each in schema.types]


def _without_nulls(given: pa.DataType) -> pa.DataType:
    if pa.types.is_list(given):
        return pa.list_(_without_nulls(given.value_type))
    if pa.types.is_struct(given):
        return pa.struct([(each.name, _without_nulls(each.type)) for each in given])
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(given) and given.tz else given


def check_random(spark: SparkSession, fed: Fed, text: str, zone: str, workers: int) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    frame = spark.sql(text.format(t="t", u="u"))
    read = [name for name in ("t", "u") if f"{{{name}}}" in text]
    try:
        flow = ps.views(spark, {"result": frame}, changes=dict.fromkeys(read, WEIGHT))
    except FlowError as error:
        if not any(each in str(error) for each in REJECTED):
            raise
        assume(False)
    inputs = {name: fed.changes[name] for name in flow.plan.named(NodeKind.INPUT)}
    results = flow.run(inputs, workers=workers)["result"]
    for epoch in range(len(fed.there["t"])):
        who = f"epoch {epoch} of {text} in {zone} on {workers} workers"
        asked = spark.sql(text.format(t=f"t_{epoch}", u=f"u_{epoch}")).toArrow()
        here = results[epoch].drop_columns(["diff"])
        assert types_of(here.schema) == types_of(asked.schema), who
        ours = added_up([results[each] for each in range(epoch + 1)])
        check_same(ours, rows_of_table(asked), who, only_doubles=True)


SETTINGS = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)


@settings(SETTINGS, max_examples=30, derandomize=True)
@given(text=queries(depth=1), zone=st.sampled_from(ZONES), workers=st.sampled_from([1, 2]))
def test_random_queries_are_sparks_answer(
    tables: SparkSession, fed: Fed, text: str, zone: str, workers: int
) -> None:
    check_random(tables, fed, text, zone, workers)


@pytest.mark.long
@settings(SETTINGS, max_examples=LONG_EXAMPLES)
@given(text=queries(), zone=st.sampled_from(ZONES), workers=st.sampled_from([1, 2]))
def test_many_random_queries_are_sparks_answer(
    tables: SparkSession, fed: Fed, text: str, zone: str, workers: int
) -> None:
    check_random(tables, fed, text, zone, workers)
