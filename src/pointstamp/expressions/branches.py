"""Evaluation of branches on the rows that take them.

``case``, ``and``, ``or``, ``coalesce`` and ``in`` evaluate a part of an expression for some rows only, as SQL
requires: a division by zero in a branch that a row does not take is not an error. A part that cannot fail
is cheaper to compute for all rows at once; a part that can fail is computed for ``Selected`` rows, and its
values are put back into their places. A strict function, which is null if one argument is null, evaluates an
argument only where the arguments before it are not null, as Spark does.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.expressions.signature import Datum, Kernel

_Places: TypeAlias = npt.NDArray[np.int64]


class RowsToEvaluate(Protocol):
    """The rows for which an expression is evaluated: a record batch, or some of its rows."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        ...

    def column(self, position: int) -> pa.Array:
        """The values of a column, by its position."""
        ...


Step: TypeAlias = Callable[[RowsToEvaluate], Datum]
"""Evaluates an expression for rows."""


class Selected:
    """Some rows of others; a column is taken when it is needed, once."""

    __slots__ = ("_columns", "_places", "_rows", "num_rows")

    def __init__(self, rows: RowsToEvaluate, places: _Places) -> None:
        self._rows = rows
        self._places = pa.array(places)
        self._columns: dict[int, pa.Array] = {}
        self.num_rows = len(places)

    def column(self, position: int) -> pa.Array:
        """The values of a column in these rows."""
        found = self._columns.get(position)
        if found is None:
            found = self._columns[position] = self._rows.column(position).take(self._places)
        return found


def _all_places(rows: RowsToEvaluate) -> _Places:
    return np.arange(rows.num_rows, dtype=np.int64)


def _some(rows: RowsToEvaluate, places: _Places) -> RowsToEvaluate:
    return rows if len(places) == rows.num_rows else Selected(rows, places)


def _truths(datum: Datum, count: int) -> npt.NDArray[np.bool_]:
    """The mask of a condition: null counts as false."""
    if isinstance(datum, pa.Scalar):
        return np.full(count, datum.as_py() is True)
    found: npt.NDArray[np.bool_] = pc.fill_null(_one_array(datum), False).to_numpy(zero_copy_only=False)
    return found


def _one_array(datum: Datum) -> pa.Array:
    return datum.combine_chunks() if isinstance(datum, pa.ChunkedArray) else datum


class _Gathered:
    """Values that come for some rows at a time, and are null or a given value for all others."""

    def __init__(self, count: int, other: pa.Scalar) -> None:
        self._values: list[pa.Array] = [pa.array([other.as_py()], other.type)]
        self._next = 1
        self._at = np.zeros(count, np.int64)

    def put(self, places: _Places, datum: Datum) -> None:
        """Put values into these places."""
        if isinstance(datum, pa.Scalar):
            self._values.append(pa.repeat(datum, 1))
            self._at[places] = self._next
            self._next += 1
            return
        array = _one_array(datum)
        self._values.append(array)
        self._at[places] = self._next + np.arange(len(array))
        self._next += len(array)

    def array(self) -> pa.Array:
        """All values, in the order of the rows."""
        return pa.concat_arrays(self._values).take(pa.array(self._at))


def choose(tests: Sequence[Step], values: Sequence[Step], last: Step, gives: pa.DataType) -> Step:
    """The value of the first test that holds, computed for the rows that take it."""

    def step(rows: RowsToEvaluate) -> Datum:
        made = _Gathered(rows.num_rows, pa.scalar(None, gives))
        left = _all_places(rows)
        for test, value in zip(tests, values, strict=True):
            if not len(left):
                break
            holds = _truths(test(_some(rows, left)), len(left))
            taken = left[holds]
            if len(taken):
                made.put(taken, value(_some(rows, taken)))
            left = left[~holds]
        if len(left):
            made.put(left, last(_some(rows, left)))
        return made.array()

    return step


def combine(kernel: Kernel, one: Step, other: Step, *, decided_by: bool) -> Step:
    """AND and OR: the other side is computed where this side does not decide."""

    def step(rows: RowsToEvaluate) -> Datum:
        left = one(rows)
        count = rows.num_rows
        decided = _truths(left if decided_by else pc.invert(left), count)
        if not decided.any():
            return kernel(left, other(rows))
        open_ = np.flatnonzero(~decided)
        if not len(open_):
            return left
        right = _Gathered(count, pa.scalar(decided_by))
        right.put(open_, other(_some(rows, open_)))
        return kernel(left, right.array())

    return step


