"""Changed flows: what would be given to an operator that reads it as something else is refused before it is.

Families:
- reductions: a running one keeps numbers that do not say which aggregate they are of;
- declared state: what is kept, how, and by which key;
- tables: what their operators were told to compute, expressions and orders, too;
- what is the same flow, written again, also with other names and in another order;
- checkpoints of another layout.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec.structs import replace

import pointstamp as ps
from pointstamp.errors import RecoveryError
from pointstamp.journal.flow_shape import check_shape, shape_of
from pointstamp.journal.history import FlowShape
from support.options import with_options


def reducing(*keys: str, running: bool = True, **aggregates: Any) -> ps.Dataflow:  # noqa: ANN401
    flow = ps.Dataflow("reducing")
    rows = flow.stream_input("rows", "k long, j long, x long")
    flow.output("out", rows.group_by(*keys, running=running).agg(**aggregates))
    return flow


class Seen:
    """Keeps what it has seen; the classes below differ from it in one thing each."""

    outputs = "k long"
    state: ClassVar[dict[str, Any]] = {"seen": ps.ports.saved.values(dict[int, int])}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """It is never run here."""


class Forgetful(Seen):
    state: ClassVar[dict[str, Any]] = {}


class ByKey(Seen):
    state: ClassVar[dict[str, Any]] = {"seen": ps.ports.saved.mapping("long", int)}


for each in (Forgetful, ByKey):
    each.__name__ = "Seen"  # as if the one class had been edited


def keeping(logic: Any, key: str = "k") -> ps.Dataflow:  # noqa: ANN401
    flow = ps.Dataflow("keeping")
    rows = flow.stream_input("rows", "k long, j long")
    flow.output("out", ps.operator("seen", logic, rows=rows.exchange(key)))
    return flow


def mapping(condition: Any) -> ps.Dataflow:  # noqa: ANN401
    flow = ps.Dataflow("mapping")
    flow.output("out", flow.stream_input("rows", "k long").filter(condition).map_batches(lambda batch: batch))
    return flow


def check(before: ps.Dataflow, now: ps.Dataflow) -> None:
    check_shape(shape_of(before.plan, "query"), shape_of(now.plan, "query"), accept_changes=False)


def views(names: str, *, is_turned: bool = False) -> ps.Dataflow:
    """Two views of one input; each letter names an operator."""
    flow = ps.Dataflow("views")
    rows = flow.table("rows", "k long, j long, x long")

    def sums() -> None:
        large = rows.filter(ps.col("x") > 1).named(names[0])
        flow.output("sums", large.group_by("k").agg(v=ps.sum("x")).named(names[1]))

    def firsts() -> None:
        flow.output("firsts", rows.top(1, "j", by="x").named(names[2]).join(rows, "k").named(names[3]))

    for view in (firsts, sums) if is_turned else (sums, firsts):
        view()
    return flow


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (
            reducing("k", v=ps.max("x")),
            reducing("k", v=ps.min("x")),
            r"aggregates.v.kind was 'max', is 'min'",
        ),
        (reducing("k", v=ps.sum("x")), reducing("k", v=ps.sum("j")), r"aggregates.v.column was 'x', is 'j'"),
        (
            reducing("k", v=ps.sum("x")),
            reducing("k", running=False, v=ps.sum("x")),
            r"operator was .*RunningReduce, is .*WindowedReduce",
        ),
        (keeping(Seen()), keeping(Forgetful()), r"state 'seen' was encoded, is not set"),
        (keeping(Seen()), keeping(ByKey()), r"state 'seen' was encoded, is mapping"),
        (keeping(Seen()), keeping(Seen(), key="j"), r"input 'rows' was .*keys=\('k'\)\), is .*keys=\('j'\)"),
    ],
    ids=["max to min", "another column", "no longer running", "state gone", "state in another way", "key"],
)
def test_state_that_would_be_read_as_something_else_is_rejected(
    before: ps.Dataflow, now: ps.Dataflow, words: str
) -> None:
    for accept in (False, True):
        with pytest.raises(RecoveryError, match=words):
            check_shape(shape_of(before.plan, "query"), shape_of(now.plan, "query"), accept_changes=accept)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (reducing("k", v=ps.max("x")), reducing("k", v=ps.max("x"))),
        (keeping(Seen()), keeping(Seen)),
        (mapping(pc.field("k") > 1), mapping(pc.field("k") > 1)),
    ],
    ids=["the same", "object or class", "expressions of pyarrow"],
)
def test_the_same_flow_written_again_is_the_same(before: ps.Dataflow, now: ps.Dataflow) -> None:
    check(before, now)


def test_other_names_and_another_order_of_views_are_the_same_flow(tmp_path: Any) -> None:  # noqa: ANN401
    check(views("abcd"), views("wxyz"))
    check(views("abcd"), views("dcba", is_turned=True))
    days = [pa.table({"k": [1, 2], "j": [0, 1], "x": [x, 9 - x]}) for x in (5, 9, 4, 7)]

    def run(flow: ps.Dataflow, place: str, count: int) -> dict[str, list[dict[str, Any]]]:
        where: dict[str, Any] = {"checkpoint": str(tmp_path / f"of {place}"), "output": str(tmp_path / place)}
        query = flow.start(rows=days[:count], **with_options(where))
        try:
            query.await_termination()
        finally:
            query.stop()
        found = {each: ps.read_table(where["output"], each).to_pylist() for each in ("sums", "firsts")}
        return {name: sorted(rows, key=repr) for name, rows in found.items()}

    run(views("abcd"), "one", 2)
    run(views("wxyz", is_turned=True), "one", 3)
    assert run(views("abcd"), "one", 4) == run(views("abcd"), "another", 4)


def test_state_stays_with_its_operator_where_two_differ_in_a_constant_and_are_turned() -> None:
    def flow(*limits: int) -> ps.Dataflow:
        made = ps.Dataflow("limits")
        rows = made.table("rows", "k long, j long, x long")
        for limit in limits:
            made.output(f"above {limit}", rows.filter(ps.col("x") > limit).group_by("k").agg(v=ps.sum("x")))
        return made

    check(flow(1, 2), flow(2, 1))
    before, now = (shape_of(flow(*limits).plan, "query") for limits in ((1, 2), (2, 1)))
    named = [{each.name: place for place, each in shape.operators.items()} for shape in (before, now)]
    assert named[0]["operator agg"] == named[1]["operator agg 2"]
    with pytest.raises(RecoveryError, match=r"operator filter 2: condition was .* > 2.*, is .* > 3"):
        check(flow(1, 2), flow(1, 3))


def test_a_checkpoint_of_another_layout_is_rejected_with_what_to_do() -> None:
    shape = shape_of(views("abcd").plan, "query")
    for layout, age in ((shape.layout - 1, "an older"), (shape.layout + 1, "a newer")):
        with pytest.raises(
            RecoveryError, match=rf"{age} version .* layout is {layout}, expected .* new checkpoint"
        ):
            check_shape(replace(shape, layout=layout), shape, accept_changes=True)


def test_what_an_operator_was_made_with_is_asked_by_name() -> None:
    source = Path(ps.__file__).parent
    looks = re.compile(r"isinstance\([^)]*\bpartial\b|\bis partial\b|\.func\b(?!\(\))")
    found = {str(each.relative_to(source)) for each in source.rglob("*.py") if looks.search(each.read_text())}
    # Functions of the user may be partials: of these it is written what they compute.
    assert found == {"plan/canonical.py", "plan/serialization.py"}


def table(make: Callable[[ps.Table, ps.Table], ps.Table | ps.Stream]) -> ps.Dataflow:
    flow = ps.Dataflow("tables")
    a, b = (flow.stream_input(name, "k long, at long, x long").with_watermark("at", 5) for name in ("a", "b"))
    flow.output("out", make(a.to_table(), b.to_table()))
    return flow


CHANGED: dict[str, tuple[Any, Any, str]] = {
    "aggregate": (
        lambda a, b: a.group_by("k").agg(v=ps.max("x")),
        lambda a, b: a.group_by("k").agg(v=ps.min("x")),
        r"operator agg: ",
    ),
    "argument": (
        lambda a, b: a.group_by("k").agg(v=ps.sum(ps.col("x") * 2)),
        lambda a, b: a.group_by("k").agg(v=ps.sum(ps.col("x") * 3)),
        r"col\('x'\) \* 2.*col\('x'\) \* 3",
    ),
    "condition": (
        lambda a, b: a.count("k").filter(ps.col("count") > 1),
        lambda a, b: a.count("k").filter(ps.col("count") > 2),
        r"operator filter: condition was \(col\('count'\) > 1\), is",
    ),
    "order": (
        lambda a, b: a.top(1, "k", by="at"),
        lambda a, b: a.top(1, "k", by="x desc"),
        r"operator top: .*column='at'",
    ),
    "how many": (
        lambda a, b: a.top(1, "k", by="at"),
        lambda a, b: a.top(2, "k", by="at"),
        "count was 1, is 2",
    ),
    "pairs": (
        lambda a, b: a.join(b, "k", where=ps.col("x") > ps.col("x_right")),
        lambda a, b: a.join(b, "k", where=ps.col("x") < ps.col("x_right")),
        r"operator join: ",
    ),
    "gap": (
        lambda a, b: a.session_window("k", at="at", gap=5),
        lambda a, b: a.session_window("k", at="at", gap=6),
        r"operator sessions: .*gap was 5, is 6",
    ),
    "window": (
        lambda a, b: a.window("at", 10).count("window_end"),
        lambda a, b: a.window("at", 20).count("window_end"),
        "size was 10, is 20",
    ),
    "as of": (
        lambda a, b: a.join_asof(b, "k", at="at"),
        lambda a, b: a.join_asof(b, "k", at="at", direction="forward"),
        "backward.*forward",
    ),
    "wait": (
        lambda a, b: a.with_columns(u=ps.col("at") + 5).emit_on_close("u"),
        lambda a, b: a.with_columns(u=ps.col("at") + 5).emit_on_close("at"),
        r"operator emit on close: ",
    ),
}


@pytest.mark.parametrize(("before", "now", "words"), CHANGED.values(), ids=CHANGED)
def test_a_table_that_would_mean_something_else_is_rejected(before: Any, now: Any, words: str) -> None:  # noqa: ANN401
    check(table(before), table(before))
    shapes = [shape_of(table(each).plan, "query") for each in (before, now)]
    for accept in (False, True):
        with pytest.raises(RecoveryError, match=words):
            check_shape(*shapes, accept_changes=accept)


def test_a_query_goes_on_with_the_aggregate_that_was_saved_and_with_no_other(tmp_path: Any) -> None:  # noqa: ANN401
    days = [pa.table({"k": [1], "j": [0], "x": [x]}) for x in (5, 9, 4)]
    places: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "output": str(tmp_path / "out")}

    def run(flow: ps.Dataflow, count: int) -> None:
        query = flow.start(rows=days[:count], **places)
        try:
            query.await_termination()
        finally:
            query.stop()

    run(reducing("k", v=ps.max("x")), 2)
    with pytest.raises(RecoveryError, match=r"operator agg: "):
        run(reducing("k", v=ps.min("x")), 3)
    run(reducing("k", v=ps.max("x")), 3)
    assert ps.read_changes(places["output"], "out")["v"].to_pylist() == [5, 9]


@pytest.mark.parametrize("reads_kept", [False, True])
def test_another_output_of_an_operator_is_another_flow(reads_kept: bool) -> None:
    def flow(*, reads_kept: bool) -> ps.Dataflow:
        made = ps.Dataflow("parts")
        kept, others = made.stream_input("rows", "k long, x long").split(ps.col("x") > 1)
        read, left = (kept, others) if reads_kept else (others, kept)
        made.output("sums", read.group_by("k").agg(v=ps.sum("x")))
        made.output("left", left)
        return made

    check(flow(reads_kept=reads_kept), flow(reads_kept=reads_kept))
    with pytest.raises(
        RecoveryError, match=r"input 'in' was operator split, output '\w+', is operator split, output"
    ):
        check(flow(reads_kept=reads_kept), flow(reads_kept=not reads_kept))


def test_all_outputs_that_share_a_table_may_be_dropped_and_the_one_that_saves_it_not_alone() -> None:
    def flow(*outputs: str) -> FlowShape:
        made = ps.Dataflow("shared")
        rows = made.table("rows", "k long, x long")
        made.output("rows", rows)
        counts = rows.group_by("k", "x").count() if outputs else rows
        for name in outputs:
            made.output(name, counts.top(len(name), "k", by="x").named(name))
        return shape_of(made.plan, "query")

    check_shape(flow("first", "second"), flow(), accept_changes=True)
    with pytest.raises(
        RecoveryError, match="operator first is missing, in whose state the table of operator second"
    ):
        check_shape(flow("first", "second"), flow("second"), accept_changes=True)


@pytest.mark.parametrize(("has_function", "is_same"), [(True, False), (True, True), (False, False)])
def test_another_python_is_named_where_a_function_of_the_user_changed(
    has_function: bool, is_same: bool
) -> None:
    def flow(limit: int) -> ps.Dataflow:
        made = ps.Dataflow("functions")
        rows = made.stream_input("rows", "k long")
        made.output(
            "out",
            rows.filter(
                (lambda batch: pc.greater(batch["k"], limit)) if has_function else ps.col("k") > limit
            ),
        )
        return made

    now = shape_of(flow(2).plan, "query")
    before = shape_of(flow(1).plan, "query")
    before = before if is_same else replace(before, python="2.7")
    with pytest.raises(RecoveryError, match="belongs to another flow") as caught:
        check_shape(before, now, accept_changes=False)
    assert ("Python 2.7 wrote the checkpoint" in str(caught.value)) == (has_function and not is_same)
    assert "pointstamp 0.0 wrote" not in str(caught.value)
    with pytest.raises(
        RecoveryError, match=r"pointstamp 0\.0 wrote the checkpoint; .* may make other operators"
    ):
        check_shape(replace(before, version="0.0"), now, accept_changes=False)
