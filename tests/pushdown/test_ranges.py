"""The range that is derived for an integer expression holds every value, and is no wider than needed.

An expression goes to Spark only if no value overflows there; a range that forgets the negative ends of a
product or a difference would let one go that fails. Expressions are drawn over columns of few values and
evaluated for all of them, in Python's integers.
"""

from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.pushdown import wording
from pointstamp.pushdown.wording import worded

SCHEMA = pa.schema([("a", pa.int8()), ("b", pa.int8())])
LEAST, MOST = -128, 127
_EDGES = (LEAST, LEAST + 1, -7, -1, 0, 1, 6, MOST - 1, MOST)

Values = Any
"""A function from the values of both columns to a value."""

_LITERALS = st.sampled_from([-(2**31), -1000, -128, -3, -1, 0, 1, 2, 127, 255, 2**31 - 1])


@st.composite
def drawn(draw: st.DrawFn, depth: int = 3) -> tuple[Expression, Values]:
    """An expression of longs, and what it is."""
    kind = draw(st.integers(0, 5 if depth else 1))
    if kind == 0:
        name = draw(st.sampled_from(["a", "b"]))
        return col(name).cast("long"), lambda row: row[name]
    if kind == 1:
        number = draw(_LITERALS)
        return lit(number).cast("long"), lambda row: number
    left, first = draw(drawn(depth - 1))
    if kind == 5:
        by = draw(st.integers(1, 9))
        return left % by, lambda row: abs(first(row)) % by * (1 if first(row) >= 0 else -1)
    right, second = draw(drawn(depth - 1))
    if kind == 2:
        return left + right, lambda row: first(row) + second(row)
    if kind == 3:
        return left - right, lambda row: first(row) - second(row)
    return left * right, lambda row: first(row) * second(row)


def _reached(values: Values) -> list[int]:
    return [values({"a": a, "b": b}) for a, b in product(_EDGES, _EDGES)]


def check(case: tuple[Expression, Values]) -> None:
    """A range holds all values; what does not go could overflow."""
    expression, values = case
    found = worded(expression, SCHEMA)
    if found is None:
        return
    assert found.range is not None
    low, high = found.range
    reached = _reached(values)
    assert low <= min(reached), f"{expression} is {min(reached)}, and its range begins with {low}"
    assert max(reached) <= high, f"{expression} is {max(reached)}, and its range ends with {high}"
    assert low >= -(2**63)
    assert high < 2**63


@given(drawn())
def test_a_range_holds_every_value(case: tuple[Expression, Values]) -> None:
    check(case)


@given(st.sampled_from(["+", "-", "*"]), _LITERALS, _LITERALS)
def test_a_range_of_two_columns_ends_where_their_values_end(operation: str, one: int, other: int) -> None:
    a, b = col("a").cast("long") * one, col("b").cast("long") - other
    expression = {"+": a + b, "-": a - b, "*": a * b}[operation]
    ours: Values = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y}[operation]
    reached = [ours(x * one, y - other) for x, y in product(_EDGES, _EDGES)]
    found = worded(expression, SCHEMA)
    fits = min(reached) >= -(2**63) and max(reached) < 2**63
    assert (None if found is None else found.range) == ((min(reached), max(reached)) if fits else None)


@pytest.mark.parametrize("function", ["subtract", "multiply"])
def test_a_range_of_like_ends_alone_is_found(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake: least with least, greatest with greatest."""
    right: Any = wording._ON_INTEGERS[function]

    class OfLikeEnds:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def __call__(self, a: int, b: int) -> int:
            self.seen.append(right(a, b))
            return self.seen[0] if len(self.seen) < 4 else self.seen[3]

    monkeypatch.setitem(wording._ON_INTEGERS, function, OfLikeEnds())
    a, b = col("a").cast("long"), col("b").cast("long")
    values = {"subtract": lambda row: row["a"] - row["b"], "multiply": lambda row: row["a"] * row["b"]}[
        function
    ]
    with pytest.raises(AssertionError, match="its range"):
        check((a - b if function == "subtract" else a * b, values))
