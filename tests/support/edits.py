"""Edits of flows: every verb of streams, tables and graphs with an edit for each of its parameters.

A case is a call, and for each parameter of the verb's own signature another call that differs in it. Verbs
and parameters are found by introspection, so one that is added without an edit fails the tests.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import pointstamp as ps
from pointstamp import graphs

Given = tuple[tuple[Any, ...], dict[str, Any]]
Calling = Callable[["World"], Given]

K = "k long, at long, n long"
ROWS = {
    "a": [(1, 1, 10), (1, 3, 20), (2, 2, 30), (3, 9, 5)],
    "b": [(1, 2, 1), (2, 2, 2), (2, 8, 30), (4, 4, 4)],
    "c": [(1, 1, 1), (2, 2, 7)],
    "e": [(1, 1, 1)],
    "d": [(1, 2, 5), (2, 3, 1), (3, 1, 1), (3, 4, 2), (5, 6, 1)],
}


def given(*args: Any, **kwargs: Any) -> Given:  # noqa: ANN401 - passed on
    """The arguments of a call."""
    return args, kwargs


class World:
    """A flow with inputs, on which one verb is called."""

    def __init__(self) -> None:
        self.flow = ps.Dataflow("edited")
        self.s = self.flow.stream_input("a", K)
        self.t = self.flow.stream_input("b", K)
        self.u = self.flow.stream_input("c", K)
        self.a, self.b, self.c = self.s.to_table(), self.t.to_table(), self.u.to_table()
        self.events = self.s.with_watermark("at", 3)
        self.others = self.t.with_watermark("at", 3)
        self.untimed = self.flow.stream_input("e", K)
        self.windows = self.events.to_table().window("at", 4)
        edges = self.flow.table("d", "src long, dst long, length long")
        self.graph = graphs.Graph(edges)
        self.lists = self.s.map_batches(_listed, "k long, one array<long>, two array<long>").named("lists")
        self.texts = self.s.map_batches(_texts, "k long, op string, value string, key string").named("texts")

    def output(self, made: Any) -> ps.Dataflow:  # noqa: ANN401 - what a verb returns
        """The flow whose outputs are what the verb returned, and an output that reads all inputs."""
        for number, each in enumerate(made if isinstance(made, tuple) else (made,)):
            if isinstance(each, ps.Stream | ps.Table):
                self.flow.output(f"out {number}", each)
        self.flow.output("rest", self.s.union(self.t, self.u, self.untimed))
        return self.flow


def _listed(batch: pa.RecordBatch) -> pa.RecordBatch:
    n = batch["n"].to_pylist()
    return pa.record_batch({"k": batch["k"], "one": [[x] for x in n], "two": [[x, x] for x in n]})


def _texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    words = ["insert"] * batch.num_rows
    events = [f'{{"op": "c", "after": {{"k": {k}}}}}' for k in batch["k"].to_pylist()]
    return pa.record_batch({"k": batch["k"], "op": words, "value": events, "key": events})


def _half(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.slice(batch.num_rows // 2)


def _same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


@dataclass(frozen=True)
class Case:
    """A verb, on what it is called, the call, and the calls that differ in one parameter."""

    target: Callable[[World], Any]
    base: Calling
    edits: dict[str, Calling]

    def flow(self, verb: str, calling: Calling) -> ps.Dataflow:
        """The flow with this call."""
        world = World()
        args, kwargs = calling(world)
        return world.output(_called(self.target(world), verb, args, kwargs))


def _called(target: Any, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
    if verb == "Graph":
        graph = graphs.Graph(target, *args, **kwargs)
        return graphs.sssp(graph, 1) if graph.weight else graphs.degrees(graph)
    if verb in graphs.__all__:
        return getattr(graphs, verb)(target, *args, **kwargs)
    if verb == "group_by":
        return target.group_by(*args, **kwargs).agg(v=ps.sum("n"))
    if verb.startswith("over"):
        return target.with_columns(before=args[0].over(**kwargs))
    if verb == "loop":
        return _looped(target, target.loop(*args, **kwargs))
    return getattr(target, verb)(*args, **kwargs)


def _looped(target: Any, loop: Any) -> Any:  # noqa: ANN401 - a stream or a table, and its loop
    if isinstance(target, ps.Table):
        variable = loop.variable(target)
        loop.feedback(variable, variable.union(variable).distinct())
        return loop.leave(variable)
    with loop:
        variable = loop.variable(target.schema)
        again = loop.enter(target).union(variable).filter(ps.col("n") > 100)
        loop.feedback(variable, again)
        return loop.leave(again)


A, S = (lambda w: w.a), (lambda w: w.s)
G = lambda w: w.graph  # noqa: E731

# What each parameter of a verb is by name, where it means the same in many verbs.
_COLUMNS = {
    "select": Case(A, lambda w: given("k", "n", m=ps.col("n") + 1), {
        "columns": lambda w: given("n", "k", m=ps.col("n") + 1),
        "named": lambda w: given("k", "n", m=ps.col("n") + 2),
    }),
    "with_columns": Case(A, lambda w: given(m=ps.col("n") + 1), {
        "columns": lambda w: given({"m": ps.col("n") + 2}),
        "named": lambda w: given(m=ps.col("n") - 1),
    }),
    "rename": Case(A, lambda w: given({"n": "m"}), {"names": lambda w: given({"n": "o"})}),
    "drop": Case(A, lambda w: given("n"), {"columns": lambda w: given("at")}),
    "filter": Case(A, lambda w: given(ps.col("n") > 10), {
        "condition": lambda w: given(ps.col("n") >= 10),
    }),
    "explode": Case(lambda w: w.lists.to_table(), lambda w: given("one", position="p"), {
        "column": lambda w: given("two", position="p"),
        "outer": lambda w: given("one", position="p", outer=True),
        "position": lambda w: given("one", position="q"),
    }),
    "count": Case(A, lambda w: given("k"), {"keys": lambda w: given("at")}),
    "group_by": Case(A, lambda w: given("k"), {"keys": lambda w: given("at")}),
    "agg": Case(A, lambda w: given(v=ps.sum("n")), {
        "aggregates": lambda w: given({"v": ps.max("n")}),
        "named": lambda w: given(v=ps.sum("at")),
    }),
    "distinct": Case(A, lambda w: given("k", by="at"), {
        "keys": lambda w: given("n", by="at"),
        "by": lambda w: given("k", by="at desc"),
    }),
    "top": Case(A, lambda w: given(1, "k", by="at", rank="r"), {
        "count": lambda w: given(2, "k", by="at", rank="r"),
        "keys": lambda w: given(1, "n", by="at", rank="r"),
        "by": lambda w: given(1, "k", by="n", rank="r"),
        "ties": lambda w: given(1, "k", by="at", rank="r", ties=True),
        "rank": lambda w: given(1, "k", by="at", rank="q"),
    }),
    "window": Case(A, lambda w: given("at", 4), {
        "at": lambda w: given("n", 4),
        "size": lambda w: given("at", 8),
        "slide": lambda w: given("at", 4, slide=2),
        "offset": lambda w: given("at", 4, offset=1),
        "start": lambda w: given("at", 4, start="begin"),
        "end": lambda w: given("at", 4, end="stop"),
    }),
    "join": Case(A, lambda w: given(w.b, "k", where=ps.col("n") > ps.col("n_right")), {
        "other": lambda w: given(w.c, "k", where=ps.col("n") > ps.col("n_right")),
        "on": lambda w: given(w.b, "at", where=ps.col("n") > ps.col("n_right")),
        "how": lambda w: given(w.b, "k", how="left", where=ps.col("n") > ps.col("n_right")),
        "where": lambda w: given(w.b, "k", where=ps.col("n") < ps.col("n_right")),
        "suffix": lambda w: given(w.b, "k", suffix="_2"),
    }),
    "map_batches": Case(A, lambda w: given(_same, K), {
        "function": lambda w: given(_half, K),
        "schema": lambda w: given(_same, "k long, at long, n double"),
    }),
    "flat_map": Case(A, lambda w: given(lambda row: [row], K), {
        "function": lambda w: given(lambda row: [row, row], K),
        "schema": lambda w: given(lambda row: [row], "k long, at long, n double"),
    }),
}  # fmt: skip


def _of_streams(verb: str, **more: Calling) -> Case:
    """The case of tables for streams, whose verb has the same parameters, and perhaps more."""
    case = _COLUMNS[verb]
    return Case(S if case.target is A else lambda w: w.lists, case.base, {**case.edits, **more})


_WITHIN: dict[str, Calling] = {
    "other": lambda w: given(w.others.filter(ps.col("n") > 1), "k", at="at", within=2),
    "on": lambda w: given(w.others, "n", at="at", within=2),
    "at": lambda w: given(w.others, "k", at={"at": "at"}, within=2),
    "within": lambda w: given(w.others, "k", at="at", within=(0, 2)),
    "suffix": lambda w: given(w.others, "k", at="at", within=2, suffix="_2"),
}
_SESSIONS: dict[str, Calling] = {
    "keys": lambda w: given("n", at="at", gap=2, rows=ps.count()),
    "at": lambda w: given("k", at="n", gap=2, rows=ps.count()),
    "gap": lambda w: given("k", at="at", gap=3, rows=ps.count()),
    "start": lambda w: given("k", at="at", gap=2, start="begin", rows=ps.count()),
    "end": lambda w: given("k", at="at", gap=2, end="stop", rows=ps.count()),
    "aggregates": lambda w: given("k", at="at", gap=2, aggregates={"rows": ps.sum("n")}),
    "named": lambda w: given("k", at="at", gap=2, rows=ps.max("n")),
}


def _of_tables(calling: Calling) -> Calling:
    """The same call with a table in place of a stream."""

    def called(world: World) -> Given:
        (other, *rest), kwargs = calling(world)
        return (other.to_table(), *rest), kwargs

    return called


def _events(world: World) -> ps.Table:
    return world.events.to_table()


TABLES: dict[str, Case] = {
    **_COLUMNS,
    "to_stream": Case(A, lambda w: given(), {}),
    "changes": Case(A, lambda w: given(), {}),
    "emit_on_close": Case(lambda w: w.windows, lambda w: given("window_end"), {
        "when": lambda w: given("window_start"),
    }),
    "retain_until": Case(lambda w: w.windows, lambda w: given("window_end"), {
        "when": lambda w: given("window_start"),
    }),
    "intersect": Case(A, lambda w: given(w.b), {"other": lambda w: given(w.c)}),
    "intersect_all": Case(A, lambda w: given(w.b), {"other": lambda w: given(w.c)}),
    "except_": Case(A, lambda w: given(w.b), {"other": lambda w: given(w.c)}),
    "except_all": Case(A, lambda w: given(w.b), {"other": lambda w: given(w.c)}),
    "union": Case(A, lambda w: given(w.b), {"others": lambda w: given(w.c)}),
    "iterate": Case(A, lambda w: given(lambda x, y: x.union(y).distinct(), w.b, max_rounds=9), {
        "body": lambda w: given(lambda x, y: y.union(x).distinct(), w.b, max_rounds=9),
        "others": lambda w: given(lambda x, y: x.union(y).distinct(), w.c, max_rounds=9),
        "max_rounds": lambda w: given(lambda x, y: x.union(y).distinct(), w.b, max_rounds=8),
    }),
    "join_asof": Case(A, lambda w: given(w.b, "k", at="at"), {
        "other": lambda w: given(w.c, "k", at="at"),
        "on": lambda w: given(w.b, "n", at="at"),
        "at": lambda w: given(w.b, "k", at="n"),
        "direction": lambda w: given(w.b, "k", at="at", direction="forward"),
        "how": lambda w: given(w.b, "k", at="at", how="left"),
        "tolerance": lambda w: given(w.b, "k", at="at", tolerance=1),
        "suffix": lambda w: given(w.b, "k", at="at", suffix="_2"),
    }),
    "join_interval": Case(
        lambda w: w.events.to_table(),
        lambda w: given(w.others.to_table(), "k", at="at", within=2),
        {
            name: _of_tables(call) for name, call in _WITHIN.items()
        },
    ),
    "loop": Case(A, lambda w: given("loop", max_rounds=9), {
        "max_rounds": lambda w: given("loop", max_rounds=8),
    }),
    "session_window": Case(_events, lambda w: given("k", at="at", gap=2, rows=ps.count()), _SESSIONS),
    "upserts": Case(A, lambda w: given("k"), {
        "keys": lambda w: given("at"),
        "deleted": lambda w: given("k", deleted="gone"),
    }),
}  # fmt: skip


def _changes(world: World) -> ps.Stream:
    """A stream of which a table can be made in every way."""
    return world.texts.select(
        *("k", "op", "value", "key"), n=ps.col("k") * 2, w=ps.lit(1).cast("long"), e=ps.col("k") > 9
    )


def _over(**more: Any) -> Calling:  # noqa: ANN401 - arguments of over
    said = {"partition_by": "k", "order_by": "at", **more}
    return lambda w: given(ps.sum("n"), **said)


WINDOWS: dict[str, Case] = {
    verb: Case(target, _over(), {
        "partition_by": _over(partition_by="n"),
        "order_by": _over(order_by="n"),
        "rows": _over(rows=2),
    })
    for verb, target in (("over", A), ("over of a stream", S))
} | {
    "over rows of a stream": Case(S, _over(rows=3), {
        "partition_by": _over(rows=3, partition_by="n"),
        "order_by": _over(rows=3, order_by="n"),
        "rows": _over(rows=2),
    })
}  # fmt: skip


STREAMS: dict[str, Case] = {
    **{verb: _of_streams(verb) for verb in _COLUMNS if verb not in ("join", "group_by")},
    "group_by": _of_streams("group_by", running=lambda w: given("k", running=True)),
    "join": Case(S, lambda w: given(w.t, "k", where=ps.col("n") > ps.col("n_right")), {
        "other": lambda w: given(w.u, "k", where=ps.col("n") > ps.col("n_right")),
        "on": lambda w: given(w.t, "at", where=ps.col("n") > ps.col("n_right")),
        "how": lambda w: given(w.t, "k", how="left", where=ps.col("n") > ps.col("n_right")),
        "where": lambda w: given(w.t, "k", where=ps.col("n") < ps.col("n_right")),
        "suffix": lambda w: given(w.t, "k", suffix="_2"),
    }),
    "split": Case(S, lambda w: given(ps.col("n") > 10), {"condition": lambda w: given(ps.col("n") > 9)}),
    "broadcast": Case(S, lambda w: given(), {}),
    "union": Case(S, lambda w: given(w.t), {"others": lambda w: given(w.u)}),
    "delay": Case(S, lambda w: given(1), {"epochs": lambda w: given(2)}),
    "emit_on_close": Case(lambda w: w.events.window("at", 4), lambda w: given("window_end"), {
        "when": lambda w: given("window_start"),
    }),
    "with_watermark": Case(lambda w: w.untimed, lambda w: given("at", 3), {
        "at": lambda w: given("n", 3),
        "lateness": lambda w: given("at", 4),
        "late": lambda w: given("at", 3, late="drop"),
        "late_output": lambda w: given("at", 3, late_output="behind"),
        "idle": lambda w: given("at", 3, idle="1 minute"),
    }),
    "exchange": Case(S, lambda w: given("k"), {
        "keys": lambda w: given("at"),
        "by": lambda w: given(by=lambda batch: batch["k"]),
    }),
    "inspect": Case(S, lambda w: given(lambda time, batch: None), {
        "function": lambda w: given(lambda time, batch: batch),
    }),
    "join_interval": Case(lambda w: w.events, lambda w: given(w.others, "k", at="at", within=2), _WITHIN),
    "lookup": Case(S, lambda w: given(w.b, "k"), {
        "table": lambda w: given(w.c, "k"),
        "on": lambda w: given(w.b, "at"),
        "how": lambda w: given(w.b, "k", how="left"),
        "suffix": lambda w: given(w.b, "k", suffix="_2"),
    }),
    "loop": Case(S, lambda w: given("loop", max_rounds=9), {
        "max_rounds": lambda w: given("loop", max_rounds=8),
        "at_limit": lambda w: given("loop", max_rounds=9, at_limit="stop"),
    }),
    "map": Case(S, lambda w: given(lambda row: row, K), {
        "function": lambda w: given(lambda row: {**row, "n": 1}, K),
        "schema": lambda w: given(lambda row: row, "k long, at long, n double"),
    }),
    "to_table": Case(_changes, lambda w: given(), {
        "key": lambda w: given(key="k"),
        "order": lambda w: given(key="k", order="n"),
        "deleted": lambda w: given(key="k", deleted="e"),
        "weight": lambda w: given(weight="w"),
        "operation": lambda w: given(operation="op"),
        "snapshots": lambda w: given(snapshots=True),
        "empty": lambda w: given(snapshots=True, empty="e"),
        "format": lambda w: given(format="debezium", schema="k long", value="value"),
        "schema": lambda w: given(format="debezium", schema="k int", value="value"),
        "value": lambda w: given(format="debezium", schema="k long", value="key"),
        "trusted": lambda w: given(operation="op", trusted=True),
    }),
    "session_window": Case(lambda w: w.events, lambda w: given("k", at="at", gap=2, rows=ps.count()), {
        **_SESSIONS, "at": lambda w: given("k", at="at", gap=5, rows=ps.count()),
    }),
}  # fmt: skip


def _program(**changed: Any) -> Calling:  # noqa: ANN401 - arguments of pregel
    said = {
        "start": {"dist": ps.when(ps.col("id") == 1, 0).otherwise(99)},
        "to_dst": ps.col("src_dist") + 1,
        "aggregates": {"least": ps.min("msg")},
        "update": {"dist": ps.functions.least(ps.col("dist"), ps.functions.coalesce("least", ps.lit(99)))},
        "rounds": 3,
    }
    return lambda w: given(**{name: each for name, each in {**said, **changed}.items() if each is not None})


GRAPHS: dict[str, Case] = {
    **{
        verb: Case(G, lambda w: given(), {})
        for verb in ("degrees", "k_core", "lcc", "maximal_matching", "scc", "topological_levels")
    },
    **{verb: Case(G, lambda w: given(), {}) for verb in ("triangle_count", "triangles", "triplets", "wcc")},
    "minimum_spanning_forest": Case(
        lambda w: graphs.Graph(w.graph.edges, weight="length", directed=False), lambda w: given(), {}
    ),
    "bfs": Case(G, lambda w: given(1), {"source": lambda w: given(2)}),
    "sssp": Case(lambda w: graphs.Graph(w.graph.edges, weight="length"), lambda w: given(1), {
        "source": lambda w: given(2),
    }),
    "reachable": Case(G, lambda w: given([1]), {"sources": lambda w: given([1, 3])}),
    "cdlp": Case(G, lambda w: given(rounds=3), {"rounds": lambda w: given(rounds=4)}),
    "find": Case(G, lambda w: given("(a)-[]->(b)"), {"motif": lambda w: given("(a)-[]->(b); (b)-[]->(c)")}),
    "connected_components": Case(lambda w: w.s, lambda w: given(src="k", dst="at"), {
        "src": lambda w: given(src="n", dst="at"),
        "dst": lambda w: given(src="k", dst="n"),
        "diff": lambda w: given(src="k", dst="at", diff="n"),
    }),
    "pagerank": Case(G, lambda w: given(), {
        "damping": lambda w: given(damping=0.5),
        "tolerance": lambda w: given(tolerance=0.01),
        "sums_to": lambda w: given(sums_to="vertices"),
    }),
    "personalised_pagerank": Case(G, lambda w: given([1]), {
        "sources": lambda w: given([2]),
        "damping": lambda w: given([1], damping=0.5),
        "tolerance": lambda w: given([1], tolerance=0.01),
        "sums_to": lambda w: given([1], sums_to="vertices"),
    }),
    "shortest_paths": Case(
        lambda w: graphs.Graph(w.graph.edges, weight="length"),
        lambda w: given([1]),
        {"landmarks": lambda w: given([2]), "weighted": lambda w: given([1], weighted=True)},
    ),
    "aggregate_messages": Case(G, lambda w: given(to_dst=ps.col("src"), v=ps.sum("msg")), {
        "to_src": lambda w: given(to_src=ps.col("dst"), v=ps.sum("msg")),
        "to_dst": lambda w: given(to_dst=ps.col("src") + 1, v=ps.sum("msg")),
        "aggregates": lambda w: given(to_dst=ps.col("src"), aggregates={"v": ps.max("msg")}),
        "named": lambda w: given(to_dst=ps.col("src"), v=ps.min("msg")),
    }),
    "pregel": Case(G, _program(), {
        "start": _program(start={"dist": ps.when(ps.col("id") == 2, 0).otherwise(99)}),
        "update": _program(update={"dist": ps.functions.coalesce("least", ps.lit(98))}),
        "aggregates": _program(aggregates={"least": ps.max("msg")}),
        "to_src": _program(to_src=ps.col("dst_dist") + 1),
        "to_dst": _program(to_dst=ps.col("src_dist") + 2),
        "rounds": _program(rounds=2),
        "max_rounds": _program(rounds=None, max_rounds=50),
    }),
    "Graph": Case(A, lambda w: given(src="k", dst="at"), {
        "vertices": lambda w: given(w.b.select(id=ps.col("k")), src="k", dst="at"),
        "src": lambda w: given(src="n", dst="at"),
        "dst": lambda w: given(src="k", dst="n"),
        "id": lambda w: given(w.b.select(v=ps.col("k")), src="k", dst="at", id="v"),
        "weight": lambda w: given(src="k", dst="at", weight="n"),
        "directed": lambda w: given(src="k", dst="at", directed=False),
    }),
}  # fmt: skip

NO_EDITS = {
    "probe": "tells of progress, and sends nothing",
    "enter": "takes a loop, whose edits are those of loop",
    "named": "gives an operator a name, which means nothing else",
}
OTHER_WORDS = ("GraphFrame", "AggregateMessages", "Pregel")
"""Other names for verbs that are among these."""


def verbs_of(kind: type) -> Iterator[str]:
    """The public methods of a class."""
    for name, _ in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and name not in NO_EDITS:
            yield name


def parameters_of(verb: Any) -> Iterator[str]:  # noqa: ANN401 - a method, a function or a class
    """The parameters of a verb's own signature, but for what it is called on."""
    for number, name in enumerate(inspect.signature(verb).parameters):
        if not (name == "self" or (number == 0 and name in ("graph", "edges"))):
            yield name


def with_name(calling: Calling) -> Calling:
    """The same call, by another name."""

    def named(world: World) -> Given:
        args, kwargs = calling(world)
        if args and isinstance(args[0], str) and args[0] == "loop":
            return ("another", *args[1:]), kwargs
        return args, {**kwargs, "name": "another"}

    return named
