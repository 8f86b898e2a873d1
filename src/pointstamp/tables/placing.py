"""Rows with what their place among the rows of their key says of them; the function of ``over``.

A group is put in order as a whole whenever one of its rows changes, so a change costs the rows of its key.
Only rows for which something differs are sent.

Invariant: what is made for a row depends on the rows of its group alone, and not on other groups beside it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from pointstamp.errors import FlowError
from pointstamp.reduce.accumulators import SumTooLarge, floats_of
from pointstamp.tables.aggregates.decimals import average_type, averages, decimal_of, without_point
from pointstamp.tables.aggregates.group_values import Places, firsts_of, plain
from pointstamp.tables.frames import (
    OF_FRAMES,
    SURE_TO_FIT,
    RowFrames,
    counts,
    end_with_value,
    frames_by_distance,
    frames_of,
)
from pointstamp.tables.in_order import OrderKind, RowFrame
from pointstamp.tables.kept.groups import Grouped
from pointstamp.tables.kept.ordering import Ordered, Ranks, ranks, value_ranks
from pointstamp.tables.kept.weights import DIFF, Integers


@dataclass(frozen=True, slots=True)
class PlaceColumn:
    """One column that ``over`` adds: which function, of which column, and the type that it gives."""

    kind: OrderKind
    column: str | None
    result_type: pa.DataType
    offset: int = 1
    default: Any = None
    frame: RowFrame | None = None
    ignores_nulls: bool = False
    """Whether lag, lead, the first and the last value look at rows only that have a value."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """The rows of groups, each copy a row of its own, in the order of groups and in that of the rows."""

    group: Places
    starts: Places
    """For each row, where its group begins."""
    ends: Places
    """For each row, where its group ends."""
    peers: Places
    """For each row, the first one of its group that the order holds for equal."""


@dataclass(frozen=True, slots=True)
class Placing:
    """The function of ``over``: from groups to their rows with more columns."""

    columns: tuple[str, ...]
    """Those of the rows that come out, which also decide what the order leaves open."""
    by: tuple[Ordered, ...]
    added: Mapping[str, PlaceColumn]
    result: pa.Schema

    def __call__(self, groups: Grouped) -> pa.RecordBatch:
        """The rows, each copy by itself, with the columns that are added."""
        of = np.repeat(np.arange(len(groups.starts)), np.diff(groups.starts, append=groups.rows.num_rows))
        order, wanted = self._order(groups.rows, of)
        order = np.repeat(order, groups.rows.column(DIFF).to_numpy()[order])
        ranked = _ranked(of[order], [each[order] for each in wanted])
        rows = groups.rows.take(pa.array(order))
        made = [rows.column(name) for name in self.columns]
        for name, each in self.added.items():
            values = None if each.column is None else plain(rows.column(each.column))
            if each.frame is None or each.kind in _PLACES:
                made.append(_placed(name, each, ranked, values))
            else:
                made.append(_framed(name, each, self._frames(ranked, rows, each.frame), values))
        ones = pa.array(np.ones(len(order), np.int64))
        return pa.RecordBatch.from_arrays([*made, ones], schema=self.result)

    def _frames(self, ranked: Ranked, rows: pa.RecordBatch, frame: RowFrame) -> RowFrames:
        if not frame.by_distance:
            return frames_of(ranked.starts, ranked.ends, ranked.peers, frame)
        (by,) = self.by
        return frames_by_distance(ranked.starts, ranked.ends, plain(rows.column(by.column)), by, frame)

    def _order(self, rows: pa.RecordBatch, of: Places) -> tuple[Places, list[Ranks]]:
        """The rows by group and in their order, and the ranks by which they were put in order."""
        wanted = ranks(rows, self.by)
        order = np.lexsort([*reversed(wanted), of])
        keys = [of[order], *(each[order] for each in wanted)]
        if len(order) and np.logical_and.reduce([each[1:] == each[:-1] for each in keys]).any():
            named = {each.column for each in self.by}
            rest = ranks(rows, [Ordered(name) for name in self.columns if name not in named])
            order = np.lexsort([*reversed(rest), *reversed(wanted), of])
        return order, wanted


def _ranked(group: Places, by: list[Ranks]) -> Ranked:
    count = len(group)
    firsts = firsts_of(group)
    sizes = np.diff(firsts, append=count)
    is_new = np.zeros(count, np.bool_)
    is_new[firsts] = True
    for each in by:
        is_new[1:] |= each[1:] != each[:-1]
    peers = np.flatnonzero(is_new)[np.cumsum(is_new) - 1] if count else group
    return Ranked(group, np.repeat(firsts, sizes), np.repeat(firsts + sizes, sizes), peers)


def _placed(name: str, each: PlaceColumn, ranked: Ranked, values: pa.Array | None) -> pa.Array:
    if each.kind in _PLACES:
        return pa.array(_PLACES[each.kind](ranked))
    if values is None:  # rows are counted
        return pa.array(np.arange(len(ranked.group)) - ranked.starts + 1)
    if each.kind in ("lag", "lead"):
        return _neighbour(each, ranked, values)
    if each.ignores_nulls:
        whole = RowFrames(ranked.starts, ranked.ends, ranked.starts, ranked.ends, True, True)
        return end_with_value(whole, values, is_last=each.kind == "last_value").cast(each.result_type)
    return _fitting(name, each, partial(_VALUES[each.kind], ranked, values))


def _framed(name: str, each: PlaceColumn, frames: RowFrames, values: pa.Array | None) -> pa.Array:
    if values is None:
        return counts(frames, None)
    if each.ignores_nulls:
        return end_with_value(frames, values, is_last=each.kind == "last_value").cast(each.result_type)
    return _fitting(name, each, partial(OF_FRAMES[each.kind], frames, values))


def _fitting(name: str, each: PlaceColumn, make: Callable[[], pa.Array]) -> pa.Array:
    """What is made, as the type that was said; FlowError where a sum does not fit."""
    try:
        made = make()
        return made if made.type == each.result_type else made.cast(each.result_type)
    except (OverflowError, pa.ArrowInvalid, SumTooLarge) as error:
        raise FlowError(
            f"the running sum '{name}' of a key does not fit {each.result_type}. Cast the values to "
            f"double, or to a decimal with more digits: {error}"
        ) from error


# Places.


def _row_number(ranked: Ranked) -> Integers:
    return np.asarray(np.arange(len(ranked.group)) - ranked.starts + 1)


def _rank(ranked: Ranked) -> Integers:
    return np.asarray(ranked.peers - ranked.starts + 1)


def _dense_rank(ranked: Ranked) -> Integers:
    number = np.cumsum(ranked.peers == np.arange(len(ranked.group)))
    return np.asarray(number - number[ranked.starts] + 1)


_PLACES: Final[Mapping[str, Callable[[Ranked], Integers]]] = {
    "row_number": _row_number,
    "rank": _rank,
    "dense_rank": _dense_rank,
}


# Values of other rows.


def _neighbour(each: PlaceColumn, ranked: Ranked, values: pa.Array) -> pa.Array:
    if each.ignores_nulls and each.offset:
        at = _neighbour_with_value(each, _is_valid(values))
    else:
        at = np.arange(len(values)) + (each.offset if each.kind == "lead" else -each.offset)
    is_there = (at >= ranked.starts) & (at < ranked.ends)
    found = values.take(pa.array(np.where(is_there, at, 0), mask=~is_there))
    if each.default is None:
        return found.cast(each.result_type)
    # A null that is there stays null: the default is for rows that are not.
    whole = pa.concat_arrays([values.cast(each.result_type), pa.array([each.default], each.result_type)])
    return whole.take(pa.array(np.where(is_there, at, len(values))))


def _neighbour_with_value(each: PlaceColumn, is_valid: npt.NDArray[np.bool_]) -> Places:
    """Where the value stands that is so many values before or behind each row; -1 if nowhere."""
    values = np.flatnonzero(is_valid)
    up_to = np.cumsum(is_valid)
    wanted = up_to + each.offset - 1 if each.kind == "lead" else up_to - is_valid - each.offset
    is_there = (wanted >= 0) & (wanted < len(values))
    return np.where(is_there, np.append(values, -1)[np.where(is_there, wanted, -1)], -1)


def _end(ranked: Ranked, values: pa.Array, *, is_last: bool) -> pa.Array:
    return values.take(pa.array(ranked.ends - 1 if is_last else ranked.starts))


# Values up to the row.


def _counts(ranked: Ranked, values: pa.Array) -> pa.Array:
    return pa.array(_up_to(ranked, _is_valid(values).astype(np.int64)))


def _sums(ranked: Ranked, values: pa.Array) -> pa.Array:
    has_value = _up_to(ranked, _is_valid(values).astype(np.int64)) > 0
    made = _running(ranked, values)
    if isinstance(made, np.ndarray):
        return pa.array(made, mask=~has_value)
    wide = pa.decimal256(76, values.type.scale) if types.is_decimal(values.type) else pa.int64()
    return pa.array([each if has else None for each, has in zip(made, has_value, strict=True)], wide)


def _means(ranked: Ranked, values: pa.Array) -> pa.Array:
    counts = _up_to(ranked, _is_valid(values).astype(np.int64))
    made = zip(_running(ranked, values), counts.tolist(), strict=True)
    return pa.array([float(total) / count if count else None for total, count in made], pa.float64())


def _averages(ranked: Ranked, values: pa.Array) -> pa.Array:
    if not types.is_decimal(values.type):
        return _means(ranked, values)
    counts = _up_to(ranked, _is_valid(values).astype(np.int64)).tolist()
    totals = _exact(ranked, without_point(values))
    return averages(totals, counts, values.type.scale, average_type(values.type))


def _running(ranked: Ranked, values: pa.Array) -> npt.NDArray[Any] | list[Any]:
    """The sums up to each row, null counting as 0: of numbers that may be large as Python has them."""
    if types.is_floating(values.type):
        return _float_sums(ranked, floats_of(values.fill_null(0.0)))
    if types.is_signed_integer(values.type):
        numbers = values.fill_null(0).cast(pa.int64()).to_numpy()
        if float(np.abs(numbers.astype(np.float64)).sum()) < SURE_TO_FIT:
            return _up_to(ranked, numbers)
    if types.is_decimal(values.type):
        return [decimal_of(each, values.type.scale) for each in _exact(ranked, without_point(values))]
    return _exact(ranked, [0 if each is None else each for each in values.to_pylist()])


def _exact(ranked: Ranked, numbers: list[int]) -> list[int]:
    """The sums up to each row of whole numbers of any size."""
    made: list[int] = []
    for start, end in _groups(ranked):
        made.extend(accumulate(numbers[start:end]))
    return made


def _extremes(ranked: Ranked, values: pa.Array, *, is_greatest: bool) -> pa.Array:
    found = value_ranks(values)
    # A null is behind all values, on whichever side they are looked for.
    span = int(found.max(initial=-1)) + 2
    key = np.where(found < 0, span - 1, span - 2 - found if is_greatest else found)
    # Each group lies below the one before it, so that nothing of that one is less.
    lower = ranked.group * span
    least = np.minimum.accumulate(key - lower) + lower if len(key) else key
    some = np.zeros(span, np.intp)
    some[key] = np.arange(len(key))
    return values.take(pa.array(some[least]))


def _up_to(ranked: Ranked, numbers: Integers) -> Integers:
    """The sums of whole numbers up to each row, in its group."""
    sums = np.cumsum(numbers)
    return np.asarray(sums - (sums - numbers)[ranked.starts]) if len(sums) else sums


def _float_sums(ranked: Ranked, floats: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The same of floats: each group by itself, because a difference of large sums is not a small sum."""
    made = np.empty(len(floats))
    with np.errstate(invalid="ignore", over="ignore"):
        for start, end in _groups(ranked):
            np.cumsum(floats[start:end], out=made[start:end])
    return made


def _groups(ranked: Ranked) -> list[tuple[int, int]]:
    starts = firsts_of(ranked.group)
    return list(zip(starts.tolist(), ranked.ends[starts].tolist(), strict=True))


def _is_valid(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)


_VALUES: Final[Mapping[str, Callable[[Ranked, pa.Array], pa.Array]]] = {
    "first_value": partial(_end, is_last=False),
    "last_value": partial(_end, is_last=True),
    "running_count": _counts,
    "running_sum": _sums,
    "running_mean": _means,
    "running_avg": _averages,
    "running_min": partial(_extremes, is_greatest=False),
    "running_max": partial(_extremes, is_greatest=True),
}
