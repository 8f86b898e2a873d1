"""The operator of window functions: ``over``.

A group is put in order as a whole whenever one of its rows changes, so a change costs the rows of its key.
Only rows for which something differs are sent.

Invariant: what is made for a row depends on the rows of its group alone, and not on other groups beside it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from pointstamp.arrangement.consolidate import DIFF, Integers
from pointstamp.arrangement.groups import Grouped
from pointstamp.arrangement.ordering import Ordered, Ranks, ordering, ranks, value_ranks
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.select_columns import check_columns
from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.flow.physical_stream import PhysicalStream
from pointstamp.incremental import operations
from pointstamp.incremental.aggregation import ALL
from pointstamp.incremental.column_names import check_new_names, weighed
from pointstamp.incremental.group_values import (
    Places,
    average_type,
    averages,
    decimal_of,
    firsts_of,
    plain,
    without_point,
)
from pointstamp.incremental.requested_aggregates import result_type
from pointstamp.incremental.window_functions import NUMBERS, OrderFunction, OrderKind, RowFrame
from pointstamp.reduce.accumulators import SumTooLarge, floats_of
from pointstamp.reduce.binding import Arguments, plain_type


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
    """The rows of groups, each copy a separate row, in the order of groups and in that of the rows."""

    group: Places
    starts: Places
    """For each row, where its group begins."""
    ends: Places
    """For each row, where its group ends."""
    peers: Places
    """For each row, the first one of its group that the order holds for equal."""


# Values of the rows around a row: from so many before it to so many behind it, in its group.
#
# What a row gets depends on the rows of its frame alone, floats too: they are added one after the other, and
# never as a difference of larger sums. A frame that has all rows on one side is read off what was
# consolidated from there on; of another one, the rows are looked at one after the other, for all frames at
# once.

_INTEGERS: Final = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
SURE_TO_FIT: Final = 2.0**62
"""Below this a sum of magnitudes, as a float, is sure to be less than the greatest int64."""


@dataclass(frozen=True, slots=True)
class RowFrames:
    """For each row, where its group and its frame begin and end; a frame may have no rows."""

    starts: Places
    ends: Places
    first: Places
    end: Places
    has_all_before: bool
    has_all_behind: bool

    @property
    def is_empty(self) -> npt.NDArray[np.bool_]:
        """Whether a frame has no rows."""
        return np.asarray(self.end <= self.first)

    def combined(self, combine: np.ufunc, values: npt.NDArray[Any], nothing: float) -> npt.NDArray[Any]:
        """The values of each frame combined, from one end to the other; ``nothing`` where there are none."""
        made = np.full(len(values), nothing, values.dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            if self.has_all_before or self.has_all_behind:
                so_far = self._so_far(combine, values)
                at = self.end - 1 if self.has_all_before else self.first
                made[~self.is_empty] = so_far[at[~self.is_empty]]
                return made
            for step in range(int((self.end - self.first).max(initial=0))):
                at = self.first + step
                is_in = at < self.end
                made[is_in] = combine(made[is_in], values[at[is_in]])
        return made

    def _so_far(self, combine: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What there is from the beginning of a group up to each row, or from its end."""
        made = np.empty_like(values)
        for start, end in zip(*_bounds(self.starts, self.ends), strict=True):
            if self.has_all_before:
                combine.accumulate(values[start:end], out=made[start:end])
            else:
                made[start:end] = combine.accumulate(values[start:end][::-1])[::-1]
        return made


def frames_of(starts: Places, ends: Places, peers: Places, frame: RowFrame) -> RowFrames:
    """The frames of rows whose groups begin and end so; ``peers`` are the first rows equal to each."""
    at = np.arange(len(starts))
    first = starts if frame.before is None else np.maximum(at - frame.before, starts)
    if frame.behind is None:
        end = ends
    elif frame.with_equals:
        # The rows that are equal to one end where those of the next place begin.
        begins = np.append(np.flatnonzero(peers == at), len(at))
        end = begins[np.searchsorted(begins, at, side="right")]
    else:
        end = np.minimum(at + frame.behind + 1, ends)
    first = np.minimum(first, ends)
    end = np.maximum(end, first)
    return RowFrames(starts, ends, first, end, frame.before is None, frame.behind is None)


