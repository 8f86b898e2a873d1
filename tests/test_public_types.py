"""The public API as a type checker and a user see it.

Families, and what only each can find:
- a flow written as a user would, with ``assert_type`` beside each step: mypy, which checks this file with all
  others, finds a type that got lost; a wrong call is marked with what mypy must say of it, and mypy finds a
  mark that is not needed;
- the signatures of all public names: what they mention is public, too, and none answers with Any;
- the attributes of public objects: none is there that only the package itself needs.
"""

import ast
import inspect
import textwrap
import typing
from collections.abc import Callable, Iterator
from typing import Any, Final, assert_type

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import FlowError

# As a user writes it.


class Doubled:
    """One output, said in text."""

    outputs = "n long"

    def on_receive(self, context: ps.ports.Context, port: str, batch: pa.RecordBatch) -> None:
        assert_type(context.time, ps.timely.Time)
        assert_type(context.workers, int)
        context.send([{"n": 2 * row["n"]} for row in batch.to_pylist()])


class Split:
    """Two outputs, by name, sent with a capability when a time is complete."""

    outputs: typing.ClassVar = {"small": "n long", "large": "n long"}

    def __init__(self) -> None:
        self.held: list[tuple[ps.timely.Capability, int]] = []

    def on_receive(self, context: ps.ports.Context, port: str, batch: pa.RecordBatch) -> None:
        capability = assert_type(context.retain(output="small"), ps.timely.Capability)
        context.send(batch, output="large")
        self.held.append((capability, batch.num_rows))

    def on_frontier(self, context: ps.ports.Context) -> None:
        assert_type(context.frontier(), ps.timely.Antichain[ps.timely.Time])
        done = [held for held in self.held if context.is_complete(held[0].time)]
        self.held = [held for held in self.held if held not in done]
        for capability, rows in done:
            with context.session(capability) as session:
                assert_type(session, ps.ports.SendSession)
                session.send([{"n": rows}])


class Silent:
    """An operator that says nothing of its outputs."""

    def on_notify(self, context: ps.ports.Context) -> None:
        raise AssertionError("nobody asked")


class NoOperator:
    """Has none of the four methods."""


def written() -> ps.Dataflow:
    flow = ps.Dataflow("typed")
    numbers = assert_type(flow.stream_input("numbers", "n long"), ps.Stream)
    doubled = assert_type(ps.operator("doubled", Doubled(), numbers=numbers), ps.Stream)
    small, large = assert_type(ps.operator("split", Split(), numbers=doubled), tuple[ps.Stream, ...])
    assert_type(ps.operator("silent", Silent(), outputs="n long", numbers=numbers), ps.Stream)
    with assert_type(large.loop("halve"), ps.timely.Loop) as loop:
        again = assert_type(loop.variable("n long"), ps.Stream)
        entered = assert_type(loop.enter(large), ps.Stream)
        more = entered.union(again).map(_halved, "n long").filter(lambda batch: [n > 0 for n in _n(batch)])
        loop.feedback(again, more)
        assert_type(more.loops, tuple[str, ...])
        left = assert_type(loop.leave(more), ps.Stream)
    flow.output("small", small)
    flow.output("left", assert_type(left.group_by("n", running=True).count(), ps.Stream))
    return flow


def test_aggregates_and_orders_have_the_types_that_they_promise() -> None:
    numbers = ps.Dataflow("typed").stream_input("numbers", "k long, n long")
    middle = assert_type(ps.median("n", where=ps.col("n") > 1), ps.functions.Aggregate)
    own = assert_type(ps.aggregate(lambda rows: rows.num_rows, "long"), ps.functions.FunctionAggregate)
    before = assert_type(ps.lag("n", default=0), ps.functions.OrderFunction)
    assert_type(numbers.to_table().group_by("k").agg(middle=middle, own=own), ps.Table)
    assert_type(numbers.to_table().with_columns(before=before.over(partition_by="k", order_by="n")), ps.Table)
    assert_type(numbers.group_by("k").agg(middle=middle).join(numbers.distinct("k"), "k"), ps.Stream)
    assert_type(numbers.with_columns(middle=middle.over(partition_by="k", order_by="n", rows=2)), ps.Stream)
    assert_type(numbers.top(1, by="n").with_columns(before=before.over(order_by="n")), ps.Stream)


