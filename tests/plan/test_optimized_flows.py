"""A flow whose plan a rule has changed runs what the rule made, and gives the same tables."""

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.flow.plan import NodeKind
from pointstamp.plan import logical, optimizer
from support.table_queries import put_out

ROWS = [
    [{"k": 1, "n": 5, "note": "a", "w": 1}, {"k": 2, "n": 50, "note": "b", "w": 1}],
    [{"k": 1, "n": 5, "note": "a", "w": -1}, {"k": 1, "n": 70, "note": "c", "w": 1}],
]


def _flow(*, is_optimized: bool) -> ps.Dataflow:
    flow = ps.Dataflow("sums", optimize=is_optimized)
    rows = flow.table("rows", "k long, n long, note string, w long", weight="w")
    flow.output("sums", rows.filter(ps.col("n") > 1).group_by("k").agg(total=ps.sum("n")))
    return flow


def test_rules_change_the_plan_that_runs_and_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pointstamp.dataflow.record.RULES", [])
    as_written = [each.name for each in _flow(is_optimized=True).plan.nodes]
    monkeypatch.setattr("pointstamp.dataflow.record.RULES", list(optimizer.ALL))
    changed, plain = _flow(is_optimized=True), _flow(is_optimized=False)
    assert [each.name for each in plain.plan.nodes] == as_written
    assert changed.plan is changed.plan
    assert [each.name for each in changed.plan.nodes] != as_written
    one, other = (put_out(each.run(rows=ROWS)["sums"], 2) for each in (changed, plain))
    assert one == other
    monkeypatch.setenv(optimizer.SWITCH, "off")
    assert [each.name for each in _flow(is_optimized=True).plan.nodes] == as_written


def test_an_input_that_no_optimized_operator_reads_still_takes_rows() -> None:
    never = ps.lit(3).is_in(1, 2)
    written, given = (ps.Dataflow(name) for name in ("written", "given"))
    tables = [written.table(name, "n long") for name in ("read", "unread")]
    written.output("out", tables[0].union(tables[1].filter(never)))
    scans = [logical.Scan(name, pa.schema({"n": pa.int64()})) for name in ("read", "unread")]
    given.add_plan({"out": logical.Union((scans[0], logical.Filter(scans[1], never)))})
    for flow in (written, given):
        assert set(flow.plan.named(NodeKind.INPUT)) == {"read", "unread"}
        results = flow.run(read=[[{"n": 1}]], unread=[[{"n": 2}], [{"n": 4}]])
        assert put_out(results["out"], 2) == [{(1,): 1}] * 2, flow.name
