"""The as-of join: match each row with the latest row of another table.

Rows of one key are ordered by time, and rows of one time by all their columns from left to right, so that it
is always one row that is nearest, whatever came first. A row that comes late, or is deleted, changes the
answers of the rows to which it was nearest: the key is looked at again, as a function of all its rows.

Both sides are brought into one table of sides, with nulls for the columns of the other side, so that one
operator on groups sees all rows of a key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from pointstamp.arrangement.consolidate import DIFF, DIFF_FIELD
from pointstamp.arrangement.groups import Grouped
from pointstamp.arrangement.ordering import Ordered, ranks
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.dates import parse_duration
from pointstamp.expressions.select_columns import check_columns
from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.flow.physical_stream import PhysicalStream
from pointstamp.incremental.hash_join import Joining
from pointstamp.incremental.operations import on_groups, selected, union_all

Direction: TypeAlias = Literal["backward", "forward", "nearest"]
"""Which row is meant: the last that is not later, the first that is not earlier, or the nearer of both."""

Tolerance: TypeAlias = int | float | str | timedelta
"""How far away it may be: a number, or a length of time such as "10 minutes"."""

_AT: Final = "__at"
_IS_RIGHT: Final = "__is_right"

Rows = npt.NDArray[np.intp]
Times = npt.NDArray[np.uint64] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AsOf:
    """From the rows of both sides of each key to the rows of the left side with their partners."""

    asked: Joining
    left_at: str
    """The column of times of the left side."""
    right_at: str
    direction: Direction
    keeps_all: bool
    tolerance: int | float | None
    """In microseconds for times."""

    def __call__(self, groups: Grouped) -> pa.RecordBatch:
        """Find the partner of each row of the left side."""
        rows = groups.rows
        group = np.repeat(np.arange(len(groups.starts)), np.diff(groups.starts, append=rows.num_rows))
        is_right = np.asarray(rows.column(_IS_RIGHT).to_numpy(zero_copy_only=False), np.bool_)
        can_meet = np.ones(rows.num_rows, np.bool_)
        for name in (*self.asked.pairs, _AT):
            can_meet &= rows.column(name).is_valid().to_numpy(zero_copy_only=False)
        # Ranks may be the times themselves; places are fewer than rows.
        place = np.unique(ranks(rows, [Ordered(_AT)])[0], return_inverse=True)[1]
        order = group * (rows.num_rows + 1) + place
        left, right = np.flatnonzero(~is_right), np.flatnonzero(is_right & can_meet)
        ties = ranks(rows, [Ordered(self.theirs(name)) for name in self.asked.added])
        right = right[np.lexsort([*(each[right] for each in reversed(ties)), order[right]])]
        partners = self._partners(rows, group, order, left, right)
        partners[~can_meet[left]] = -1
        return self._made(rows, left, partners)

    def _partners(self, rows: pa.RecordBatch, group: Rows, order: Rows, left: Rows, right: Rows) -> Rows:
        """The row that each row of the left side is joined with; -1 for none."""
        padded = np.append(right, -1)  # so that one position too far on either side is no row
        before = padded[np.searchsorted(order[right], order[left], "right") - 1]
        after = padded[np.searchsorted(order[right], order[left], "left")]
        for found in (before, after):
            found[(found >= 0) & (group[found] != group[left])] = -1
        if self.direction != "nearest" and self.tolerance is None:
            return before if self.direction == "backward" else after
        times = _numbers(rows.column(_AT))
        far_before, far_after = times[left] - times[before], times[after] - times[left]
        if self.tolerance is not None:
            before[far_before > self.tolerance] = -1
            after[far_after > self.tolerance] = -1
        if self.direction != "nearest":
            return before if self.direction == "backward" else after
        is_after = (after >= 0) & ((before < 0) | (far_after < far_before))
        return np.where(is_after, after, before)

    def _made(self, rows: pa.RecordBatch, left: Rows, partners: Rows) -> pa.RecordBatch:
        if not self.keeps_all:
            left, partners = left[partners >= 0], partners[partners >= 0]
        chosen = rows.take(pa.array(left))
        mine = [chosen.column(self.mine(name)) for name in self.asked.left.names]
        beside = pa.array(partners, mask=partners < 0)
        theirs = [rows.column(self.theirs(name)).take(beside) for name in self.asked.added]
        schema = pa.schema([*self.asked.result, DIFF_FIELD])
        return pa.RecordBatch.from_arrays([*mine, *theirs, chosen.column(DIFF)], schema=schema)

    def mine(self, name: str) -> str:
        """Where a column of the left side stands in the table of sides."""
        return _AT if name == self.left_at else name if name in self.asked.pairs else f"__left_{name}"

    def theirs(self, name: str) -> str:
        """Where a column of the right side stands in the table of sides."""
        return _AT if name == self.right_at else f"__right_{name}"


def joined_as_of(
    left: PhysicalStream, right: PhysicalStream, asked: AsOf, name: str, who: str
) -> PhysicalStream:
    """Each row of the left side with its partner."""
    pairs = asked.asked.pairs
    mine: dict[str, Expression] = {asked.mine(each): col(each) for each in asked.asked.left.names}
    theirs: dict[str, Expression] = {each: col(own) for each, own in pairs.items()}
    theirs |= {asked.theirs(each): col(each) for each in asked.asked.added}
    kinds = {asked.theirs(each): asked.asked.right.field(each).type for each in asked.asked.added}
    kinds |= {asked.mine(each): asked.asked.left.field(each).type for each in asked.asked.left.names}
    sides = []
    for side, own, is_right in ((left, mine, False), (right, theirs, True)):
        whole = {each: own.get(each, lit(None).cast(kind)) for each, kind in sorted(kinds.items())}
        sides.append(selected(side, f"{name}: side", {**whole, _IS_RIGHT: lit(is_right)}, who))
    both = union_all(sides[0], sides[1], f"{name}: sides")
    return on_groups(both, name, tuple(pairs), asked, asked.asked.result)


def as_of(
    who: str,
    asked: Joining,
    at: str | Mapping[str, str],
    *,
    direction: Direction,
    how: Literal["inner", "left"],
    tolerance: Tolerance | None,
) -> AsOf:
    """What an as-of join was asked for, checked."""
    if direction not in get_args(Direction):
        raise FlowError(
            f"{who}: direction must be one of {', '.join(get_args(Direction))}, got {direction!r}. Choose "
            "one of these."
        )
    if how not in ("inner", "left"):
        raise FlowError(f"{who}: how must be 'inner' or 'left', got {how!r}. Choose one of these.")
    ((mine, theirs),) = one_pair(who, at).items()
    check_columns(f"{who}: at=, on the left side,", asked.left, [mine])
    check_columns(f"{who}: at=, on the right side,", asked.right, [theirs])
    kind, other = asked.left.field(mine).type, asked.right.field(theirs).type
    if kind != other:
        raise SchemaError(
            f"{who}: '{mine}' is {kind} and '{theirs}' is {other}, but both must have one "
            "type. Cast one of them."
        )
    if types.is_nested(kind) or types.is_dictionary(kind):
        raise SchemaError(
            f"{who}: '{mine}' must be a time or a number, got {kind}. Choose another column, or cast it."
        )
    if mine in asked.pairs or theirs in asked.pairs.values():
        raise FlowError(f"{who}: '{mine}' is in on= and in at=. Remove it from one of them.")
    has_distance = types.is_integer(kind) or types.is_floating(kind) or _is_time(kind)
    if not has_distance and (direction == "nearest" or tolerance is not None):
        raise SchemaError(
            f"{who}: '{mine}' is {kind}, whose values have no difference. Leave tolerance= out, and give "
            "direction='backward' or 'forward'."
        )
    most = None if tolerance is None else _distance(who, kind, tolerance)
    return AsOf(asked, mine, theirs, direction, how == "left", most)


def one_pair(who: str, at: object) -> dict[str, str]:
    """The column of times on the left side, with that of the right side."""
    if isinstance(at, str):
        return {at: at}
    if not isinstance(at, Mapping) or len(at) != 1:
        raise FlowError(
            f"{who}: at must be one column, got {at!r}. Write at='at' or at={{'mine': 'theirs'}}."
        )
    return dict(at)


def _is_time(kind: pa.DataType) -> bool:
    return bool(types.is_timestamp(kind) or types.is_date(kind))


def _distance(who: str, kind: pa.DataType, tolerance: Tolerance) -> int | float:
    if _is_time(kind):
        if not isinstance(tolerance, str | timedelta):
            raise FlowError(
                f"{who}: tolerance of times must be a duration, got {tolerance!r}. Write one such as '10 "
                "minutes'."
            )
        made: int | float = parse_duration(tolerance, f"{who}: tolerance=") // timedelta(microseconds=1)
    elif isinstance(tolerance, bool) or not isinstance(tolerance, int | float):
        raise FlowError(
            f"{who}: tolerance of numbers must be a number, got {tolerance!r}. Write one such as 10."
        )
    else:
        made = tolerance
    if made < 0:
        raise FlowError(f"{who}: tolerance must be 0 or more, got {tolerance!r}. Give a larger value.")
    return made


def _numbers(times: pa.Array) -> Times:
    """Numbers whose differences are distances; those of integers are exact, because they wrap around."""
    if _is_time(times.type):
        times = times.cast(pa.timestamp("us", getattr(times.type, "tz", None))).cast(pa.int64())
    numbers = times.fill_null(0).to_numpy()
    return np.asarray(numbers.astype(np.uint64 if types.is_integer(times.type) else np.float64))