def _n(batch: pa.RecordBatch) -> list[int]:
    numbers: list[int] = batch["n"].to_pylist()
    return numbers


def _halved(row: ps.ports.Row) -> ps.ports.Row:
    return {"n": row["n"] // 2}


def test_a_flow_with_two_outputs_and_a_loop_is_typed_from_its_inputs_to_its_results() -> None:
    results = assert_type(written().run(numbers=[pa.table({"n": [1, 2]})]), ps.Results)
    small = assert_type(results["small"], ps.OutputTables)
    assert small[0].to_pydict() == {"n": [2]}
    assert results["left"][0].sort_by("n").to_pydict() == {"n": [1, 2], "count": [2, 1]}


def test_a_run_by_hand_is_typed() -> None:
    flow = ps.Dataflow("typed")
    numbers = flow.stream_input("numbers", "n long")
    flow.output("numbers", numbers)
    probe = assert_type(numbers.probe(), ps.timely.Probe)
    with assert_type(flow.open(), ps.timely.LocalRun) as run:
        handle = assert_type(run.input("numbers"), ps.timely.RunInput)
        assert_type(run.is_done(probe, 0), bool)
        (holder,) = assert_type(run.why("numbers"), list[ps.timely.Holder])
        assert_type(holder.pointstamp, ps.timely.Pointstamp)
        assert assert_type(holder.place, str) == "output 0 of 'numbers'"
        handle.close()
        run.settle()
        assert run.is_done(probe, 0)


def test_what_is_no_operator_is_refused_by_the_type_checker_and_by_the_flow() -> None:
    numbers = ps.Dataflow("typed").stream_input("numbers", "n long")
    with pytest.raises(FlowError, match="'none' is a NoOperator without any of the methods on_start"):
        ps.operator("none", NoOperator(), outputs="n long", numbers=numbers)  # type: ignore[call-overload]
    with pytest.raises(FlowError, match="'none' is a str without any of the methods on_start"):
        ps.operator("none", "an operator", outputs="n long", numbers=numbers)  # type: ignore[call-overload]


# Signatures.

EXPORTED: Final[dict[str, object]] = {
    **{name: getattr(ps, name) for name in ps._HOMES},
    **{
        name: value
        for module in (ps.functions, ps.io, ps.ports, ps.status, ps.timely)
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("pointstamp.")
    },
}
"""Everything public by its name: at the top, and in the modules of names."""

NOT_EXPORTED: Final = {
    "pointstamp.dataflow.grouped.RowGroups": "what group_by returns: agg and count",
    "pointstamp.dashboard.server.Dashboard": "what query.dashboard() serves: an address, and close",
    "pointstamp.query.telemetry.Telemetry": "what query.telemetry() returns: close ends it",
    "pointstamp.expressions.tree.Choice": "an Expression with when and otherwise, which ps.when begins",
    "pointstamp.flow.plan.Plan": "a flow as plain data, for programs that read it; documented in its module",
    "pointstamp.plan.logical.LogicalOperator": "a plan as data, for programs that read it; see its module",
    "pointstamp.order.partial.PartialOrder": "what a TimeOrder is without its least time",
    "pointstamp.progress.tracker.Tracker": "what a display reads; nothing in it is for users",
    "pointstamp.driver.processes.ProcessRun": "has the methods of LocalRun",
    "pointstamp.connectors.published.compactor.ParquetCompactor": "a Compactor",
    "pointstamp.connectors.delta.sink.DeltaPublisher": "a Publisher",
    "pointstamp.connectors.staging.StagedFiles": "a Writer",
    "pointstamp.connectors.iceberg.sink.IcebergPublisher": "a Publisher",
    "pointstamp.connectors.kafka.sink.KafkaPublisher": "a Publisher",
    "pointstamp.connectors.kafka.sink.KafkaWriter": "a Writer",
    "pointstamp.connectors.published.sink.ParquetPublisher": "a Publisher",
    "pointstamp.connectors.postgres.sink.PostgresPublisher": "a Publisher",
    "pointstamp.connectors.postgres.staging.StagedRows": "a Writer",
    "pointstamp.connectors.delta.source.DeltaChanges": "a Source",
    "pointstamp.connectors.files.source.FolderSource": "a Source",
    "pointstamp.connectors.iceberg.source.IcebergChanges": "a Source",
    "pointstamp.connectors.kafka.source.KafkaSource": "a Source",
    "pointstamp.connectors.published.source.PublishedSource": "a Source",
    "pointstamp.spark.catalog_sink.CatalogPublisher": "a Publisher",
    "pointstamp.sql_views.entry.ViewFlow": "a Dataflow, which knows its inputs",
    "pointstamp.incremental.window_functions.RowFrame": "the rows of a window function; SQL makes it",
    "pointstamp.topology.domain.Domain": "asked for by the checks of a plan",
    "pointstamp.topology.ports.SourcePort": "an output in a path",
    "pointstamp.topology.ports.Target": "an input in a path",
}

ANSWERS_ANY: Final = {
    "Accumulator.result": "an Arrow or numpy array, which have no types",
    "Context.epoch": "the root time, of whatever type the flow has",
    "RunInput.time": "the root time, of whatever type the flow has",
    "Source.after": "a position is the source's own",
    "TimeOrder.sort_key": "anything that Python sorts",
}


class _ElseWhere:
    """Stands for a class that is imported only where types are checked."""


NAMES: Final[dict[str, Any]] = {
    **EXPORTED,
    **dict.fromkeys(("DataFrame", "FrameResults", "SparkSession"), _ElseWhere),
}


def functions(public: object) -> Iterator[tuple[str, Callable[..., object]]]:
    """A function itself; of a class its public methods and properties, with those it inherits from ours."""
    if inspect.isfunction(public):
        yield public.__name__, public
    if inspect.isclass(public):
        ours = (each for each in public.__mro__ if each.__module__.startswith("pointstamp"))
        for name, value in (item for each in ours for item in vars(each).items()):
            function = getattr(value, "fget", None) or getattr(value, "__func__", value)
            is_ours = not name.startswith("_") or (public is ps.Dataflow and name == "__init__")
            if is_ours and inspect.isfunction(function):
                yield name, function


def hints() -> Iterator[tuple[str, str, object]]:
    """The name of each public function, method or class, of each parameter or field, and its type."""
    for name, public in EXPORTED.items():
        for method, function in functions(public):
            where = name if name == method else f"{name}.{method}"
            for parameter, hint in typing.get_type_hints(function, localns=NAMES).items():
                yield where, parameter, hint
        if inspect.isclass(public):
            for attribute, hint in typing.get_type_hints(public, localns=NAMES).items():
                if not attribute.startswith("_"):
                    yield name, attribute, hint


def parts(hint: object) -> Iterator[object]:
    """Everything that a type is made of."""
    yield typing.get_origin(hint) or hint
    for argument in typing.get_args(hint):
        for each in argument if isinstance(argument, list) else [argument]:
            yield from parts(each)


def test_every_class_that_a_public_signature_mentions_is_public() -> None:
    public = list(EXPORTED.values())
    met = {
        f"{each.__module__}.{each.__qualname__}"
        for _, _, hint in hints()
        for each in parts(hint)
        if inspect.isclass(each) and each.__module__.startswith("pointstamp.") and each not in public
    }
    assert met == set(NOT_EXPORTED)


def test_no_public_function_answers_with_any() -> None:
    found = {where for where, parameter, hint in hints() if parameter == "return" and hint is Any}
    assert found == set(ANSWERS_ANY)


# Attributes.


def attributes(public: type) -> set[str]:
    """The public attributes that the methods of a class and of those it inherits from ours set."""
    ours = [each for each in public.__mro__ if each.__module__.startswith("pointstamp")]
    trees = [ast.parse(textwrap.dedent(inspect.getsource(each))) for each in ours]
    nodes = (node for tree in trees for node in ast.walk(tree))
    stored = (each for each in nodes if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store))
    return {
        each.attr
        for each in stored
        if isinstance(each.value, ast.Name) and each.value.id == "self" and not each.attr.startswith("_")
    }


def test_public_objects_have_no_attributes_but_those_that_are_for_users() -> None:
    classes = {name: public for name, public in EXPORTED.items() if inspect.isclass(public)}
    assert {name: found for name, public in classes.items() if (found := attributes(public))} == {
        "Dataflow": {"name"},
        "LocalRun": {"plan", "inputs", "on_result"},
        "OutputTables": {"name", "schema"},
    }
