"""A table holds 0.0 and never -0.0, so no result depends on which of the two arrived first.

Families, and what only each can find:
- law: rows with zeros of both signs, split into epochs in any way, give the same rows, bit by bit, and the
same
  texts made of them; for appended rows, upserts, computed columns, functions and grouped rows;
- broken: the sign is kept, which the law finds.
"""

import math
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.incremental import stateless, upsert

VALUES = (0.0, -0.0, 1.5, -1.5, None)


def _appended(flow: ps.Dataflow) -> ps.Table:
    return flow.table("t", "k long, x double")


def _upserted(flow: ps.Dataflow) -> ps.Table:
    return flow.table("t", "k long, x double", key="k", order="k")


def _computed(flow: ps.Dataflow) -> ps.Table:
    return _appended(flow).select("k", x=ps.col("x") * -1.0)


def _mapped(flow: ps.Dataflow) -> ps.Table:
    return _appended(flow).map_batches(lambda rows: rows.set_column(1, "x", pa.array([-0.0] * len(rows))))


TABLES: dict[str, Callable[[ps.Dataflow], ps.Table]] = {
    "appended": _appended,
    "upserted": _upserted,
    "computed": _computed,
    "mapped": _mapped,
}


def final(
    make: Callable[[ps.Dataflow], ps.Table], epochs: list[list[tuple[int, float | None]]]
) -> Counter[str]:
    """The rows at the end, as texts that tell the signs of zeros apart."""
    flow = ps.Dataflow("zeros")
    rows = make(flow)
    flow.output("rows", rows)
    flow.output("texts", rows.distinct().select(s=ps.col("x").cast("string")))
    flow.output("groups", rows.group_by("x").agg(n=ps.count()))
    schema = pa.schema([("k", pa.int64()), ("x", pa.float64())])
    tables = [
        pa.table({"k": [k for k, _ in epoch], "x": [x for _, x in epoch]}, schema=schema) for epoch in epochs
    ]
    counted: Counter[str] = Counter()
    results = flow.run(t=tables)
    for name in ("rows", "texts", "groups"):
        for table in results[name].values():
            for row in table.to_pylist():
                weight = row.pop("diff")
                counted[f"{name} {row}"] += weight
    return Counter({row: weight for row, weight in counted.items() if weight})


def law(which: str) -> None:
    @settings(max_examples=25, deadline=None, database=None, phases=(Phase.generate,))
    @given(values=st.lists(st.sampled_from(VALUES), min_size=1, max_size=6), data=st.data())
    def holds(values: list[float | None], data: st.DataObject) -> None:
        rows = [(number % 3, value) for number, value in enumerate(values)]
        if which == "upserted":
            rows = list({key: (key, value) for key, value in rows}.values())
        order = data.draw(st.permutations(rows))
        cut = data.draw(st.integers(0, len(rows)))
        found = final(TABLES[which], [order[:cut], order[cut:]])
        assert found == final(TABLES[which], [rows])
        assert not any("-0.0" in row for row in found)

    holds()


@pytest.mark.parametrize("which", TABLES)
def test_no_result_depends_on_which_zero_arrived_first(which: str) -> None:
    law(which)


@pytest.mark.parametrize("which", TABLES)
def test_a_table_that_keeps_the_sign_is_found(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (stateless, stateless, upsert):
        monkeypatch.setattr(module, "with_one_zero", lambda columns, floats: list(columns))
    with pytest.raises(AssertionError, match=r"0\.0"):
        law(which)


def test_a_row_that_was_inserted_with_one_zero_is_deleted_with_the_other() -> None:
    flow = ps.Dataflow("deleted")
    table = flow.table("t", "x double, n long", weight="n")
    flow.output("texts", table.select(s=ps.col("x").cast("string")))
    epochs = [pa.table({"x": [-0.0], "n": [1]}), pa.table({"x": [0.0], "n": [-1]})]
    results = flow.run(t=epochs)["texts"]
    assert [each.to_pylist() for each in results.values()] == [
        [{"s": "0.0", "diff": 1}],
        [{"s": "0.0", "diff": -1}],
    ]


def test_other_values_keep_their_bits() -> None:
    values = [math.inf, -math.inf, 5e-324, -5e-324, 1.7976931348623157e308, None]
    flow = ps.Dataflow("bits")
    flow.output("rows", flow.table("t", "x double"))
    (rows,) = flow.run(t=[pa.table({"x": values})])["rows"].values()
    assert sorted(map(repr, rows["x"].to_pylist())) == sorted(map(repr, values))
