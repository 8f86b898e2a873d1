"""What of a plan is pushed before the workers, and what is left of it.

Families:
- flows of which all that can go goes: the steps in order, and a plan that does the rest;
- things that end the walk, one by one: what is behind them stays with the workers;
- integers: an operation goes only where no value overflows, tried at the ends of the range.

That the steps mean the same in Spark is tried in ``tests/spark/test_pushing.py``.
"""

from collections.abc import Callable

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.arrow.schema import as_schema
from pointstamp.expressions.tree import Expression
from pointstamp.pushdown.prefix import pushed
from pointstamp.pushdown.wording import worded

DDL = "k long, i int, d double, s string, n decimal(10, 2), at timestamp"


def steps_of(make: Callable[[ps.Stream], object], ddl: str = DDL) -> list[str]:
    flow = ps.Dataflow("flow", optimize=False)  # the walk meets the steps that a case names
    made = make(flow.stream_input("rows", ddl))
    assert isinstance(made, ps.Stream)
    flow.output("out", made)
    found = pushed(flow.plan).inputs.get("rows")
    return [] if found is None else [step.operator for step in found.steps]


def test_all_that_stands_behind_an_input_goes_up_to_the_parts_of_a_reduction() -> None:
    flow = ps.Dataflow("flow")
    kept = (
        flow.stream_input("rows", DDL).filter(ps.col("i") > 3).select("s", twice=ps.col("i").cast("long") * 2)
    )
    flow.output("out", kept.group_by("s").agg(n=ps.count(), total=ps.sum("twice"), most=ps.max("twice")))
    before = flow.describe()
    found = pushed(flow.plan)
    assert [str(step) for step in found.inputs["rows"].steps] == [
        "where (`i` > CAST(3 AS INT))",
        "select `s`, (CAST(`i` AS BIGINT) * CAST(CAST(2 AS INT) AS BIGINT)) as `twice`",
        "select count(1) as `n`, CASE WHEN count(`twice`) > 0 THEN named_struct('high', "
        "try_sum(shiftright(CAST(`twice` AS BIGINT), 32)), 'low', "
        "try_sum(CAST(`twice` AS BIGINT) & 4294967295)) END as `total`, max(`twice`) as `most` group by s",
    ]
    assert "Spark does 'agg' before the workers: select count(1) as `n`" in before
    assert flow.describe() == before  # the flow itself is as it was
    parts = pa.table(
        {"s": ["a", "a", "b"], "n": [2, 3, 1], "most": [7, 9, None],
         "total": [{"high": 2**31, "low": 1}, {"high": -(2**31), "low": 2**40}, None]},
        found.plan.nodes[0].outputs[0].schema,
    )  # fmt: skip
    run = ps.timely.LocalRun(found.plan)
    results = {}
    run.on_result = lambda name, time, table: results.update({name: table.sort_by("s").to_pylist()})
    run.input("rows").send(parts)
    run.input("rows").close()
    run.settle()
    assert results["out"] == [
        {"s": "a", "n": 5, "total": 2**40 + 1, "most": 9},
        {"s": "b", "n": 1, "total": None, "most": None},
    ]


def test_of_a_table_conditions_and_columns_go_and_its_weights_are_made_by_the_workers() -> None:
    flow = ps.Dataflow("flow", optimize=False)  # columns in the order of the select
    table = flow.table("rows", DDL).filter(ps.col("i") > 3).select("s", "k")
    flow.output("out", table.distinct())
    found = pushed(flow.plan)
    assert found.inputs["rows"].schema == as_schema("s string, k long")
    with ps.timely.LocalRun(found.plan) as run:
        run.input("rows").send([{"s": "a", "k": 1}, {"s": "a", "k": 1}])
        run.input("rows").close()
        run.settle()
        assert run.is_complete


_dotted = ps.col("k").alias("a.b")


def _same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


ENDS: list[tuple[str, Callable[[ps.Stream], object], list[str]]] = [
    ("a function", lambda rows: rows.map_batches(_same, DDL).filter(ps.col("i") > 0), []),
    ("a function behind", lambda rows: rows.filter(ps.col("i") > 0).map_batches(_same, DDL), ["filter"]),
    ("two readers", lambda rows: rows.filter(ps.col("i") > 0).union(rows), []),
    ("floats that are compared", lambda rows: rows.filter(ps.col("d") > 0.5), []),
    ("decimals", lambda rows: rows.select(x=ps.col("n") + ps.col("n")), []),
    ("a decimal as it is", lambda rows: rows.select("n").named("these"), ["these"]),
    ("division", lambda rows: rows.select(x=ps.col("i") / 2), []),
    ("a cast that may fail", lambda rows: rows.select(x=ps.col("s").cast("int")), []),
    ("a mean", lambda rows: rows.group_by("k").agg(m=ps.mean("i"), n=ps.count()), []),
    ("a sum of floats", lambda rows: rows.group_by("k").agg(t=ps.sum("d")), []),
    ("a key of floats", lambda rows: rows.count("d"), []),
    ("a median", lambda rows: rows.group_by("k").agg(m=ps.median("i")), ["agg: arguments"]),
    ("a loop", lambda rows: _in_a_loop(rows), []),
    ("names that Spark takes for one", lambda rows: rows.select("i", I=ps.col("k")), []),
    ("a name with a dot", lambda rows: rows.filter(ps.col("i") > 0).select(_dotted), ["filter"]),
    ("a dot that is gone", lambda rows: rows.select(_dotted).rename({"a.b": "c"}), ["select", "rename"]),
    ("a running count", lambda rows: rows.group_by("k", running=True).count(), ["count"]),
]  # fmt: skip


def _in_a_loop(rows: ps.Stream) -> ps.Stream:
    with rows.loop("loop") as loop:
        inside = loop.enter(rows).filter(ps.col("i") > 0)
        again = loop.variable(DDL)
        loop.feedback(again, again.filter(ps.col("i") > 1))
        return loop.leave(inside)


@pytest.mark.parametrize(("what", "make", "steps"), ENDS, ids=[each[0] for each in ENDS])
def test_the_walk_ends_where_something_cannot_go(
    what: str, make: Callable[[ps.Stream], object], steps: list[str]
) -> None:
    assert steps_of(make) == steps, what


@pytest.mark.parametrize("ddl", ["k long not null, i int", "k long, K int"])
def test_inputs_whose_rows_could_be_refused_or_mistaken_are_left_alone(ddl: str) -> None:
    assert steps_of(lambda rows: rows.filter(ps.col("k") > 0), ddl) == []


@pytest.mark.parametrize(
    ("expression", "goes"),
    [
        (ps.col("i") + 1, False),
        (ps.col("i").cast("long") + 1, True),
        (ps.col("i").cast("long") * (2**31 - 1), True),
        (ps.col("i").cast("long") * 2**32, True),
        (ps.col("i").cast("long") * 2**32 - 1, False),
        (ps.col("k") - 0, True),
        (ps.col("k") - 1, False),
        (ps.col("k") % 10 + 2**62, True),
        (ps.col("k") % -10, False),
        (ps.col("i") % ps.col("i"), False),
        (ps.col("k").cast("int"), False),
        (ps.col("d") * 2.5, True),
        (ps.col("d") + ps.col("i"), False),
        (ps.lit(float("nan")), False),
    ],
)
def test_numbers_go_where_no_value_overflows(expression: Expression, goes: bool) -> None:
    assert (worded(expression, as_schema(DDL)) is not None) is goes
