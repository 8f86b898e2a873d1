"""A branch that a row does not take never raises.

- a law: random expressions whose parts fail for some rows, compared with an interpreter of one row at a time,
  which shares no code with them: which rows fail, and what all others are;
- a broken variant, which evaluates both sides of everything, is found by the law;
- examples over rows in Arrow slices, and of an empty batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.expressions import functions as F  # noqa: N812 - as users import it
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.tree import Expression, col, lit, when

SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.int32()), ("s", pa.string())])
LEAST, MOST = -(2**31), 2**31 - 1


class Fails(Exception):  # noqa: N818 - it is an answer
    """A row for which an expression raises."""


Row = dict[str, Any]
Meaning = Callable[[Row], Any]


@dataclass(frozen=True, repr=False)
class Drawn:
    """An expression, and what it is for one row."""

    tree: Expression
    of: Meaning

    def __repr__(self) -> str:
        return str(self.tree)[:500]


def _checked(value: int) -> int:
    if not LEAST <= value <= MOST:
        raise Fails
    return value


def _sum(a: Drawn, b: Drawn) -> Drawn:
    def of(row: Row) -> Any:  # noqa: ANN401
        left = a.of(row)
        right = None if left is None else b.of(row)
        return None if right is None else _checked(left + right)

    return Drawn(a.tree + b.tree, of)


def _remainder(a: Drawn, b: Drawn) -> Drawn:
    def of(row: Row) -> Any:  # noqa: ANN401
        right = b.of(row)
        left = None if right is None else a.of(row)
        if left is None:
            return None
        if right == 0:
            raise Fails
        return abs(left) % abs(right) * (1 if left >= 0 else -1)

    return Drawn(a.tree % b.tree, of)


def _case(test: Drawn, value: Drawn, default: Drawn) -> Drawn:
    return Drawn(
        when(test.tree, value.tree).otherwise(default.tree),
        lambda row: value.of(row) if test.of(row) is True else default.of(row),
    )


def _cases(test: Drawn, value: Drawn, other_test: Drawn, other: Drawn) -> Drawn:
    def of(row: Row) -> Any:  # noqa: ANN401
        if test.of(row) is True:
            return value.of(row)
        return other.of(row) if other_test.of(row) is True else None

    return Drawn(when(test.tree, value.tree).when(other_test.tree, other.tree), of)


def _coalesce(a: Drawn, b: Drawn, c: Drawn) -> Drawn:
    def of(row: Row) -> Any:  # noqa: ANN401
        for each in (a, b, c):
            if (found := each.of(row)) is not None:
                return found
        return None

    return Drawn(F.coalesce(a.tree, b.tree, c.tree), of)


def _null_if(a: Drawn, b: Drawn) -> Drawn:
    def of(row: Row) -> Any:  # noqa: ANN401
        left, right = a.of(row), b.of(row)
        return None if left is not None and left == right else left

    return Drawn(F.null_if(a.tree, b.tree), of)


def _less(a: Drawn, b: Drawn) -> Drawn:
    def of(row: Row) -> Any:  # noqa: ANN401
        left = a.of(row)
        right = None if left is None else b.of(row)
        return None if right is None else left < right

    return Drawn(a.tree < b.tree, of)


def _is_in(a: Drawn, b: Drawn, c: Drawn) -> Drawn:
    def of(row: Row) -> Any:  # noqa: ANN401
        sought = a.of(row)
        found: bool | None = False
        if sought is None:
            return None
        for each in (b, c):
            value = each.of(row)
            if value == sought:
                return True
            found = None if value is None else found
        return found

    return Drawn(a.tree.is_in(b.tree, c.tree), of)


def _and(a: Drawn, b: Drawn) -> Drawn:
    def of(row: Row) -> Any:  # noqa: ANN401
        left = a.of(row)
        if left is False:
            return False
        right = b.of(row)
        return False if right is False else None if left is None or right is None else True

    return Drawn(a.tree & b.tree, of)


def _or(a: Drawn, b: Drawn) -> Drawn:
    def of(row: Row) -> Any:  # noqa: ANN401
        left = a.of(row)
        if left is True:
            return True
        right = b.of(row)
        return True if right is True else None if left is None or right is None else False

    return Drawn(a.tree | b.tree, of)


def _read(row: Row) -> Any:  # noqa: ANN401
    if row["s"] is None:
        return None
    try:
        return _checked(int(row["s"]))
    except ValueError as error:
        raise Fails from error


LEAVES = st.sampled_from(
    [
        Drawn(col("a"), lambda row: row["a"]),
        Drawn(col("b"), lambda row: row["b"]),
        Drawn(lit(0), lambda row: 0),
        Drawn(lit(MOST), lambda row: MOST),
        Drawn(col("s").cast("int"), _read),
        Drawn(lit(1) % lit(0).cast("int"), lambda row: _failing()),
    ]
)


def _failing() -> Any:  # noqa: ANN401
    raise Fails


@st.composite
def numbers(draw: st.DrawFn, depth: int = 4) -> Drawn:
    """An expression that is a number."""
    kind = draw(st.integers(0, 8 if depth else 2))
    if kind < 3:
        return draw(LEAVES)
    inner = numbers(depth - 1)
    if kind == 3:
        return _sum(draw(inner), draw(inner))
    if kind == 4:
        return _remainder(draw(inner), draw(inner))
    if kind == 5:
        return _case(draw(conditions(depth - 1)), draw(inner), draw(inner))
    if kind == 6:
        return _cases(draw(conditions(depth - 1)), draw(inner), draw(conditions(depth - 1)), draw(inner))
    if kind == 7:
        return _coalesce(draw(inner), draw(inner), draw(inner))
    return _null_if(draw(inner), draw(inner))


@st.composite
def conditions(draw: st.DrawFn, depth: int) -> Drawn:
    """An expression that is true, false or null."""
    kind = draw(st.integers(0, 4 if depth > 0 else 2))
    inner = numbers(max(depth - 1, 0))
    if kind == 0:
        return _less(draw(inner), draw(inner))
    if kind == 1:
        return _is_in(draw(inner), draw(inner), draw(inner))
    if kind == 2:
        value = draw(inner)
        return Drawn(value.tree.is_null(), lambda row: value.of(row) is None)
    combine = _and if kind == 3 else _or
    return combine(draw(conditions(depth - 1)), draw(conditions(depth - 1)))


EXPRESSIONS = numbers()
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.sampled_from([None, 0, 1, -1, 7, MOST, LEAST]),
            "b": st.sampled_from([None, 0, 0, 2, -1, MOST]),
            "s": st.sampled_from([None, "1", "x", " 0 ", "99999999999"]),
        }
    ),
    max_size=8,
)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    # A slice with an offset, as operators hand them on.
    padded = [{"a": 0, "b": 0, "s": "x"}, *rows, {"a": 0, "b": 0, "s": "x"}]
    return pa.RecordBatch.from_pylist(padded, SCHEMA).slice(1, len(rows))


def _meaning(drawn: Drawn, row: Row) -> Any:  # noqa: ANN401
    try:
        return drawn.of(row)
    except Fails:
        return Fails


def _always_fails(drawn: Drawn) -> bool:
    """Whether a constant outside of all branches fails, which is said when the flow is built."""
    try:
        compile_expression(drawn.tree, SCHEMA, "law")
    except Exception:
        return True
    return False


@given(EXPRESSIONS, ROWS)
def test_a_row_fails_only_in_branches_that_it_takes(drawn: Drawn, rows: list[Row]) -> None:
    expected = [_meaning(drawn, row) for row in rows]
    if _always_fails(drawn):
        every = [{"a": a, "b": 2, "s": "1"} for a in (0, 1, 7)]
        assert any(_meaning(drawn, row) is Fails for row in (*every, *rows)) or not rows
        return
    compiled = compile_expression(drawn.tree, SCHEMA, "law")
    right = [(row, value) for row, value in zip(rows, expected, strict=True) if value is not Fails]
    assert compiled(_batch([row for row, _ in right])).to_pylist() == [value for _, value in right]
    if len(right) < len(rows):
        with pytest.raises(
            (pa.ArrowInvalid, ArithmeticError), match=r"division by zero|not a value of the type|overflow"
        ):
            compiled(_batch(rows))


@pytest.mark.long
@given(st.data())
def test_many_rows_fail_only_in_branches_that_they_take(data: st.DataObject) -> None:
    for _ in range(20):
        drawn, rows = data.draw(EXPRESSIONS), data.draw(ROWS)
        if not _always_fails(drawn):
            compiled = compile_expression(drawn.tree, SCHEMA, "law")
            for row in rows:
                if (value := _meaning(drawn, row)) is not Fails:
                    assert compiled(_batch([row])).to_pylist() == [value]


def test_a_constant_that_fails_in_a_branch_is_no_mistake_of_the_flow() -> None:
    tree = when(col("a") > 0, lit(1) / 0).otherwise(2.0)
    compiled = compile_expression(tree, SCHEMA, "x")
    assert compiled(_batch([{"a": 0, "b": 0, "s": ""}])).to_pylist() == [2.0]
    assert compiled(_batch([])).to_pylist() == []
    with pytest.raises(ArithmeticError, match="division by zero"):
        compiled(_batch([{"a": 1, "b": 0, "s": ""}]))


def test_what_cannot_fail_is_computed_for_all_rows_at_once() -> None:
    """So that a plain CASE costs no more than its parts."""
    compiled = compile_expression(when(col("a") > 0, F.upper("s")).otherwise(lit("no")), SCHEMA, "x")
    assert not compiled.can_fail
    assert compile_expression(col("a") / col("b"), SCHEMA, "x").can_fail


def test_the_law_finds_an_evaluation_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from pointstamp.expressions import compiler

    monkeypatch.setattr(
        compiler, "choose", lambda tests, values, last, _: compiler._choose_of_all(tests, values, last)
    )
    drawn = _case(
        _less(_leaf("b"), Drawn(lit(1), lambda row: 1)), _leaf("a"), _remainder(_leaf("a"), _leaf("b"))
    )
    with pytest.raises(ArithmeticError, match="division by zero"):
        compile_expression(drawn.tree, SCHEMA, "law")(_batch([{"a": 1, "b": 0, "s": ""}]))


def _leaf(name: str) -> Drawn:
    return Drawn(col(name), lambda row: row[name])
