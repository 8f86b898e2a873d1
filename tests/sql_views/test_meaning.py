"""Where Spark and DuckDB differ, Spark's meaning is ours; Spark itself is asked in tests/spark."""

from typing import Any

import duckdb
import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import PointstampError
from support.sql_differences import DIFFERENCES, ERROR, ROWS, SCHEMA, Difference


def asked_here(query: str) -> Any:  # noqa: ANN401 - a value of any type
    try:
        (row,) = ps.sql(query, one=SCHEMA).run(one=[ROWS])["result"][0].to_pylist()
    except PointstampError:
        return ERROR
    return row["v"]


def asked_of_duckdb(query: str) -> Any:  # noqa: ANN401 - a value of any type
    with duckdb.connect() as engine:
        engine.register("one", pa.Table.from_pylist(ROWS))
        ((value,),) = engine.execute(query).fetchall()
    return value


@pytest.mark.parametrize("each", DIFFERENCES, ids=lambda each: each.about.replace(" ", "_"))
def test_what_differs_is_sparks(each: Difference) -> None:
    assert repr(asked_here(each.query)) == repr(each.spark)
    assert repr(asked_of_duckdb(each.query)) == repr(each.duckdb) != repr(each.spark)


@pytest.mark.parametrize(
    ("value", "text"),
    [("1e0", "1.0"), ("0.001e0", "0.001"), ("1e7", "1.0E7"), ("-1.25e-5", "-1.25E-5"), ("100.5e0", "100.5")],
)
def test_a_double_is_printed_as_spark_prints_it(value: str, text: str) -> None:
    assert asked_here(f"select cast({value} as string) as v from one") == text  # noqa: S608 - our own text


def test_a_cast_of_what_does_not_fit_is_an_error_unless_it_is_tried() -> None:
    assert asked_here("select cast('x' as int) as v from one") == ERROR
    assert asked_here("select cast(n + 99 as tinyint) as v from one") == 100
    assert asked_here("select cast(n + 999 as tinyint) as v from one") == ERROR
    assert asked_here("select try_cast(n + 999 as tinyint) as v from one") is None
