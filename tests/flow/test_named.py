"""An operator gets a name behind its verb: in errors, drawings and the plan, and in nothing else."""

import pytest

import pointstamp as ps
from pointstamp.errors import FlowError

ROWS = [[{"k": 1, "n": 2}, {"k": 1, "n": 3}], [{"k": 2, "n": 5}]]


def flow_of(*, is_named: bool, optimize: bool) -> ps.Dataflow:
    flow = ps.Dataflow("named", optimize=optimize)
    rows = flow.stream_input("rows", "k long, n long")
    best = rows.top(1, "k", by="n desc")
    if is_named:
        best = best.named("best")
    most = rows.to_table().group_by("k").agg(n=ps.max("n"))
    if is_named:
        most = most.named("most")
    flow.output("best", best)
    flow.output("most", most)
    return flow


@pytest.mark.parametrize("optimize", [True, False])
def test_a_name_is_that_of_the_operators_of_a_verb_and_changes_no_result(optimize: bool) -> None:
    named, plain = (flow_of(is_named=each, optimize=optimize) for each in (True, False))
    names = {node.name for node in named.plan.nodes}
    assert {"most", "best"} <= names
    assert not {"top", "agg"} & names
    assert {"top", "agg"} <= {node.name for node in plain.plan.nodes}
    found, wanted = named.run(ROWS), plain.run(ROWS)
    for output in ("best", "most"):
        for epoch in (0, 1):
            assert found[output][epoch].to_pylist() == wanted[output][epoch].to_pylist()


def test_a_name_after_the_plan_was_looked_at_is_in_the_next_look() -> None:
    flow = ps.Dataflow("looks")
    kept = flow.stream_input("rows", "k long").filter(ps.col("k") > 1)
    assert "kept" not in flow.describe()
    kept.named("kept")
    assert "kept" in flow.describe()


def test_a_name_comes_directly_behind_the_verb_and_is_a_string() -> None:
    rows = ps.Dataflow("late").stream_input("rows", "k long")
    kept = rows.filter(ps.col("k") > 1)
    rows.filter(ps.col("k") > 2)
    with pytest.raises(FlowError, match=r"Filter 'filter': named\('kept'\) was called after other operators"):
        kept.named("kept")
    with pytest.raises(FlowError, match="a name must be a string, got 3"):
        rows.distinct().named(3)  # type: ignore[arg-type]
