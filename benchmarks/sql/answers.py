"""Whether two answers to one query are the same: rows in any order, and doubles up to their last digits.

Engines add doubles and divide decimals in other orders, or with other digits; everything else must be equal.
"""

from decimal import Decimal
from math import isclose, isnan, nan
from typing import Any, Final

import pyarrow as pa

Rows = list[tuple[Any, ...]]


def added_up(changes: list[pa.Table]) -> Rows:
    """The rows that are there after all changes of a view, as often as they are there."""
    counts: dict[tuple[Any, ...], int] = {}
    for table in changes:
        columns = [list(map(_plain, column.to_pylist())) for column in table.columns]
        for *row, diff in zip(*columns, strict=True):
            counts[tuple(row)] = counts.get(tuple(row), 0) + diff
    if negative := [row for row, count in counts.items() if count < 0]:
        raise AssertionError(f"rows that are there less than never: {negative[:3]}")
    return [row for row, count in counts.items() for _ in range(count)]


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of a column
    """The same value, which can be a key: every NaN is one object, and lists and structs are tuples."""
    if isinstance(value, float):
        return nan if isnan(value) else value
    if isinstance(value, dict):
        return tuple(map(_plain, value.values()))
    return tuple(map(_plain, value)) if isinstance(value, list) else value


def rows_of_table(table: pa.Table) -> Rows:
    """The rows of a table."""
    return list(zip(*(map(_plain, column.to_pylist()) for column in table.columns), strict=True))


def check_same(ours: Rows, theirs: Rows, who: str, *, only_doubles: bool = False) -> None:
    """AssertionError with the first rows that differ; with ``only_doubles``, decimals must be equal."""
    if len(ours) != len(theirs):
        raise AssertionError(f"{who}: {len(ours)} rows and {len(theirs)}")
    for one, other in zip(sorted(ours, key=_key), sorted(theirs, key=_key), strict=True):
        same = _is_same_or_near if only_doubles else _is_same
        if len(one) != len(other) or not all(map(same, one, other)):
            raise AssertionError(f"{who}: {one} and {other}")


_LAST: Final = 1_000_000
"""Above the places of all columns."""


def _key(row: tuple[Any, ...]) -> list[tuple[int, Any]]:
    """Exact values decide first; numbers come as they are printed with few digits, and NaN after them."""
    numbers = (int, float, Decimal)
    exact: list[tuple[int, Any]] = [
        (place, str(each)) for place, each in enumerate(row) if not isinstance(each, numbers)
    ]
    return exact + [_number_key(each) for each in row if isinstance(each, numbers)]


def _number_key(value: float | Decimal) -> tuple[int, float]:
    """Numbers come after all texts: a null in place of a number is a text."""
    return (_LAST + 1, 0.0) if isnan(value) else (_LAST, float(f"{value:.6g}"))


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, float | Decimal) and isinstance(other, float | Decimal | int):
        both = float(one), float(other)
        return isclose(*both, rel_tol=1e-9, abs_tol=1e-6) or all(map(isnan, both))
    return one == other


def _is_same_or_near(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or (isnan(one) and isnan(other))
    return type(one) is type(other) and one == other
