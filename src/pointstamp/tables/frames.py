"""Values of the rows around a row: from so many before it to so many behind it, in its group.

What a row gets depends on the rows of its frame alone, floats too: they are added one after the other, and
never as a difference of larger sums. A frame that has all rows on one side is read off what was added up from
there on; of another one, the rows are looked at one after the other, for all frames at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from pointstamp.reduce.accumulators import floats_of
from pointstamp.tables.aggregates.decimals import average_type, averages, decimal_of, without_point
from pointstamp.tables.aggregates.group_values import Places
from pointstamp.tables.in_order import RowFrame
from pointstamp.tables.kept.ordering import Ordered, value_ranks

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


def _sums(frames: RowFrames, values: pa.Array) -> pa.Array:
    has_value = _number_of_values(frames, values) > 0
    made = _added(frames, values)
    if isinstance(made, np.ndarray):
        return pa.array(made, mask=~has_value)
    wide = pa.decimal256(76, values.type.scale) if types.is_decimal(values.type) else pa.int64()
    return pa.array([each if has else None for each, has in zip(made, has_value, strict=True)], wide)


def _means(frames: RowFrames, values: pa.Array) -> pa.Array:
    made = zip(_added(frames, values), _number_of_values(frames, values).tolist(), strict=True)
    return pa.array([float(total) / count if count else None for total, count in made], pa.float64())


def _averages(frames: RowFrames, values: pa.Array) -> pa.Array:
    if not types.is_decimal(values.type):
        return _means(frames, values)
    totals = _exact(frames, without_point(values))
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
    """The sums of the values, null counting as 0: of whole numbers and decimals as Python has them."""
    if types.is_floating(values.type):
        return frames.combined(np.add, floats_of(values.fill_null(0.0)), 0.0)
    if types.is_signed_integer(values.type):
        numbers = values.fill_null(0).cast(pa.int64()).to_numpy()
        if float(np.abs(numbers.astype(np.float64)).sum()) < SURE_TO_FIT:
            return _differences(frames, numbers)
    if types.is_decimal(values.type):
        return [decimal_of(each, values.type.scale) for each in _exact(frames, without_point(values))]
    return _exact(frames, [0 if each is None else each for each in values.to_pylist()])


def _exact(frames: RowFrames, numbers: list[int]) -> list[int]:
    """The sums of whole numbers of any size."""
    so_far = [0, *accumulate(numbers)]
    ends = zip(frames.first.tolist(), frames.end.tolist(), strict=True)
    return [so_far[end] - so_far[begin] for begin, end in ends]


def _number_of_values(frames: RowFrames, values: pa.Array) -> npt.NDArray[np.int64]:
    return _differences(frames, np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.int64))


def _differences(frames: RowFrames, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The sums of whole numbers that are sure to fit."""
    so_far = np.concatenate([[0], np.cumsum(numbers)])
    return np.asarray(so_far[frames.end] - so_far[frames.first])


OF_FRAMES: Final[Mapping[str, Callable[[RowFrames, pa.Array], pa.Array]]] = {
    "running_count": counts,
    "running_sum": _sums,
    "running_mean": _means,
    "running_avg": _averages,
    "running_min": _least,
    "running_max": _greatest,
    "first_value": _first,
    "last_value": _last,
}
"""The values of frames, by the functions that they are called as elsewhere; null where there is none."""
