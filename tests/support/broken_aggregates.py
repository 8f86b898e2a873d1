"""Aggregates and functions in an order with a mistake in them, one mistake each, which a test must find."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from pointstamp.arrangement.consolidate import DIFF, with_weights
from pointstamp.arrangement.groups import Grouped
from pointstamp.flow import outlet
from pointstamp.flow.outlet import Afresh
from pointstamp.incremental import (
    aggregation,
    group_aggregates,
    operations,
    physical_table,
    rolling_aggregates,
    window_operator,
)
from pointstamp.incremental.group_values import GroupValues, Places, firsts_of
from pointstamp.incremental.requested_aggregates import FirstValue, TableAggregate, first_value_asked
from pointstamp.incremental.rolling_aggregates import PhysicalRolling
from pointstamp.incremental.top_k import First
from pointstamp.incremental.window_operator import Placing, Ranked
from pointstamp.operators.context import Context
from pointstamp.reduce.accumulators import floats_of
from pointstamp.state.pieces import Piece

Break = Callable[[pytest.MonkeyPatch], None]


class CopiesShareAPlace(Placing):
    """Takes the copies of a row for one."""

    def __call__(self, groups: Grouped) -> pa.RecordBatch:
        weights = groups.rows.column(DIFF).to_numpy()
        once = Grouped(with_weights(groups.rows, np.ones(len(weights), np.int64)), groups.starts, groups.keys)
        return super().__call__(once)


class RemembersTooFew(PhysicalRolling):
    """Keeps one row less of each key than can still count."""

    def _can_count(self, ends: Places) -> npt.NDArray[np.bool_]:
        can_count = super()._can_count(ends)
        return can_count & np.roll(can_count, 1)


class RemembersTheEpoch(Afresh):
    """Continues in the next epoch with what there was in the one before."""

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        if self._open:
            self._open[context.time] = next(iter(self._open.values()))
        super().on_receive(context, input, batch)

    def on_notify(self, context: Context) -> None:
        self._open[context.time].on_notify(context)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        return {}


class AsTheyCome(First):
    """Leaves the order of what ``by`` holds for equal to the order in which rows came."""

    came: list[str] = []  # noqa: RUF012 - for the one flow of a test

    def __call__(self, groups: Grouped) -> pa.RecordBatch:
        rows = groups.rows.to_pylist()
        self.came.extend(repr(row) for row in rows if repr(row) not in self.came)
        first = np.lexsort([[self.came.index(repr(row)) for row in rows], _of(groups)])
        taken = groups.rows.take(pa.array(first[firsts_of(_of(groups)[first])]))
        return with_weights(taken, np.ones(taken.num_rows, np.int64)).select(self.result.names)


def _of(groups: Grouped) -> Any:  # noqa: ANN401 - numbers of groups
    return np.repeat(np.arange(len(groups.starts)), np.diff(groups.starts, append=groups.rows.num_rows))


def _variance_by_squares(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """The mean of squares less the square of the mean."""
    values, starts = floats_of(given.values), given.starts()
    powers = [values**power * given.weights for power in range(3)]
    counts, sums, squares = (np.add.reduceat(each, starts) if len(each) else each for each in powers)
    with np.errstate(invalid="ignore", divide="ignore"):
        made = (squares - sums * sums / counts) / (counts - 1)
    return given.spread(pa.array(made, mask=counts <= 1))


def _sums_run_on(ranked: Ranked, floats: Any) -> Any:  # noqa: ANN401 - floats
    """Running sums as differences of one sum over all groups."""
    sums = np.cumsum(floats)
    return sums - (sums - floats)[ranked.starts]


def _without_weights(kind: str) -> Break:
    right = group_aggregates._KINDS[kind]

    def wrong(given: GroupValues, asked: TableAggregate) -> pa.Array:
        ones = np.ones(len(given), np.int64)
        return right(GroupValues(given.values, given.rows, given.group, ones, given.count), asked)

    return lambda patch: patch.setitem(group_aggregates._KINDS, kind, wrong)


def _as_they_come(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(physical_table, "First", AsTheyCome)
    patch.setattr(operations, "on_top", operations.on_groups)


def _everywhere(patch: pytest.MonkeyPatch) -> None:
    right = first_value_asked

    def asked(aggregate: TableAggregate, schema: pa.Schema) -> FirstValue | None:
        return right(replace(aggregate, where=None), schema)

    patch.setattr(GroupValues, "kept", lambda self, mask: self)
    patch.setattr(aggregation, "first_value_asked", asked)


BROKEN_AGGREGATES: dict[str, Break] = {
    "the row of no rows is counted": lambda patch: patch.setattr(aggregation, "_of_rows", dict),
    "an epoch continues with the one before": lambda patch: patch.setattr(
        outlet, "Afresh", RemembersTheEpoch
    ),
    "a row too few is remembered": lambda patch: patch.setattr(
        rolling_aggregates, "PhysicalRolling", RemembersTooFew
    ),
    "copies share a place": lambda patch: patch.setattr(window_operator, "Placing", CopiesShareAPlace),
    "sums run on from one key to the next": lambda patch: patch.setattr(
        window_operator, "_float_sums", _sums_run_on
    ),
    "the first row is the one that came first": _as_they_come,
    "a variance is a difference of squares": lambda patch: patch.setitem(
        group_aggregates._KINDS,
        "var_samp",
        _variance_by_squares,
    ),
    "a median counts copies once": _without_weights("median"),
    "a list has copies once": _without_weights("collect_list"),
    "a condition does not matter": _everywhere,
}
