"""Whether two answers to one query are the same: rows in any order, and doubles up to their last digits.

Engines add doubles and divide decimals in other orders, or with other digits; everything else must be equal.
"""

from decimal import Decimal
from math import isclose, isnan, nan
from typing import Any

import pyarrow as pa

Rows = list[tuple[Any, ...]]


def added_up(changes: list[pa.Table]) -> Rows:
    """The rows that are there after all changes of a view, as often as they are there."""
    counts: dict[tuple[Any, ...], int] = {}
    for table in changes:
        columns = [_with_one_nan(column.to_pylist()) for column in table.columns]
        for *row, diff in zip(*columns, strict=True):
            counts[tuple(row)] = counts.get(tuple(row), 0) + diff
    if negative := [row for row, count in counts.items() if count < 0]:
        raise AssertionError(f"rows that are there less than never: {negative[:3]}")
    return [row for row, count in counts.items() for _ in range(count)]


def _with_one_nan(values: list[Any]) -> list[Any]:
    """The same values, in which every NaN is one object: two of them are not equal, and so not one key."""
    return [nan if isinstance(each, float) and isnan(each) else each for each in values]


def rows_of_table(table: pa.Table) -> Rows:
    """The rows of a table."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def check_same(ours: Rows, theirs: Rows, who: str) -> None:
    """AssertionError with the first rows that differ."""
    if len(ours) != len(theirs):
        raise AssertionError(f"{who}: {len(ours)} rows and {len(theirs)}")
    for one, other in zip(sorted(ours, key=_key), sorted(theirs, key=_key), strict=True):
        if len(one) != len(other) or not all(map(_is_same, one, other)):
            raise AssertionError(f"{who}: {one} and {other}")


def _key(row: tuple[Any, ...]) -> list[tuple[int, Any]]:
    """Exact values decide first; numbers come as they are printed with few digits."""
    numbers = (int, float, Decimal)
    exact = [(1, str(each)) for each in row if not isinstance(each, numbers)]
    return exact + [(0, float(f"{each:.6g}")) for each in row if isinstance(each, numbers)]


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, float | Decimal) and isinstance(other, float | Decimal | int):
        both = float(one), float(other)
        return isclose(*both, rel_tol=1e-9, abs_tol=1e-6) or all(map(isnan, both))
    return one == other
