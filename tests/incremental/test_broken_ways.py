"""Mistakes that can be made where rows meet others, one each: a judge finds it, and finds nothing without it.

The judges are plain answers that were worked out by hand, for rows that were chosen for the mistake.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.arrangement.consolidate import with_weights
from pointstamp.arrangement.ordering import Ordered, Ranks, ranks
from pointstamp.incremental import asof_join, changes_by_key, lookup_join, operations
from pointstamp.incremental.changes_by_key import NewestRows
from pointstamp.incremental.lookup_join import LookUp
from pointstamp.incremental.stateless import MappedRows
from pointstamp.operators.context import Context


class AnswersTooEarly(LookUp):
    """Answers the rows of an epoch by the table as it was before."""

    def on_notify(self, context: Context) -> None:
        rows = self._rows.pop(context.time, [])
        if rows:
            context.send(self._answered(pa.concat_batches(rows), context.time[1:]))
        super().on_notify(context)


class FindsEveryRun(LookUp):
    """Counts a row and its deletion as two rows that are found."""

    def _found(self, rows: pa.RecordBatch) -> Any:  # noqa: ANN401 - as the operator gives it
        found = list(self._table.matches(rows, list(self._asked.pairs)))
        which = np.concatenate([each for each, _ in found]) if found else np.empty(0, np.intp)
        batches = [batch for _, batch in found] or [pa.RecordBatch.from_pylist([], self._schema)]
        return which, pa.concat_batches(batches).select(list(self._asked.added)).columns


class SaysNothingOfWhatIsGone(NewestRows):
    """Sends the new rows of keys, and nothing of keys that have none."""

    def _made(self, rows: pa.RecordBatch, *, is_gone: bool) -> pa.RecordBatch:
        return super()._made(rows.slice(0, 0) if is_gone else rows, is_gone=is_gone)


class AlwaysAdds(MappedRows):
    """Adds what the function makes, also of a row that disappears."""

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        super().on_receive(context, input, with_weights(batch, np.ones(batch.num_rows, np.int64)))


def by_time_alone(batch: pa.RecordBatch, by: Any) -> list[Ranks]:  # noqa: ANN401 - columns in order
    """Leaves open which of two rows with one time comes first."""
    return ranks(batch, [each for each in by if each == Ordered("__at")] * max(1, len(by)))


def looked_up() -> None:
    flow = ps.Dataflow("test")
    table = flow.table("table", "k long, n long, w long", weight="w")
    flow.output("out", flow.stream_input("rows", "k long").lookup(table, "k"))
    # The second change is much smaller than the first, so that both lie in runs of their own.
    first = [{"k": k, "n": 5, "w": 1} for k in range(9)]
    found = flow.run(rows=[[{"k": 1}], [{"k": 1}]], table=[first, [{"k": 1, "n": 5, "w": -1}]])["out"]
    assert found.table().to_pylist() == [{"epoch": 0, "k": 1, "n": 5}]


def upserted() -> None:
    flow = ps.Dataflow("test")
    flow.output("out", flow.table("rows", "k long, w long", weight="w").upserts("k"))
    found = flow.run(rows=[[{"k": 1, "w": 1}], [{"k": 1, "w": -1}]])["out"]
    assert found.table()["deleted"].to_pylist() == [False, True]


def mapped() -> None:
    flow = ps.Dataflow("test")
    table = flow.table("rows", "k long, w long", weight="w")
    flow.output("out", table.map_batches(lambda batch: batch))
    found = flow.run(rows=[[{"k": 1, "w": 1}], [{"k": 1, "w": -1}]])["out"]
    assert found.table()["diff"].to_pylist() == [1, -1]


def nearest() -> None:
    flow = ps.Dataflow("test")
    rows = flow.table("rows", "k long, at long")
    prices = flow.table("prices", "k long, at long, price long")
    flow.output("out", rows.join_asof(prices, "k", at="at"))
    for order in ([1, 2, 3], [3, 2, 1], [2, 3, 1], [1, 3, 2]):
        given = [[{"k": 1, "at": 0, "price": price}] for price in order]
        found = flow.run(rows=[[{"k": 1, "at": 5}], [], []], prices=given)["out"].table()
        now: dict[int, int] = {}
        for row in found.to_pylist():
            now[row["price"]] = now.get(row["price"], 0) + row["diff"]
        assert {price for price, count in now.items() if count} == {3}, order


BROKEN: dict[str, tuple[Callable[[], None], Any, str, Any]] = {
    "a lookup answers too early": (looked_up, lookup_join, "LookUp", AnswersTooEarly),
    "a lookup finds what was deleted": (looked_up, lookup_join, "LookUp", FindsEveryRun),
    "a key that is gone is not told": (upserted, changes_by_key, "NewestRows", SaysNothingOfWhatIsGone),
    "a function's rows are never taken back": (mapped, operations, "MappedRows", AlwaysAdds),
    "rows with one time are in no order": (nearest, asof_join, "ranks", by_time_alone),
}


@pytest.mark.parametrize("mistake", BROKEN)
def test_a_mistake_is_found_and_what_is_right_is_not(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judge, module, name, broken = BROKEN[mistake]
    judge()
    monkeypatch.setattr(module, name, broken)
    with pytest.raises(AssertionError, match=r"assert [\[{].* == [\[{]"):
        judge()
