"""A decimal becomes the nearest float: Python's, whatever its digits, beside nulls and within slices."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.decimals import floats_of


@pytest.mark.parametrize(("digits", "scale"), [(4, 2), (15, 15), (15, 0), (16, 3), (38, 10)])
@given(data=st.data())
def test_a_decimal_becomes_the_nearest_float(digits: int, scale: int, data: st.DataObject) -> None:
    limit = 10**digits - 1
    integers = data.draw(st.lists(st.one_of(st.none(), st.integers(-limit, limit)), max_size=8))
    values = [None if each is None else Decimal(f"{each}e-{scale}") for each in integers]
    column = pa.array([Decimal(0), *values], pa.decimal128(digits, scale))[1:]
    expected = [None if each is None else float(each) for each in values]
    assert floats_of(column, pa.float64()).to_pylist() == expected


def test_a_cast_of_a_users_takes_the_nearest_float() -> None:
    schema = pa.schema({"price": pa.decimal128(12, 2)})
    batch = pa.record_batch([pa.array([Decimal("0.35"), None], pa.decimal128(12, 2))], schema=schema)
    cast = compile_expression(ps.col("price").cast("double"), schema, "test")
    assert cast(batch).to_pylist() == [0.35, None]
    assert (
        compile_expression(ps.lit(Decimal("0.35")).cast("double"), schema, "test")(batch)[0].as_py() == 0.35
    )


def test_an_integer_becomes_a_decimal_if_its_value_fits() -> None:
    schema = pa.schema({"n": pa.int64()})
    cast = compile_expression(ps.col("n").cast("decimal(5, 2)"), schema, "test")
    assert cast(pa.record_batch({"n": [7, None, -999]})).to_pylist() == [Decimal(7), None, Decimal(-999)]
    with pytest.raises(pa.ArrowInvalid, match="fit"):
        cast(pa.record_batch({"n": [1_000]}))


def test_a_decimal_becomes_the_nearest_short_float() -> None:
    assert floats_of(pa.array([Decimal("0.35")]), pa.float32()).equals(pa.array([0.35], pa.float32()))
