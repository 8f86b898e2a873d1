"""Aggregates that are sums: count, sum and mean, kept as sums and not as rows.

A change of a group is added to what is kept of it, whatever the group's size. What is kept is a row for each
key whose weights are the sums themselves: how many rows there are, how many values of each column are not
null, and the limbs of their sum (``pointstamp.incremental.exact_sums``). So an arrangement adds them up as
it sums any weights: runs are merged, saved and brought to other workers as those of rows are, and in loops
they have rounds. The limbs of floats are rows besides, told apart by their place.

Invariant: a key whose rows are all gone has no row here, because all its sums are 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from math import fsum, inf, isfinite
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from pointstamp.arrangement.column_arrays import (
    KeptColumn,
    as_batch,
    kept_column,
    kept_columns,
    taken,
    width_of,
    widths_of,
)
from pointstamp.arrangement.consolidate import Integers
from pointstamp.arrow import sums as kernels
from pointstamp.errors import FlowError
from pointstamp.incremental.column_names import rows_in_words
from pointstamp.incremental.group_values import averages, decimal_of
from pointstamp.reduce.accumulators import SumTooLarge

_PLACE: Final = "__place"
_ROWS: Final = "__rows"
_MEANS: Final = ("mean", "avg")
_MANY_ROWS: Final = 10_000
_SAMPLE: Final = 1_000
_REPEATS: Final = 8
"""How often a key has to be there, in a sample, for shares to be summed before they are sorted."""
# Weights that are larger are refused, so that sums cannot come to their end unseen.
_WEIGHT_MAX: Final = 1 << 30


Results: TypeAlias = tuple[Sequence[KeptColumn], npt.NDArray[np.bool_]]
"""The aggregates of groups, and which groups are there."""
IsNull: TypeAlias = npt.NDArray[np.bool_] | None
"""Which values are null; None if none is."""


@dataclass(frozen=True, slots=True)
class LinearAggregate:
    """One aggregate that is a sum: of which column, over the rows in which another one is true."""

    kind: str
    """count, sum, mean or avg."""
    column: str | None
    result_type: pa.DataType
    where: str | None = None


def _is_grouped(found: pa.DataType) -> bool:
    """Return whether Arrow holds those values for equal that have equal keys: floats have several zeros."""
    kinds = (types.is_integer, types.is_boolean, types.is_string, types.is_date, types.is_decimal)
    return any(is_kind(found) for is_kind in kinds)


def is_linear(kind: str, column: pa.DataType | None) -> bool:
    """Whether an aggregate of a column is a sum of its rows' shares."""
    if kind == "count":
        return True
    if kind not in ("sum", *_MEANS):
        return False
    return column is not None and (types.is_floating(column) or limb_count(column) is not None)