def frames_by_distance(
    starts: Places, ends: Places, values: pa.Array, by: Ordered, frame: RowFrame
) -> RowFrames:
    """The frames of rows by how far the values are that they are ordered by; nulls have a frame of nulls."""
    is_null = np.asarray(values.is_null().to_numpy(zero_copy_only=False), np.bool_)
    numbers = values.view(_INTEGERS[values.type.bit_width]).fill_null(0)
    keys = numbers.to_numpy().astype(np.int64)
    keys = ~keys if by.descends else keys  # as far from each other, in the order of the rows
    first, end = starts.copy(), ends.copy()
    for start, stop in zip(*_bounds(starts, ends), strict=True):
        nulls = int(np.count_nonzero(is_null[start:stop]))
        begin, until = (start, stop - nulls) if by.nulls_last else (start + nulls, stop)
        own, rows = keys[begin:until], slice(begin, until)
        null_rows = slice(until, stop) if by.nulls_last else slice(start, begin)
        if frame.before is not None:
            first[rows] = begin + np.searchsorted(own, _moved(own, -frame.before), "left")
            first[null_rows] = null_rows.start
        if frame.behind is not None:
            end[rows] = begin + np.searchsorted(own, _moved(own, frame.behind), "right")
            end[null_rows] = null_rows.stop
    end = np.maximum(end, first)
    return RowFrames(starts, ends, first, end, frame.before is None, frame.behind is None)


def _bounds(starts: Places, ends: Places) -> tuple[list[int], list[int]]:
    """Where each group begins and ends."""
    firsts = np.flatnonzero(starts == np.arange(len(starts)))
    return firsts.tolist(), ends[firsts].tolist()


def _moved(numbers: npt.NDArray[np.int64], by: int) -> npt.NDArray[np.int64]:
    """Numbers that are so much greater or less, as far as there are such numbers."""
    room = np.iinfo(np.int64)
    if by >= 0:
        return np.asarray(np.minimum(numbers, room.max - by) + by)
    return np.asarray(np.maximum(numbers, room.min - by) + by)


def end_with_value(frames: RowFrames, values: pa.Array, *, is_last: bool) -> pa.Array:
    """The first value of each frame that is not null, or the last one; null where there is none."""
    is_valid = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    valid = np.flatnonzero(is_valid)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_valid)])
    wanted = before[frames.end] - 1 if is_last else before[frames.first]
    has_value = before[frames.end] > before[frames.first]
    at = np.append(valid, 0)[np.where(has_value, wanted, -1)]
    return values.take(pa.array(at, mask=~has_value))


def counts(frames: RowFrames, values: pa.Array | None) -> pa.Array:
    """How many rows there are, or values that are not null."""
    if values is None:
        return pa.array(frames.end - frames.first)
    return pa.array(_number_of_values(frames, values))


def _frame_sums(frames: RowFrames, values: pa.Array) -> pa.Array:
    has_value = _number_of_values(frames, values) > 0
    made = _added(frames, values)
    if isinstance(made, np.ndarray):
        return pa.array(made, mask=~has_value)
    wide = pa.decimal256(76, values.type.scale) if types.is_decimal(values.type) else pa.int64()
    return pa.array([each if has else None for each, has in zip(made, has_value, strict=True)], wide)


def _frame_means(frames: RowFrames, values: pa.Array) -> pa.Array:
    made = zip(_added(frames, values), _number_of_values(frames, values).tolist(), strict=True)
    return pa.array([float(total) / count if count else None for total, count in made], pa.float64())


def _frame_averages(frames: RowFrames, values: pa.Array) -> pa.Array:
    if not types.is_decimal(values.type):
        return _frame_means(frames, values)
    totals = _frame_exact(frames, without_point(values))
    counted = _number_of_values(frames, values).tolist()
    return averages(totals, counted, values.type.scale, average_type(values.type))


def _least(frames: RowFrames, values: pa.Array) -> pa.Array:
    found = value_ranks(values)
    nothing = int(found.max(initial=-1)) + 1
    return _of_rank(frames, values, np.where(found < 0, nothing, found), nothing)


def _greatest(frames: RowFrames, values: pa.Array) -> pa.Array:
    found = value_ranks(values)
    nothing = int(found.max(initial=-1)) + 1
    return _of_rank(frames, values, np.where(found < 0, nothing, nothing - 1 - found), nothing)


def _first(frames: RowFrames, values: pa.Array) -> pa.Array:
    return values.take(pa.array(np.minimum(frames.first, max(len(values) - 1, 0)), mask=frames.is_empty))


def _last(frames: RowFrames, values: pa.Array) -> pa.Array:
    return values.take(pa.array(np.maximum(frames.end - 1, 0), mask=frames.is_empty))


def _of_rank(frames: RowFrames, values: pa.Array, key: npt.NDArray[Any], nothing: int) -> pa.Array:
    """The value with the least key of each frame; null where all keys are ``nothing``."""
    found = frames.combined(np.minimum, key, nothing)
    place = np.zeros(nothing + 1, np.intp)
    place[key] = np.arange(len(key))
    return values.take(pa.array(place[found], mask=found == nothing))


