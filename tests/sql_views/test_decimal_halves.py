"""Averages, quotients and products of decimals that lie exactly between two digits: away from zero.

The oracle is Python's decimal with ROUND_HALF_UP. The rows are chosen so that most results lie at a half, and
are given in slices of Arrow arrays with an offset.
"""

from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps

SIX, EIGHT = Decimal("0.000001"), Decimal("0.00000001")
COUNT = 32
"""A sum of hundredths divided by 32 has seven digits after the point, the last of them 5, if it is odd."""


def rounded(number: Fraction, last: Decimal) -> Decimal:
    with localcontext() as context:
        context.prec = 100
        exact = Decimal(number.numerator) / Decimal(number.denominator)
        return exact.quantize(last, ROUND_HALF_UP)


def rows(key: int, first: str) -> list[dict[str, Any]]:
    return [{"k": key, "d": Decimal(first)}, *({"k": key, "d": Decimal("0.00")} for _ in range(COUNT - 1))]


FIRST = ("0.01", "-0.01", "0.03", "-0.07", "0.02", "99999999.99", "-99999999.97", "0.00")
TABLE = pa.Table.from_pylist(
    [{"k": -1, "d": Decimal("5.55")}] + [row for key, each in enumerate(FIRST) for row in rows(key, each)],
    schema=pa.schema([("k", pa.int64()), ("d", pa.decimal128(10, 2))]),
).slice(1)


def asked(query: str) -> dict[int, Any]:
    made = ps.sql(query, t="k long, d decimal(10, 2)").run(t=[TABLE], workers=2)["result"][0]
    return {row["k"]: row["v"] for row in made.to_pylist()}


@pytest.mark.parametrize(
    "query",
    [
        "select k, avg(d) as v from t group by k",
        "select distinct k, avg(d) over (partition by k) as v from t",
        "select k, avg(d) filter (where d is not null) as v from t group by k",
        "select k, cast(sum(d) / cast(count(*) as decimal(10, 0)) as decimal(14, 6)) as v from t group by k",
    ],
)
def test_an_average_at_a_half_goes_away_from_zero(query: str) -> None:
    expected = {key: rounded(Fraction(each) / COUNT, SIX) for key, each in enumerate(FIRST)}
    assert asked(query) == expected


def test_an_average_that_changes_stays_at_its_half() -> None:
    flow = ps.sql("select k, avg(d) as v from t group by k", t="k long, d decimal(10, 2)")
    parts = [TABLE.slice(at, 40) for at in range(0, TABLE.num_rows, 40)]
    totals: dict[tuple[int, Decimal], int] = {}
    for table in flow.run(t=parts)["result"].values():
        for row in table.to_pylist():
            totals[row["k"], row["v"]] = totals.get((row["k"], row["v"]), 0) + row["diff"]
    left = {key: value for (key, value), count in totals.items() if count}
    assert left == {key: rounded(Fraction(each) / COUNT, SIX) for key, each in enumerate(FIRST)}


@pytest.mark.parametrize("divisor", ["64", "-64", "128", "0.32", "3"])
def test_a_quotient_at_a_half_goes_away_from_zero(divisor: str) -> None:
    query = f"select k, cast(d / cast({divisor} as decimal(5, 2)) as decimal(20, 8)) as v from t where d <> 0"  # noqa: S608
    found = asked(query)
    for key, each in enumerate(FIRST):
        if Decimal(each):
            exact = rounded(
                Fraction(each) / Fraction(divisor), Decimal("0.0000000000001")
            )  # what Spark keeps first
            assert found[key] == exact.quantize(EIGHT, ROUND_HALF_UP), (each, divisor)


def test_a_product_with_more_digits_than_there_are_is_rounded_once() -> None:
    query = """select k, cast(d as decimal(38, 18)) * cast(0.0000500000 as decimal(38, 18)) as v
               from t where d <> 0"""
    found = asked(query)
    for key, each in enumerate(FIRST):
        if Decimal(each):
            assert found[key] == rounded(Fraction(each) * Fraction("0.00005"), SIX)
