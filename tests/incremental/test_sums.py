"""Sums are kept as sums, and are exact: what was added and taken away again leaves nothing behind.

- limbs put together again are the sum, for integers, decimals and floats, rounded once where it is a float;
- reductions of random changes are those of the rows that are left, worked out with Python's fractions;
- what cannot be exact is refused.
"""

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.arrangement.column_arrays import kept_column
from pointstamp.arrow.sums import whole_numbers
from pointstamp.errors import FlowError
from pointstamp.incremental.exact_sums import float_limbs, float_sums, limbs_of, python_numbers

FINITE = st.floats(allow_nan=False, allow_infinity=False)
LARGEST = 1.7976931348623157e308


def rounded(total: Fraction) -> float:
    try:
        return total.numerator / total.denominator
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def in_one_group(values: list[float]) -> float:
    rows, places, limbs = float_limbs(np.array(values, np.float64))
    return float(float_sums(np.zeros(len(rows), np.intp), places, limbs, 1)[0])


@given(st.lists(FINITE, max_size=8))
@example([1e16, 1.0, -1e16])
@example([5e-324, -5e-324, 5e-324])
@example([LARGEST, LARGEST, -LARGEST])
@example([-LARGEST, -LARGEST])
@example([2.0**-1022, -(2.0**-1074)])
def test_floats_are_added_exactly_and_rounded_once(values: list[float]) -> None:
    assert in_one_group(values) == rounded(sum(map(Fraction, values), Fraction(0)))


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([math.inf, 1.0], math.inf),
        ([-math.inf], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1], math.nan),
    ],
)
def test_what_is_not_finite_is_counted_apart(values: list[float], total: float) -> None:
    assert str(in_one_group(values)) == str(total)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint32(), pa.uint64()])
@given(data=st.data())
def test_integers_of_every_width_are_added_exactly(kind: pa.DataType, data: st.DataObject) -> None:
    is_signed = pa.types.is_signed_integer(kind)
    least, most = (
        (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1)) if is_signed else (0, 2**kind.bit_width)
    )
    values = data.draw(st.lists(st.integers(least, most - 1), min_size=1, max_size=6))
    weights = data.draw(st.lists(st.integers(-3, 3), min_size=len(values), max_size=len(values)))
    total = sum(value * weight for value, weight in zip(values, weights, strict=True))
    limbs = limbs_of(kept_column(pa.array(values, kind)), kind, np.array(weights, np.int64))
    sums = [np.array([limb.sum()]) for limb in limbs]
    assert python_numbers(sums) == [total]
    whole, too_large = whole_numbers(sums)
    assert (too_large < 0) == (-(2**63) <= total < 2**63)
    assert too_large >= 0 or int(whole[0]) == total


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=1, max_size=5))
def test_decimals_are_added_exactly(values: list[int]) -> None:
    array = pa.array([None, *map(Decimal, values)], pa.decimal128(38, 0))
    sums = [np.array([limb.sum()]) for limb in limbs_of(array, array.type, np.ones(len(array), np.int64))]
    assert python_numbers(sums) == [sum(values)]


ROWS = st.tuples(
    st.sampled_from([1, 2, None]),
    st.one_of(st.none(), st.integers(-(2**40), 2**40)),
    st.one_of(st.none(), FINITE.filter(lambda x: abs(x) < 1e300), st.sampled_from([0.1, 1e16, -0.0])),
    st.one_of(st.none(), st.decimals(-(10**6), 10**6, places=2)),
)
SCHEMA = pa.schema(
    {"k": pa.int64(), "i": pa.int64(), "f": pa.float64(), "d": pa.decimal128(12, 2), "w": pa.int64()}
)


@settings(max_examples=20, deadline=None)
@given(data=st.data(), workers=st.integers(1, 2))
def test_aggregates_that_are_sums_are_those_of_the_rows_that_are_left(
    data: st.DataObject, workers: int
) -> None:
    flow = ps.Dataflow("sums")
    rows = flow.table("rows", SCHEMA, weight="w")
    flow.output(
        "sums",
        rows.group_by("k").agg(
            rows=ps.count(), values=ps.count("f"), i=ps.sum("i"), f=ps.sum("f"), d=ps.sum("d"), m=ps.mean("f")
        ),
    )
    there: Counter[Any] = Counter()
    epochs, after = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        gone = data.draw(
            st.lists(st.sampled_from(present), max_size=3)
            if (present := list(there.elements()))
            else st.just([])
        )
        gone = list((Counter(gone) & there).elements())
        new = data.draw(st.lists(ROWS, max_size=4))
        there.subtract(gone)
        there.update(new)
        epochs.append([(*row, -1) for row in gone] + [(*row, 1) for row in new])
        after.append(Counter(+there))
    given_rows = [
        pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in epoch], SCHEMA)
        for epoch in epochs
    ]
    results = flow.run(rows=given_rows, workers=workers)["sums"]
    sent: Counter[Any] = Counter()
    for epoch, left in enumerate(after):
        for row in results[epoch].to_pylist() if epoch in results else []:
            sent[tuple(value for name, value in row.items() if name != "diff")] += row["diff"]
        assert Counter({row: n for row, n in sent.items() if n}) == Counter(_groups(left))


def _groups(rows: Counter[Any]) -> list[Any]:
    made = []
    for key in {row[0] for row in rows}:
        own = [row for row in rows.elements() if row[0] == key]
        floats = [row[2] for row in own if row[2] is not None]
        total = rounded(sum(map(Fraction, floats), Fraction(0)))
        integers, decimals = ([row[at] for row in own if row[at] is not None] for at in (1, 3))
        made.append(
            (
                key,
                len(own),
                len(floats),
                sum(integers) if integers else None,
                total if floats else None,
                sum(decimals) if decimals else None,
                total / len(floats) if floats else None,
            )
        )
    return made


def reduced(column: str, rows: list[Any], schema: str = "k long, v long, w long") -> Any:  # noqa: ANN401 - tables
    flow = ps.Dataflow("sums")
    table = flow.table("rows", schema, weight="w")
    flow.output("sums", table.group_by("k").agg(total=ps.sum(column)))
    return flow.run(rows=rows)["sums"]


def test_a_sum_that_does_not_fit_is_refused() -> None:
    rows = [{"k": 1, "v": 2**63 - 1, "w": 1}, {"k": 1, "v": 1, "w": 1}]
    with pytest.raises(FlowError, match=r"the sum 'total' of the rows of {'k': 1} does not fit int64"):
        reduced("v", [rows])


def test_a_sum_that_fits_only_at_the_end_is_right() -> None:
    rows = [{"k": 1, "v": 2**63 - 1, "w": 1}, {"k": 1, "v": 2**62, "w": 1}, {"k": 1, "v": -(2**63), "w": 1}]
    assert reduced("v", [rows])[0]["total"].to_pylist() == [2**62 - 1]


def test_a_weight_that_is_too_large_for_exact_sums_is_refused() -> None:
    with pytest.raises(FlowError, match=r"to be summed exactly, got 1073741824"):
        reduced("v", [[{"k": 1, "v": 1, "w": 2**30}]])