def _added(frames: RowFrames, values: pa.Array) -> npt.NDArray[Any] | list[Any]:
    """The sums of the values, null counting as 0: of integers and decimals as Python has them."""
    if types.is_floating(values.type):
        return frames.combined(np.add, floats_of(values.fill_null(0.0)), 0.0)
    if types.is_signed_integer(values.type):
        numbers = values.fill_null(0).cast(pa.int64()).to_numpy()
        if float(np.abs(numbers.astype(np.float64)).sum()) < SURE_TO_FIT:
            return _differences(frames, numbers)
    if types.is_decimal(values.type):
        return [decimal_of(each, values.type.scale) for each in _frame_exact(frames, without_point(values))]
    return _frame_exact(frames, [0 if each is None else each for each in values.to_pylist()])


def _frame_exact(frames: RowFrames, numbers: list[int]) -> list[int]:
    """The sums of whole numbers of any size."""
    so_far = [0, *accumulate(numbers)]
    ends = zip(frames.first.tolist(), frames.end.tolist(), strict=True)
    return [so_far[end] - so_far[begin] for begin, end in ends]


def _number_of_values(frames: RowFrames, values: pa.Array) -> npt.NDArray[np.int64]:
    return _differences(frames, np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.int64))


def _differences(frames: RowFrames, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The sums of integers that are sure to fit."""
    so_far = np.concatenate([[0], np.cumsum(numbers)])
    return np.asarray(so_far[frames.end] - so_far[frames.first])


OF_FRAMES: Final[Mapping[str, Callable[[RowFrames, pa.Array], pa.Array]]] = {
    "running_count": counts,
    "running_sum": _frame_sums,
    "running_mean": _frame_means,
    "running_avg": _frame_averages,
    "running_min": _least,
    "running_max": _greatest,
    "first_value": _first,
    "last_value": _last,
}
"""The values of frames, by the functions that they are called as elsewhere; null where there is none."""


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
    """The sums of integers up to each row, in its group."""
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


# How ``over`` is built: its functions checked against the columns, and the operator added.


def ordered(
    changes: PhysicalStream,
    keys: tuple[str, ...],
    by: str | Iterable[str],
    wanted: Mapping[str, object],
    name: str,
    who: str,
) -> PhysicalStream:
    """The rows with more columns: what their place among the rows of their key says of them."""
    schema = operations.rows_schema(changes)
    check_columns(who, schema, keys)
    order = ordering(who, schema, by)
    arguments = Arguments(schema.names)
    added = place_columns(who, schema, wanted, arguments)
    one_key: dict[str, Expression] = {} if keys else {ALL: lit(0, pa.int8())}
    looked_at = operations.selected(changes, f"{name}: arguments", {**arguments.columns, **one_key}, who)
    fields = [pa.field(column, each.result_type) for column, each in added.items()]
    kept = (*schema.names, *one_key)
    result = pa.schema([*(looked_at.schema.field(column) for column in kept), *fields])
    function = Placing(kept, order, added, weighed(who, result))
    made = operations.on_groups(looked_at, name, keys or (ALL,), function, result)
    if keys:
        return made
    return operations.selected(made, "drop", {each: col(each) for each in result.names if each != ALL}, who)


def place_columns(
    who: str, schema: pa.Schema, wanted: Mapping[str, object], arguments: Arguments
) -> dict[str, PlaceColumn]:
    """Return the columns that functions of a row's place add, checked against the columns of the rows."""
    added = {
        column: _checked(f"{who}, '{column}'", schema, each, arguments) for column, each in wanted.items()
    }
    if not added:
        raise FlowError(f"{who}: no function was given. Name one, for example before=ps.lag('price').")
    if twice := [column for column in added if column in schema.names]:
        raise SchemaError(f"{who}: the column '{twice[0]}' already exists. Give the new one another name.")
    check_new_names(who, added)
    return added


def _checked(who: str, schema: pa.Schema, function: object, arguments: Arguments) -> PlaceColumn:
    if not isinstance(function, OrderFunction):
        raise FlowError(
            f"{who} must be a function of ordered rows, got {function} of type {type(function).__name__}. "
            "Write one such as ps.lag('price') or ps.row_number()."
        )
    if function.column is None:
        return PlaceColumn(function.kind, None, pa.int64(), frame=function.frame)
    given = col(function.column) if isinstance(function.column, str) else function.column
    found = plain_type(compile_expression(given, schema, who).type)
    gives = pa.int64() if function.kind in NUMBERS else _type(function.kind, found, who)
    try:
        default = None if function.default is None else pa.scalar(function.default, gives).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(
            f"{who}: the default {function.default!r} is not a value of type {gives}: {error}"
        ) from error
    column = arguments.of(function.column)
    return PlaceColumn(
        function.kind, column, gives, function.offset, default, function.frame, function.ignores_nulls
    )


def _type(kind: str, found: pa.DataType, who: str) -> pa.DataType:
    if kind.startswith("running_"):
        return result_type(kind.removeprefix("running_"), found, who)
    return found
