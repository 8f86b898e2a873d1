"""The values of one aggregate, by group: what every aggregate of tables is computed from.

Invariant: values of one group stand together, groups in ascending order; no weight is 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.arrangement.consolidate import DIFF, Integers
from pointstamp.arrangement.groups import Grouped
from pointstamp.arrangement.ordering import Ranks
from pointstamp.reduce.accumulators import SumTooLarge
from pointstamp.reduce.binding import plain_type

Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class GroupValues:
    """The rows of groups that take part in an aggregate, and what of them it looks at."""

    values: pa.Array
    """A value of each row, without encodings; nulls are among them only where they count."""
    rows: pa.RecordBatch
    group: Places
    """The group of each row."""
    weights: Integers
    count: int
    """How many groups there are, with those that have no row here."""

    def __len__(self) -> int:
        return len(self.group)

    def starts(self) -> Places:
        """Where each group begins that has a row here."""
        return firsts_of(self.group)

    def present(self) -> Places:
        """The groups that have a row here."""
        return self.group[self.starts()]

    def kept(self, mask: pa.Array) -> "GroupValues":
        """The rows for which a boolean is true."""
        positions = np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))
        if len(positions) == len(self):
            return self
        at = pa.array(positions)
        values, rows = self.values.take(at), self.rows.take(at)
        return GroupValues(values, rows, self.group[positions], self.weights[positions], self.count)

    def order(self, *ranks: Ranks) -> Places:
        """The rows by group, and in a group by these ranks, the first of which matters most."""
        return np.lexsort((*reversed(ranks), self.group))

    def spread(self, made: pa.Array) -> pa.Array:
        """What was made for each group that is present, for all groups: null for the others."""
        if len(made) == self.count:
            return made
        place = np.full(self.count, -1)
        place[self.present()] = np.arange(len(made))
        return made.take(pa.array(place, mask=place < 0))


def values_of(groups: Grouped, column: str | None) -> GroupValues:
    """All rows of groups with the values of a column; without one each row counts, whatever its value."""
    count = len(groups.starts)
    group = np.repeat(np.arange(count), np.diff(groups.starts, append=groups.rows.num_rows))
    values = groups.rows.column(DIFF if column is None else column)
    return GroupValues(plain(values), groups.rows, group, groups.rows.column(DIFF).to_numpy(), count)


def firsts_of(ranked: npt.NDArray[np.integer]) -> Places:
    """Where each run of equal numbers begins."""
    if not len(ranked):
        return np.empty(0, np.intp)
    return np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))


def plain(values: pa.Array) -> pa.Array:
    """The same values without encodings and views."""
    if types.is_run_end_encoded(values.type):
        return plain(pc.run_end_decode(values))
    wanted = plain_type(values.type)
    return values if wanted is values.type else values.cast(wanted)


# Decimals as Python's integers, exact whatever their digits, and averages with the digits that Spark gives.
#
# The average of a ``decimal(p, s)`` is a ``decimal(p + 4, s + 4)``, as far as there are so many digits. Spark
# divides to 38 digits behind the point and rounds that once more, a half away from 0 both times; so does
# this.

_MORE_DIGITS: Final = 4
_DIGITS_MAX: Final = 38


def average_type(found: pa.DataType) -> pa.DataType:
    """The type of an average of decimals."""
    make, digits_max = (pa.decimal256, 76) if found.bit_width == 256 else (pa.decimal128, _DIGITS_MAX)
    digits, scale = (min(digits_max, each + _MORE_DIGITS) for each in (found.precision, found.scale))
    return make(digits, scale)


def averages(totals: Sequence[int], counts: Sequence[int], scale: int, gives: pa.DataType) -> pa.Array:
    """The averages of decimals, from their sums without the point; null where nothing was counted.

    >>> averages([200, -5, 0], [3, 2, 0], 2, pa.decimal128(9, 6)).to_pylist()
    [Decimal('0.666667'), Decimal('-0.025000'), None]
    """
    wide = max(_DIGITS_MAX, gives.scale, scale)
    made: list[Decimal | None] = []
    for row, (total, count) in enumerate(zip(totals, counts, strict=True)):
        if not count:
            made.append(None)
            continue
        found = _rounded(_rounded(total * 10 ** (wide - scale), count), 10 ** (wide - gives.scale))
        if abs(found) >= 10**gives.precision:
            raise SumTooLarge(row)
        made.append(decimal_of(found, gives.scale))
    return pa.array(made, gives)


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """A decimal of any number of digits, of which so many stand behind the point.

    >>> decimal_of(-105, 2)
    Decimal('-1.05')
    """
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def without_point(values: pa.Array) -> list[int]:
    """Decimals as integers, all digits; null counts as 0."""
    return [0 if each is None else _whole(each, values.type.scale) for each in values.to_pylist()]


def _whole(value: Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits))) * int(10 ** (scale + exponent))
    return -number if sign else number


def _rounded(number: int, divisor: int) -> int:
    """A quotient, rounded to the nearest integer, a half away from 0."""
    whole, rest = divmod(abs(number), divisor)
    whole += 2 * rest >= divisor
    return -whole if number < 0 else whole