@dataclass(frozen=True)
class Summing:
    """The sums that are kept for some aggregates, and what becomes of them."""

    schema: pa.Schema
    """The columns of the rows, and the weight."""
    keys: tuple[str, ...]
    aggregates: Mapping[str, LinearAggregate]

    @cached_property
    def counted(self) -> dict[str, tuple[str, bool]]:
        """By the name of the weight: the column that is counted, and whether where it is true.

        Otherwise it is counted where it is not null.
        """
        found = {_counts(each): (each.where or each.column, each.where is not None) for each in self._asked}
        return {name: (of, is_true) for name, (of, is_true) in found.items() if of is not None}

    @property
    def _asked(self) -> list[LinearAggregate]:
        return list(self.aggregates.values())

    @cached_property
    def added(self) -> list[str]:
        """The columns whose values are added."""
        found = {each.column for each in self.aggregates.values() if each.kind != "count"}
        return [name for name in self.schema.names if name in found]

    @cached_property
    def has_floats(self) -> bool:
        """Whether limbs have places."""
        return any(self._is_float(name) for name in self.added)

    @cached_property
    def weights(self) -> dict[str, list[str]]:
        """The names of the weights, by what they are sums of."""
        names = {_ROWS: [_ROWS]} | {name: [name] for name in self.counted}
        for name in self.added:
            count = limb_count(self.schema.field(name).type) or 1
            names[_sums(name)] = [f"{_sums(name)}_{number}" for number in range(count)]
        return names

    @cached_property
    def weight_names(self) -> tuple[str, ...]:
        """The names of all weights."""
        return tuple(name for names in self.weights.values() for name in names)

    @cached_property
    def stored(self) -> pa.Schema:
        """The columns of what is kept."""
        place = [pa.field(_PLACE, pa.int16())] if self.has_floats else []
        weights = [pa.field(name, pa.int64(), nullable=False) for name in self.weight_names]
        return pa.schema([*(self.schema.field(key) for key in self.keys), *place, *weights])

    @cached_property
    def _dtypes(self) -> tuple[np.dtype[Any] | None, ...]:
        return widths_of(self.schema)

    @cached_property
    def _positions(self) -> dict[str, int]:
        """Where each column stands."""
        return {name: at for at, name in enumerate(self.schema.names)}

    def shares(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What each row of a change adds to the sums of its key."""
        columns = kept_columns(batch, self._dtypes)
        found = self.sums_of_rows(columns)
        keys = [columns[self._positions[key]] for key in self.keys]
        if not self.has_floats:
            return as_batch([*keys, *(found[name] for name in self.weight_names)], self.stored)
        places = []
        for name in filter(self._is_float, self.added):
            at, place, limbs = float_limbs(_floats(batch.column(name)))
            places.append((f"{_sums(name)}_0", at, place, limbs * found[_ROWS][at]))
        return self._with_places(keys, found, places)

    def sums_of_rows(self, columns: Sequence[KeptColumn]) -> dict[str, Integers]:
        """What each row adds to each weight but to the limbs of floats; columns stand as in the schema."""
        weights: Integers = np.asarray(columns[-1])
        least, most = kernels.extent(weights)
        if max(-least, most) >= _WEIGHT_MAX:
            raise FlowError(
                f"weights must be less than {_WEIGHT_MAX} to be summed exactly, got "
                f"{max(weights.tolist(), key=abs)}. Use smaller weights."
            )
        found: dict[str, Integers] = {_ROWS: weights}
        for name, (of, is_true) in self.counted.items():
            column = columns[self._positions[of]]
            is_all = isinstance(column, np.ndarray)  # none is null
            found[name] = weights if is_all else weights * _counting(column, is_true=is_true)
        for name in self.added:
            if not self._is_float(name):
                limbs = limbs_of(columns[self._positions[name]], self.schema.field(name).type, weights)
                found.update(zip(self.weights[_sums(name)], limbs, strict=True))
        return found

    def few_shares(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return what a change adds to the sums of its keys, consolidated where many rows have few keys."""
        parts = self.parts(batch, _MANY_ROWS)
        return self.shares(batch) if parts is None else parts

    @cached_property
    def has_parts(self) -> bool:
        """Return whether rows can be consolidated by key before they are together in one place."""
        return all(_is_grouped(self.schema.field(key).type) for key in self.keys)

    def parts(self, batch: pa.RecordBatch, rows_min: int) -> pa.RecordBatch | None:
        """Return what rows add to the sums of their keys, by key; None unless few keys have many rows."""
        if batch.num_rows < rows_min or not self.has_parts:
            return None
        sample = pa.Table.from_batches([batch.slice(0, _SAMPLE).select(list(self.keys))])
        if sample.group_by(list(self.keys)).aggregate([]).num_rows * _REPEATS > min(batch.num_rows, _SAMPLE):
            return None
        made = self.shares(batch)
        names = [name for name in self.stored.names if name not in self.weight_names]
        sums = [(name, "sum") for name in self.weight_names]
        added = pa.Table.from_batches([made]).group_by(names, use_threads=False).aggregate(sums)
        columns = [*(added[name] for name in names), *(added[f"{name}_sum"] for name in self.weight_names)]
        return pa.RecordBatch.from_arrays([each.combine_chunks() for each in columns], schema=self.stored)

    def rows_of_shares(self, batch: pa.RecordBatch) -> npt.NDArray[np.intp]:
        """Of which row of a change each of its shares is."""
        own = np.arange(batch.num_rows)
        if not self.has_floats:
            return own
        floats = [name for name in self.added if types.is_floating(batch.schema.field(name).type)]
        return np.concatenate([own, *(float_limbs(_floats(batch.column(name)))[0] for name in floats)])

    def _with_places(
        self,
        keys: Sequence[KeptColumn],
        found: Mapping[str, Integers],
        places: Sequence[tuple[str, npt.NDArray[np.intp], npt.NDArray[np.int16], Integers]],
    ) -> pa.RecordBatch:
        """The shares of rows, and behind them those of each place of a float's limbs."""
        own = np.arange(len(found[_ROWS]))
        rows = np.concatenate([own, *(at for _, at, _, _ in places)])
        place = np.concatenate([np.zeros(len(own), np.int16), *(each for _, _, each, _ in places)])
        made = {name: np.zeros(len(rows), np.int64) for name in self.weight_names}
        for name, sums in found.items():
            made[name][: len(own)] = sums
        begin = len(own)
        for name, at, _, limbs in places:
            made[name][begin : begin + len(at)] = limbs
            begin += len(at)
        columns = [place, *(made[name] for name in self.weight_names)]
        return as_batch([*(taken(key, rows) for key in keys), *columns], self.stored)

    def results(
        self, rows: pa.RecordBatch, groups: npt.NDArray[np.intp], keys: Sequence[KeptColumn]
    ) -> tuple[list[KeptColumn], Integers]:
        """The aggregates of these keys, and how many rows each has; from what is kept of them.

        ``groups`` says of which key each of the rows is; they need not be consolidated.
        """
        count = len(keys[0])
        place = rows.column(_PLACE).to_numpy() if self.has_floats else None
        own = np.flatnonzero(place == 0) if place is not None else None
        limbs_of_floats = [_sums(name) for name in self.added if self._is_float(name)]
        names = [name for of, parts in self.weights.items() if of not in limbs_of_floats for name in parts]
        sums = {name: np.zeros(count, np.int64) for name in names}
        for name, made in sums.items():
            values: Integers = rows.column(name).to_numpy()
            np.add.at(made, groups if own is None else groups[own], values if own is None else values[own])
        floats = {}
        for name in self.added if place is not None else []:
            if self._is_float(name):
                assert place is not None
                limbs: Integers = rows.column(f"{_sums(name)}_0").to_numpy()
                some = np.flatnonzero((place != 0) & (limbs != 0))
                check_sums([limbs[some]], name)
                floats[name] = float_sums(groups[some], place[some], limbs[some], count)
        self._check(sums)
        return self._results_of(sums, keys, floats), sums[_ROWS]

    def _results_of(
        self,
        sums: Mapping[str, Integers],
        keys: Sequence[KeptColumn],
        floats: Mapping[str, npt.NDArray[np.float64]] | None = None,
    ) -> list[KeptColumn]:
        """The aggregates of these keys, from their sums by the names of weights, and of columns of floats."""
        made: list[KeptColumn] = []
        for name, each in self.aggregates.items():
            counts = sums[_counts(each)]
            if each.kind == "count":
                made.append(_column(counts, None, each.result_type))
                continue
            assert each.column is not None
            # What stands for a key without rows is nothing that comes out.
            is_null = None
            if np.count_nonzero(counts) < len(counts):
                is_null = (counts == 0) & (sums[_ROWS] > 0)
            if floats is not None and each.column in floats:
                made.append(_result(each, floats[each.column], counts, is_null))
                continue
            parts = [sums[part] for part in self.weights[_sums(each.column)]]
            kind = self.schema.field(each.column).type
            try:
                made.append(_exact_result(each, kind, parts, counts, is_null))
            except SumTooLarge as too_large:
                raise FlowError(
                    f"the sum '{name}' of {self._in_words(keys, too_large.row)} does not fit "
                    f"{each.result_type}. Cast the values to double, or to a decimal with more digits."
                ) from None
        return made

    def results_around(
        self, before: Sequence[Integers], added: Sequence[Integers], keys: Sequence[KeptColumn]
    ) -> tuple[Results, Results]:
        """What comes out for keys before sums are added to theirs and after; sums without those of floats."""
        after = [one + other for one, other in zip(before, added, strict=True)]
        named = [dict(zip(self.weight_names, sums, strict=True)) for sums in (before, after)]
        self._check(named[1])
        self.check_rows(named[1][_ROWS], keys)
        was, now = ((self._results_of(sums, keys), sums[_ROWS] > 0) for sums in named)
        return was, now

    def _check(self, sums: Mapping[str, Integers]) -> None:
        """FlowError if sums are so large that the next ones might be wrong."""
        for name in self.added:
            if not self._is_float(name):
                check_sums([sums[part] for part in self.weights[_sums(name)]], name)

    def check_rows(self, rows: Integers, keys: Sequence[KeptColumn]) -> None:
        """Raise FlowError if more rows of a key were deleted than inserted."""
        if kernels.extent(rows)[0] < 0:
            raise FlowError(
                f"more of {self._in_words(keys, int(np.flatnonzero(rows < 0)[0]))} were deleted than "
                "inserted: an input with trusted=True deletes rows that its table does not contain. Set "
                "trusted=False to find them."
            )

    def _in_words(self, keys: Sequence[KeptColumn], row: int) -> str:
        schema = pa.schema([self.schema.field(key) for key in self.keys])
        return rows_in_words(as_batch(keys, schema), row)

    def _is_float(self, name: str) -> bool:
        return bool(types.is_floating(self.schema.field(name).type))


def _result(
    each: LinearAggregate, total: npt.NDArray[np.float64], counts: Integers, is_null: IsNull
) -> KeptColumn:
    with np.errstate(divide="ignore", invalid="ignore"):
        values = total / counts if each.kind in _MEANS else total
    return _column(values, is_null, each.result_type)


def _column(values: npt.NDArray[Any], is_null: IsNull, kind: pa.DataType) -> KeptColumn:
    """Values as a column of a type; all of them where it is not known which are null."""
    if is_null is not None and is_null.any():
        made = pa.array(values, mask=is_null)
    elif values.dtype == width_of(kind):
        return values
    else:
        made = pa.array(values)
    return kept_column(made if made.type == kind else made.cast(kind))


def _exact_result(
    each: LinearAggregate,
    kind: pa.DataType,
    parts: list[Integers],
    counts: Integers,
    is_null: IsNull,
) -> KeptColumn:
    if types.is_decimal(kind):
        scale = int(kind.scale)
        if types.is_decimal(each.result_type) and each.kind == "avg":
            return averages(python_numbers(parts), counts.tolist(), scale, each.result_type)
        pairs = zip(python_numbers(parts), counts.tolist(), strict=True)
        if each.kind in _MEANS:
            means = [total / (10**scale * n) if n else None for total, n in pairs]
            return pa.array(means, each.result_type)
        most = 10 ** int(each.result_type.precision)
        sums = [total if n else None for total, n in pairs]
        if large := [row for row, total in enumerate(sums) if total is not None and abs(total) >= most]:
            raise SumTooLarge(large[0])
        return pa.array(
            [None if total is None else decimal_of(total, scale) for total in sums], each.result_type
        )
    whole, too_large = kernels.whole_numbers(parts)
    if each.kind in _MEANS:
        if too_large >= 0:
            whole_as_floats = np.array(list(map(float, python_numbers(parts))))
            return _result(each, whole_as_floats, counts, is_null)
        return _result(each, whole.astype(np.float64), counts, is_null)
    if too_large >= 0:
        raise SumTooLarge(too_large)
    return _column(whole, is_null, each.result_type)


def _counting(values: pa.Array, *, is_true: bool) -> Integers:
    """1 for values that count, and 0 for others."""
    if is_true:
        counts = values.fill_null(False)
    elif values.null_count:
        counts = values.is_valid()
    else:
        return np.ones(len(values), np.int64)
    return np.asarray(counts.to_numpy(zero_copy_only=False), np.int64)


def _floats(values: pa.Array) -> npt.NDArray[np.float64]:
    """Values as floats of 64 bits, 0 where they are null."""
    found = values.cast(pa.float64())
    return np.asarray((found.fill_null(0.0) if found.null_count else found).to_numpy(), np.float64)


def _counts(each: LinearAggregate) -> str:
    """The weight that says how many values an aggregate has."""
    if each.where is not None:
        return f"__true {each.where}"
    return _ROWS if each.column is None else f"__count {each.column}"


def _sums(name: str) -> str:
    return f"__sum {name}"


# Numbers as limbs: small integers at fixed places, whose sums are exact in any order.
#
# An integer is the sum of ``limb[i] * 2^(24 i)``. Each limb has 24 bits and its sums have 64, so a sum of
# some 2^38 numbers is exact, and deleting what was inserted gives what was there before. A finite float is an
# integer times a power of two: it has up to three limbs of 32 bits at places that depend on its exponent, out
# of the 69 that all floats together need. A float's limbs are kept as rows, by their place; NaN and the
# infinities have places of their own, where they are counted.
#
# Invariant: limbs that are put together again are the sum of the numbers, rounded once if it is a float.

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int16]