def first_known(steps: Sequence[Step], gives: pa.DataType) -> Step:
    """COALESCE: a value is computed where all before it are null."""

    def step(rows: RowsToEvaluate) -> Datum:
        made = _Gathered(rows.num_rows, pa.scalar(None, gives))
        left = _all_places(rows)
        for each in steps:
            if not len(left):
                break
            values = each(_some(rows, left))
            if isinstance(values, pa.Scalar):
                if values.is_valid:
                    made.put(left, values)
                    left = left[:0]
                continue
            known = pc.is_valid(_one_array(values)).to_numpy(zero_copy_only=False)
            made.put(left[known], _one_array(values).filter(pa.array(known)))
            left = left[~known]
        return made.array()

    return step


def is_among(kernel: Kernel, value: Step, others: Sequence[Step]) -> Step:
    """IN: an element of the list is computed where no element before it is equal."""

    def step(rows: RowsToEvaluate) -> Datum:
        sought = value(rows)
        if isinstance(sought, pa.Scalar):
            sought = pa.repeat(sought, rows.num_rows)
        sought = _one_array(sought)
        known = pc.is_valid(sought).to_numpy(zero_copy_only=False)
        found: Datum = pc.if_else(pc.is_null(sought), pa.scalar(None, pa.bool_()), pa.scalar(False))
        for each in others:
            open_ = np.flatnonzero(known & ~_truths(found, rows.num_rows))
            if not len(open_):
                break
            equal = _Gathered(rows.num_rows, pa.scalar(False))
            equal.put(open_, kernel(sought.take(pa.array(open_)), each(_some(rows, open_))))
            found = pc.or_kleene(found, equal.array())
        return found

    return step


def strictly(
    kernel: Kernel, steps: Sequence[Step], takes: Sequence[pa.DataType], order: Sequence[int]
) -> Step:
    """A function that is null where one argument is: each is computed where those before are known."""

    def step(rows: RowsToEvaluate) -> Datum:
        data: list[Datum] = [None] * len(steps)
        left = _all_places(rows)
        for position in order:
            if not len(left) and rows.num_rows:
                data[position] = pa.scalar(None, takes[position])
                continue
            datum = steps[position](_some(rows, left))
            if isinstance(datum, pa.Scalar):
                data[position] = datum
                left = left if datum.is_valid else left[:0]
                continue
            datum = _one_array(datum)
            if len(left) == rows.num_rows:
                data[position] = datum
            else:
                made = _Gathered(rows.num_rows, pa.scalar(None, takes[position]))
                made.put(left, datum)
                data[position] = made.array()
            if datum.null_count:
                left = left[pc.is_valid(datum).to_numpy(zero_copy_only=False)]
        return kernel(*data)

    return step


def null_on_failure(step: Step, gives: pa.DataType) -> Step:
    """A value that is null where computing it fails; rows are halved until those that fail are found."""

    def evaluate(rows: RowsToEvaluate) -> pa.Array:
        try:
            datum = step(rows)
        except (pa.ArrowException, ArithmeticError, ValueError):
            count = rows.num_rows
            if count <= 1:
                return pa.nulls(count, gives)
            places = _all_places(rows)
            halves = (places[: count // 2], places[count // 2 :])
            return pa.concat_arrays([evaluate(Selected(rows, half)) for half in halves])
        return pa.repeat(datum, rows.num_rows) if isinstance(datum, pa.Scalar) else _one_array(datum)

    return evaluate


class Elements:
    """Elements of lists as rows: columns are those of the rows they belong to, and after them parameters."""

    __slots__ = ("_columns", "_owners", "_rows", "_values", "_width", "num_rows")

    def __init__(self, rows: RowsToEvaluate, width: int, owners: _Places, values: Sequence[pa.Array]) -> None:
        self._rows = rows
        self._width = width
        self._owners = pa.array(owners)
        self._values = values
        self._columns: dict[int, pa.Array] = {}
        self.num_rows = len(owners)

    def column(self, position: int) -> pa.Array:
        """The values of a column for these elements."""
        if position >= self._width:
            return self._values[position - self._width]
        found = self._columns.get(position)
        if found is None:
            found = self._columns[position] = self._rows.column(position).take(self._owners)
        return found
