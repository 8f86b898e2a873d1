"""Chains: operators that run as one with the operator that reads them, and what must not change by it.

Families, and what only each can find:
- which operators run inside of which: a chain that continues where somebody else looks, or ends too early;
- the same rows: flows run with and without chains, on some workers, beside plain Python;
- each operator by itself: its errors, its rows and calls, the frontier of its stream.
"""

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.driver.local_run import LocalRun, workers_of
from pointstamp.errors import OperatorError, SchemaError
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.topology.ports import Location, OperatorIndex
from pointstamp.verify.plan_shape import shape_of
from pointstamp.verify.trace import describe_event
from pointstamp.worker.events import SnapshotTaken

ROWS = "k long, v long"
Rows = list[dict[str, Any]]


class Passes:
    """An operator of a user's, of which nobody knows what it keeps."""

    outputs = ROWS

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        context.send(batch)


def chains_in(flow: ps.Dataflow) -> dict[tuple[str, str], list[str]]:
    """The names of the operators of each chain, by the operator and input that end it."""
    nodes = flow.plan.nodes
    return {
        (nodes[end.operator].name, nodes[end.operator].inputs[end.port].name): [nodes[i].name for i in chain]
        for end, chain in flow.plan.chains().before.items()
    }


def begun() -> tuple[ps.Dataflow, ps.Stream]:
    flow = ps.Dataflow("chains", optimize=False)
    return flow, flow.stream_input("rows", ROWS)


# Which operators run inside of which.


def test_operators_that_keep_nothing_run_inside_of_their_reader() -> None:
    flow, rows = begun()
    made = rows.select("k", "v").named("a").filter(ps.col("v") > 1).named("b").map(dict, ROWS).named("c")
    flow.output("out", made)
    assert chains_in(flow) == {("out", "in"): ["a", "b", "c"]}
    graph = flow.plan.graph()
    ports = [graph.describe(Location(at)) for at in range(len(graph.ports))]
    assert ports == ["output 0 of 'rows'", "input 0 of 'a'"]


def test_a_flow_that_has_no_chains_has_every_port() -> None:
    flow, rows = begun()
    flow.output("out", rows.select("k", "v").named("a"))
    flow.plan.has_chains = False
    assert chains_in(flow) == {}
    assert len(flow.plan.graph().ports) == 4


def test_an_exchange_ends_a_chain() -> None:
    flow, rows = begun()
    flow.output("out", rows.select("k", "v").named("a").select("k", "v").named("b").exchange("k").count("k"))
    assert chains_in(flow) == {("b", "in"): ["a"]}


def test_an_exchange_may_stand_before_a_chain() -> None:
    flow, rows = begun()
    flow.output("out", rows.exchange("k").select("k", "v").named("a"))
    assert chains_in(flow) == {("out", "in"): ["a"]}


def test_two_readers_end_a_chain() -> None:
    flow, rows = begun()
    shared = rows.select("k", "v").named("a").select("k", "v").named("b")
    flow.output("one", shared)
    flow.output("two", shared.select("k", "v").named("c"))
    assert chains_in(flow) == {("b", "in"): ["a"], ("two", "in"): ["c"]}


def test_doors_and_operators_of_a_users_end_a_chain() -> None:
    flow, rows = begun()
    delayed = rows.select("k", "v").named("a").select("k", "v").named("b").delay(1)
    passed = ps.operator("own", Passes(), rows=delayed.select("k", "v").named("c"))
    flow.output("out", passed)
    assert chains_in(flow) == {("b", "in"): ["a"], ("own", "rows"): ["c"]}


def test_each_input_of_an_operator_has_its_own_chain() -> None:
    flow, rows = begun()
    kept, others = rows.select("k", "v").named("a").split(ps.col("v") > 3)
    flow.output(
        "out", kept.select("k", "v").named("b").union(others.select("k", "v").named("c")).named("both")
    )
    assert chains_in(flow) == {("split", "in"): ["a"], ("both", "in 0"): ["b"], ("both", "in 1"): ["c"]}


# The same rows.


def _halves(batch: pa.RecordBatch) -> pa.Table:
    half = batch.num_rows // 2
    return pa.Table.from_batches([batch.slice(0, half), batch.slice(half)])


Step = tuple[Callable[[ps.Stream, str], ps.Stream], Callable[[Rows], Rows]]