_BITS: Final = 24
# A sum of limbs may come near to the end of 64 bits, and is refused before it gets there.
_SUM_MAX: Final = 1 << 62

# Places of what is not finite; those of limbs are 1 and more, and 0 is for what has no place.
NAN_PLACE, PLUS_PLACE, MINUS_PLACE = -1, -2, -3
_FLOAT_BITS: Final = 32
_FLOAT_LOW: Final = np.uint64((1 << _FLOAT_BITS) - 1)
# 2^-1074, the least float, is at a place above 0, and a mantissa may begin 52 bits below it.
_FLOAT_SHIFT: Final = 36 * _FLOAT_BITS


def limb_count(kind: pa.DataType) -> int | None:
    """How many limbs an integer or a decimal of this type has; None if it has none of fixed places."""
    if types.is_integer(kind):
        return -(-int(kind.bit_width) // _BITS)
    return 6 if types.is_decimal128(kind) else None


def limbs_of(column: KeptColumn, kind: pa.DataType, weights: Integers) -> list[Integers]:
    """The limbs of integers or decimals, the lowest first, times a weight for each; a null counts as 0."""
    count = limb_count(kind)
    assert count is not None
    if not isinstance(column, np.ndarray):
        zero = pa.scalar(Decimal(0) if types.is_decimal(kind) else 0, kind)
        column = np.asarray(kept_column(column.fill_null(zero)))
    return kernels.limbs_of(column, weights, count)


def check_sums(sums: list[Integers], column: str) -> None:
    """FlowError if sums of limbs are so large that the next ones might be wrong."""
    for each in sums:
        least, most = kernels.extent(each)
        if most >= _SUM_MAX or least <= -_SUM_MAX:
            raise FlowError(
                f"the sum of '{column}' has too many rows, or too large weights, to be exact. Use smaller "
                "weights, or more keys."
            )


def python_numbers(sums: list[Integers]) -> list[int]:
    """Limbs put together as Python's integers, which always fit."""
    parts = [each.tolist() for each in sums]
    return [sum(limb << (_BITS * at) for at, limb in enumerate(row)) for row in zip(*parts, strict=True)]


def float_limbs(values: Floats) -> tuple[npt.NDArray[np.intp], Places, Integers]:
    """The limbs of floats: of which value, at which place, and how much; values of 0 have none."""
    rows, places, limbs = [], [], []
    for place, has in (
        (NAN_PLACE, np.isnan(values)),
        (PLUS_PLACE, np.isposinf(values)),
        (MINUS_PLACE, np.isneginf(values)),
    ):
        if has.any():
            rows.append(np.flatnonzero(has))
            places.append(np.full(len(rows[-1]), place, np.int16))
            limbs.append(np.ones(len(rows[-1]), np.int64))
    finite = np.flatnonzero(np.isfinite(values) & (values != 0.0))
    part, exponent = np.frexp(values[finite])
    mantissa = np.ldexp(part, 53).astype(np.int64)
    sign, size = np.sign(mantissa), np.abs(mantissa).view(np.uint64)
    begin = exponent.astype(np.int64) - 53 + _FLOAT_SHIFT
    first, shift = (begin >> 5).astype(np.int16), (begin & 31).view(np.uint64)
    low = (size & _FLOAT_LOW) << shift
    high = ((size >> np.uint64(_FLOAT_BITS)) << shift) + (low >> np.uint64(_FLOAT_BITS))
    for step, limb in enumerate((low & _FLOAT_LOW, high & _FLOAT_LOW, high >> np.uint64(_FLOAT_BITS))):
        some = np.flatnonzero(limb)
        rows.append(finite[some])
        places.append(first[some] + np.int16(step))
        limbs.append(limb[some].view(np.int64) * sign[some])
    return np.concatenate(rows), np.concatenate(places), np.concatenate(limbs)


def float_sums(groups: npt.NDArray[np.intp], places: Places, limbs: Integers, count: int) -> Floats:
    """The sums of the limbs of groups, as floats: exact, and rounded once. Groups are 0 to ``count``."""
    order = np.lexsort((places, groups))
    groups, places, limbs = groups[order], places[order], limbs[order]
    made = np.zeros(count)
    is_limb = places > 0
    held, own = groups[is_limb], limbs[is_limb]
    if len(held):
        exponents = places[is_limb].astype(np.int32) * _FLOAT_BITS - _FLOAT_SHIFT
        sign, size = np.sign(own), np.abs(own)
        with np.errstate(over="ignore"):
            high = np.ldexp((sign * (size >> 32)).astype(np.float64), exponents + 32)
            low = np.ldexp((sign * (size & 0xFFFFFFFF)).astype(np.float64), exponents)
        terms = np.stack([high, low], axis=1).reshape(-1).tolist()
        starts = np.flatnonzero(np.concatenate(([True], held[1:] != held[:-1])))
        for at, begin, end in zip(held[starts], starts, np.append(starts[1:], len(held)), strict=True):
            made[at] = _sum_of(terms[2 * begin : 2 * end])
            if not isfinite(made[at]):
                made[at] = _exact_sum(places[is_limb][begin:end].tolist(), own[begin:end].tolist())
    return _with_what_is_not_finite(made, groups, places, limbs)


def _sum_of(terms: list[float]) -> float:
    """The sum, rounded once; not finite where it, or a part of it, is beyond the greatest float."""
    try:
        return fsum(terms)
    except (OverflowError, ValueError):
        return inf


def _exact_sum(places: list[int], limbs: list[int]) -> float:
    """The same by way of Python's integers, however large parts of it are."""
    total = sum(limb << (_FLOAT_BITS * place) for place, limb in zip(places, limbs, strict=True))
    try:
        return total / (1 << _FLOAT_SHIFT)
    except OverflowError:
        return inf if total > 0 else -inf


def _with_what_is_not_finite(
    made: Floats, groups: npt.NDArray[np.intp], places: Places, limbs: Integers
) -> Floats:
    if len(places) and places.min() < 0:
        has = {}
        for place in (NAN_PLACE, PLUS_PLACE, MINUS_PLACE):
            counts = np.zeros(len(made), np.int64)
            np.add.at(counts, groups[places == place], limbs[places == place])
            has[place] = counts != 0
        made[has[PLUS_PLACE]] = np.inf
        made[has[MINUS_PLACE]] = -np.inf
        made[has[NAN_PLACE] | (has[PLUS_PLACE] & has[MINUS_PLACE])] = np.nan
    return made
