"""Functions of all values of a group, which an aggregate has collected in a list.

They are what is left of an aggregate that no sum, extreme or count is made of: the list is kept up to date,
and the function is called for the groups whose list has changed. What they give depends on the values alone
and never on their order, so floats are added exactly. An empty list gives null.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import and_, or_, xor
from typing import Any, Final

import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.expressions.by_row import register_by_row
from pointstamp.expressions.nested import identity_of, list_of, order_of
from pointstamp.expressions.type_rules import DOUBLE

_BITS: Final[Mapping[str, Callable[[int, int], int]]] = {"and": and_, "or": or_, "xor": xor}


def _element(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> pa.DataType:
    del what, options
    return found[0].value_type


def _bits(values: list[int], operation: str) -> int | None:
    """All values combined bit by bit.

    >>> _bits([3, 5], "xor")
    6
    """
    return reduce(_BITS[operation], values) if values else None


def _mode(values: list[Any], takes_greatest: bool) -> Any:  # noqa: ANN401 - any value
    """The value that is there most often, and the least (or greatest) of several.

    >>> _mode([1, 3, 2, 3, 1], takes_greatest=False)
    1
    """
    best, most = None, 0
    for _, group in groupby(sorted(values, key=order_of, reverse=takes_greatest), key=identity_of):
        same = list(group)
        if len(same) > most:
            best, most = same[0], len(same)
    return best + 0.0 if isinstance(best, float) else best


def _quantiles(
    pairs: list[dict[str, Any]], fractions: tuple[float, ...], is_discrete: bool, is_reversed: bool
) -> list[float] | None:
    """The values at fractions of the order, each as often as its frequency says.

    >>> _quantiles([{"value": 0, "times": 1}, {"value": 10, "times": 1}], (0.25,), False, False)
    [2.5]
    """
    counted = [(pair["value"], pair["times"]) for pair in pairs if pair["times"] is not None]
    if negative := next((times for _, times in counted if times < 0), 0):
        raise FlowError(f"the frequency of a percentile must be 0 or more, got {negative}.")
    ordered = sorted(counted, key=lambda pair: order_of(pair[0]), reverse=is_reversed)
    total = sum(times for _, times in ordered)
    if not total:
        return None

    def at(place: int) -> float:
        """The value at a place, which counts from 1."""
        for value, times in ordered:
            place -= times
            if place <= 0 and times:
                return float(value)
        raise AssertionError("a place after the last")

    found = []
    for fraction in fractions:
        if is_discrete:
            found.append(at(max(math.ceil(total * fraction), 1)))
            continue
        position = (total - 1) * fraction
        lower, upper = math.floor(position), math.ceil(position)
        low, high = at(lower + 1), at(upper + 1)
        found.append(low if low == high else low + (position - lower) * (high - low))
    return found


def _joined(
    rows: list[dict[str, Any]], delimiter: str | bytes, directions: tuple[tuple[bool, bool], ...]
) -> str | bytes | None:
    """The values of rows in an order, with a delimiter between; rows that it leaves equal by their value.

    >>> _joined([{"value": "b", "order0": 1}, {"value": "a", "order0": 2}], "-", ((True, True),))
    'a-b'
    """
    ordered = sorted(rows, key=lambda row: order_of(row["value"]))
    for place in reversed(range(len(directions))):
        is_descending, are_nulls_last = directions[place]
        name = f"order{place}"
        ordered.sort(key=lambda row, of=name: order_of(row[of]), reverse=is_descending)  # type: ignore[misc]
        ordered.sort(key=lambda row, of=name: (row[of] is None) == are_nulls_last)  # type: ignore[misc]
    parts = [row["value"] for row in ordered]
    if not parts:
        return None
    return delimiter.join(parts)


def _value(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> pa.DataType:
    del what, options
    return found[0].value_type.field("value").type


# Moments.


def _moment(values: list[float], kind: str) -> float | None:
    """A moment about the mean: sxx, skewness or kurtosis."""
    count = len(values)
    if not count:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = math.fsum(values) / count
    parts = [each - mean for each in values]
    second = _sum_of_squares(values, parts)
    if kind == "sxx":
        return second
    if second == 0:
        return None
    if kind == "skewness":
        return math.sqrt(count) * math.fsum(each**3 for each in parts) / math.sqrt(second**3)
    return count * math.fsum(each**4 for each in parts) / (second * second) - 3.0


def _sum_of_squares(values: Sequence[float], parts: Sequence[float]) -> float:
    """The sum of the squares of distances from the mean, which is 0 exactly if all values are one."""
    return 0.0 if min(values) == max(values) else math.fsum(each * each for each in parts)


def _pair_moment(pairs: list[dict[str, float]], kind: str) -> float | None:
    """A moment of pairs: of two that belong together, x and y.

    >>> pairs = [{"x": 1.0, "y": 2.0}, {"x": 2.0, "y": 4.0}]
    >>> _pair_moment(pairs, "corr"), _pair_moment(pairs, "regr_slope")
    (1.0, 2.0)
    """
    count = len(pairs)
    if not count:
        return None
    xs, ys = [pair["x"] for pair in pairs], [pair["y"] for pair in pairs]
    if not all(map(math.isfinite, xs)) or not all(map(math.isfinite, ys)):
        return None if kind == "covar_samp" and count == 1 else math.nan
    x_mean, y_mean = math.fsum(xs) / count, math.fsum(ys) / count
    x_parts, y_parts = [x - x_mean for x in xs], [y - y_mean for y in ys]
    sxx, syy = _sum_of_squares(xs, x_parts), _sum_of_squares(ys, y_parts)
    sxy = 0.0 if not sxx or not syy else math.fsum(map(float.__mul__, x_parts, y_parts))
    if kind == "covar_pop":
        return sxy / count
    if kind == "covar_samp":
        return sxy / (count - 1) if count > 1 else None
    if kind == "sxy":
        return sxy
    if kind == "corr":
        return sxy / math.sqrt(sxx * syy) if sxx and syy else None
    if not sxx:
        return None
    if kind == "regr_slope":
        return sxy / sxx
    if kind == "regr_intercept":
        return y_mean - sxy / sxx * x_mean
    return 1.0 if not syy else sxy * sxy / (sxx * syy)  # regr_r2


def _list_of_doubles(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> pa.DataType:
    del what, found, options
    return list_of(DOUBLE)


register_by_row("bits_of_group", _bits, _element, can_fail=False)
register_by_row("mode_of_group", _mode, _element, can_fail=False)
register_by_row("quantiles_of_group", _quantiles, _list_of_doubles)
register_by_row("joined_group", _joined, _value, can_fail=False)
register_by_row("moment_of_group", _moment, DOUBLE, can_fail=False)
register_by_row("pair_moment_of_group", _pair_moment, DOUBLE, can_fail=False)