STEPS: list[Step] = [
    (
        lambda stream, name: stream.with_columns(v=ps.col("v") + 1).named(name),
        lambda rows: [{**row, "v": row["v"] + 1} for row in rows],
    ),
    (
        lambda stream, name: stream.filter(ps.col("v") % 3 != 0).named(name),
        lambda rows: [row for row in rows if row["v"] % 3],
    ),
    (lambda stream, name: stream.map_batches(_halves).named(name), lambda rows: rows),
    (
        lambda stream, name: stream.flat_map(lambda row: [row] * (row["k"] % 3), ROWS).named(name),
        lambda rows: [row for row in rows for _ in range(row["k"] % 3)],
    ),
    (lambda stream, name: stream.exchange("k"), lambda rows: rows),
    (
        lambda stream, name: stream.map(lambda row: {"k": row["v"] % 7, "v": row["k"]}, ROWS).named(name),
        lambda rows: [{"k": row["v"] % 7, "v": row["k"]} for row in rows],
    ),
    (
        lambda stream, name: ps.operator(name, Passes(), rows=stream),
        lambda rows: rows,
    ),
]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_chains_change_no_rows(seed: int, workers: int) -> None:
    chance = random.Random(seed)
    steps = [chance.choice(STEPS) for _ in range(8)]
    data = [[{"k": chance.randrange(9), "v": chance.randrange(50)} for _ in range(30)] for _ in range(3)]
    found = []
    for has_chains in (True, False):
        flow, stream = begun()
        for number, (write, _) in enumerate(steps):
            stream = write(stream, f"step {number}")
        flow.output("out", stream)
        flow.plan.has_chains = has_chains
        got = flow.run({"rows": data}, workers=workers, verify=has_chains)["out"]
        found.append([sorted(map(str, got[e].to_pylist())) if e in got else [] for e in range(3)])
    expected = []
    for rows in data:
        made: Rows = rows
        for _, compute in steps:
            made = compute(made)
        expected.append(sorted(map(str, made)))
    assert found == [expected, expected]


def test_chains_change_no_rows_between_processes() -> None:
    flow, rows = begun()
    keyed = rows.select("k", v=ps.col("v") * 2).filter(ps.col("v") > 4).exchange("k")
    flow.output(
        "out",
        keyed.filter(ps.col("k") < 8).group_by("k", running=True).count().select("k", n=ps.col("count")),
    )
    data = [{"k": number % 10, "v": number % 5} for number in range(100)]
    expected = [{"k": k, "n": 10} for k in range(8) if k % 5 in (3, 4)]
    (table,) = flow.run({"rows": [data]}, processes=2)["out"].values()
    assert sorted(table.to_pylist(), key=lambda row: row["k"]) == expected


# Each operator by itself.


def test_an_error_names_the_operator_in_the_chain() -> None:
    flow, rows = begun()
    made = (
        rows.select("k", "v").named("first").map(lambda row: {"k": row["k"] // 0, "v": 1}, ROWS).named("bad")
    )
    flow.output("out", made.filter(ps.col("v") > 0).named("last"))
    with pytest.raises(OperatorError, match=r"operator 'bad' failed with a batch at input 'in' at \(0,\)"):
        flow.run({"rows": [[{"k": 1, "v": 2}]]})


def test_wrong_rows_are_refused_in_the_name_of_the_operator_that_made_them() -> None:
    flow, rows = begun()
    made = rows.map_batches(lambda batch: [{"k": 1, "w": 2}]).named("bad")
    flow.output("out", made.select("k", "v").named("last"))
    with pytest.raises(SchemaError, match="operator 'bad'"):
        flow.run({"rows": [[{"k": 1, "v": 2}]]})


def test_each_operator_of_a_chain_counts_its_own_rows() -> None:
    flow, rows = begun()
    made = rows.filter(ps.col("v") > 0).named("a").flat_map(lambda row: [row, row], ROWS).named("b")
    flow.output("out", made.filter(ps.col("v") > 9).named("c"))
    with LocalRun(flow.plan) as run:
        run.input("rows").send([{"k": 1, "v": v} for v in (0, 1, 2)])
        run.input("rows").close()
        run.settle()
        (worker,) = workers_of(run)
        counted = {each.name: (each.calls, each.rows_in, each.rows_out) for each in worker.instances.values()}
        assert run.is_complete
    assert counted["a"] == (1, 3, 2)
    assert counted["b"] == (1, 2, 4)
    assert counted["c"] == (1, 4, 0)
    assert counted["out"][1:] == (0, 0)


@pytest.mark.parametrize("has_chains", [True, False])
def test_a_probe_in_the_middle_of_a_chain_tells_how_far_it_is(has_chains: bool) -> None:
    flow, rows = begun()
    middle = rows.select("k", "v").named("a").select("k", "v").named("b")
    probe = middle.probe()
    flow.output("out", middle.select("k", "v").named("c"))
    flow.plan.has_chains = has_chains
    with flow.open() as run:
        run.input("rows").send([{"k": 1, "v": 1}])
        run.input("rows").advance_to(4)
        assert not run.is_done(probe, 0)
        run.settle()
        assert run.is_done(probe, 3)
        assert not run.is_done(probe, 4)
        assert run.frontier(probe) == [(4,)]
        assert [holder.place for holder in run.why(probe)] == ["output 0 of 'rows'"]


def test_the_judge_names_each_operator_and_no_port_inside_of_a_chain() -> None:
    flow, rows = begun()
    flow.output("out", rows.select("k", "v").named("a").select("k", "v").named("b"))
    shape = shape_of(flow.plan)
    assert [shape.operator(number) for number in range(4)] == ["'rows'", "'a'", "'b'", "'out'"]
    assert [port.operator for port in shape.ports] == [0, 3]
    taken = SnapshotTaken(WorkerIndex(0), OperatorIndex(1), 5)
    assert describe_event(shape, taken) == "worker 0 took the snapshot of epoch 5 of 'a'"
