"""Numbers of a text have Spark's types at the limits of each type, and a minus belongs to its digits."""

from decimal import Decimal

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import SqlError

LITERALS = {
    "2147483647": (2**31 - 1, pa.int32()),
    "-2147483648": (-(2**31), pa.int32()),
    "2147483648": (2**31, pa.int64()),
    "9223372036854775807": (2**63 - 1, pa.int64()),
    "-9223372036854775808": (-(2**63), pa.int64()),
    "9223372036854775808": (Decimal(2**63), pa.decimal128(19, 0)),
    "-9223372036854775809": (Decimal(-(2**63) - 1), pa.decimal128(19, 0)),
    "-1.50": (Decimal("-1.50"), pa.decimal128(3, 2)),
    "- -5": (5, pa.int32()),
    "1 - -1": (2, pa.int32()),
}


@pytest.mark.parametrize("text", LITERALS)
def test_a_number_has_sparks_value_and_type(text: str) -> None:
    value, kind = LITERALS[text]
    flow = ps.sql(f"select {text} as v from t", t="a long")  # noqa: S608 - the texts stand here
    assert flow.plan.output_schemas()["result"].field("v").type == kind
    (rows,) = flow.run(t=[pa.table({"a": [1]})])["result"].values()
    assert rows["v"].to_pylist() == [value]


def test_the_least_long_divided_by_minus_one_overflows() -> None:
    with pytest.raises(SqlError, match="overflow"):
        ps.sql("select cast(-9223372036854775808 as bigint) div -1 as v from t", t="a long")


def test_a_number_with_more_digits_than_a_decimal_is_rejected() -> None:
    with pytest.raises(SqlError, match="has 39 digits, but at most 38 are supported"):
        ps.sql(f"select {'1' * 39} as v from t", t="a long")  # noqa: S608 - the text stands here
