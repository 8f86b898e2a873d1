"""Changed flows: what would be given to an operator that reads it as something else is refused before it is.

Families:
- reductions: a running one keeps numbers that do not say which aggregate they are of;
- declared state: what is kept, how, and by which key;
- tables: what their operators were told to compute, expressions and orders, too;
- what may change freely: code, and operators that keep nothing from epoch to epoch.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pointstamp as ps
from pointstamp.errors import RecoveryError
from pointstamp.journal.shape import check_shape, shape_of


def reducing(*keys: str, running: bool = True, **aggregates: Any) -> ps.Dataflow:  # noqa: ANN401
    flow = ps.Dataflow("reducing")
    rows = flow.input("rows", "k long, j long, x long")
    flow.output("out", rows.reduce(*keys, running=running, **aggregates))
    return flow


class Seen:
    """Keeps what it has seen; the classes below differ from it in one thing each."""

    outputs = "k long"
    state: ClassVar[dict[str, Any]] = {"seen": ps.saved.values(dict[int, int])}

    def on_receive(self, context: ps.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """It is never run here."""


class Forgetful(Seen):
    state: ClassVar[dict[str, Any]] = {}


class ByKey(Seen):
    state: ClassVar[dict[str, Any]] = {"seen": ps.saved.mapping("long", int)}


for each in (Forgetful, ByKey):
    each.__name__ = "Seen"  # as if the one class had been edited


def keeping(logic: Any, key: str = "k") -> ps.Dataflow:  # noqa: ANN401
    flow = ps.Dataflow("keeping")
    rows = flow.input("rows", "k long, j long")
    flow.output("out", ps.operator("seen", logic, rows=rows.exchange(key)))
    return flow


def mapping(condition: Any) -> ps.Dataflow:  # noqa: ANN401
    flow = ps.Dataflow("mapping")
    flow.output("out", flow.input("rows", "k long").filter(condition).map_batches(lambda batch: batch))
    return flow


def check(before: ps.Dataflow, now: ps.Dataflow) -> None:
    check_shape(shape_of(before.plan, "query"), shape_of(now.plan, "query"), accept_changes=False)


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (reducing("k", v=ps.max("x")), reducing("k", v=ps.min("x")), r"keeping v=max\(x\), is .*v=min\(x\)"),
        (reducing("k", v=ps.sum("x")), reducing("k", v=ps.sum("j")), r"keeping v=sum\(x\), is .*v=sum\(j\)"),
        (
            reducing("k", v=ps.sum("x")),
            reducing("k", running=False, v=ps.sum("x")),
            r"was RunningReduce.*, is WindowedReduce",
        ),
        (keeping(Seen()), keeping(Forgetful()), r"keeping seen as encoded, is Seen\(k int64\)\)"),
        (keeping(Seen()), keeping(ByKey()), r"keeping seen as encoded, is .* keeping seen as mapping"),
        (keeping(Seen()), keeping(Seen(), key="j"), r"by k keeping seen as encoded, is .*by j keeping"),
    ],
    ids=["max to min", "another column", "no longer running", "state gone", "state in another way", "key"],
)
def test_state_that_would_be_read_as_something_else_is_refused(
    before: ps.Dataflow, now: ps.Dataflow, words: str
) -> None:
    with pytest.raises(RecoveryError, match=words):
        check(before, now)
    check_shape(shape_of(before.plan, "query"), shape_of(now.plan, "query"), accept_changes=True)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (reducing("k", v=ps.max("x")), reducing("k", v=ps.max("x"))),
        (reducing("k", running=False, v=ps.max("x")), reducing("k", running=False, v=ps.min("x"))),
        (keeping(Seen()), keeping(Seen)),
        (mapping(pc.field("k") > 1), mapping(lambda batch: pc.greater(batch["k"], 1))),
    ],
    ids=["the same", "nothing kept", "object or class", "code"],
)
def test_what_keeps_nothing_and_what_is_code_may_change(before: ps.Dataflow, now: ps.Dataflow) -> None:
    check(before, now)


def table(make: Callable[[ps.Table, ps.Table], ps.Table | ps.Stream]) -> ps.Dataflow:
    flow = ps.Dataflow("tables")
    a, b = (flow.input(name, "k long, at long, x long").event_time("at", lateness=5) for name in ("a", "b"))
    flow.output("out", make(a.running(), b.running()))
    return flow


CHANGED: dict[str, tuple[Any, Any, str]] = {
    "aggregate": (
        lambda a, b: a.reduce("k", v=ps.max("x")),
        lambda a, b: a.reduce("k", v=ps.min("x")),
        r"operator reduce \(computed .*descends=True.*, computes .*Ordered",
    ),
    "argument": (
        lambda a, b: a.reduce("k", v=ps.sum(ps.col("x") * 2)),
        lambda a, b: a.reduce("k", v=ps.sum(ps.col("x") * 3)),
        r"col\('x'\) \* 2.*col\('x'\) \* 3",
    ),
    "condition": (
        lambda a, b: a.count("k").filter(ps.col("count") > 1),
        lambda a, b: a.count("k").filter(ps.col("count") > 2),
        r"operator filter \(computed \(col\('count'\) > 1\)",
    ),
    "order": (
        lambda a, b: a.top(1, "k", by="at"),
        lambda a, b: a.top(1, "k", by="x desc"),
        r"operator top \(computed .*column='at'.*computes .*column='x', descends=True",
    ),
    "how many": (
        lambda a, b: a.top(1, "k", by="at"),
        lambda a, b: a.top(2, "k", by="at"),
        "count=1.*count=2",
    ),
    "pairs": (
        lambda a, b: a.join(b, "k", where=ps.col("x") > ps.col("x_right")),
        lambda a, b: a.join(b, "k", where=ps.col("x") < ps.col("x_right")),
        r"operator join \(computed",
    ),
    "gap": (
        lambda a, b: a.sessions("k", at="at", gap=5),
        lambda a, b: a.sessions("k", at="at", gap=6),
        r"operator sessions \(computed .*gap=5.*gap=6",
    ),
    "window": (
        lambda a, b: a.window("at", 10).count("window_end"),
        lambda a, b: a.window("at", 20).count("window_end"),
        "size=10.*size=20",
    ),
    "as of": (
        lambda a, b: a.join_as_of(b, "k", at="at"),
        lambda a, b: a.join_as_of(b, "k", at="at", direction="forward"),
        "backward.*forward",
    ),
    "wait": (
        lambda a, b: a.with_columns(u=ps.col("at") + 5).final("u"),
        lambda a, b: a.with_columns(u=ps.col("at") + 5).final("at"),
        r"operator final \(computed",
    ),
}


@pytest.mark.parametrize(("before", "now", "words"), CHANGED.values(), ids=CHANGED)
def test_a_table_that_would_mean_something_else_is_refused(before: Any, now: Any, words: str) -> None:  # noqa: ANN401
    check(table(before), table(before))
    with pytest.raises(RecoveryError, match=words):
        check(table(before), table(now))
    shapes = [shape_of(table(each).plan, "query") for each in (before, now)]
    check_shape(*shapes, accept_changes=True)


def test_a_journal_that_does_not_say_what_was_computed_is_gone_on_with() -> None:
    before, now = (shape_of(table(each).plan, "query") for each in CHANGED["order"][:2])
    check_shape(msgspec.structs.replace(before, computes={}), now, accept_changes=False)


def test_a_shape_is_the_same_in_every_process() -> None:
    program = "import sys; sys.path[:0] = ['tests']; from tables.test_shown import all_operations as make; "
    program += "from pointstamp.journal.shape import shape_of; print(shape_of(make().plan, 'q'))"
    said = set()
    for seed in ("1", "2"):
        seeded = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", program]
        ran = subprocess.run(command, capture_output=True, check=True, env=seeded)
        said.add(ran.stdout.decode())
    assert len(said) == 1
    assert " at 0x" not in said.pop()


def test_a_query_goes_on_with_the_aggregate_that_was_saved_and_with_no_other(tmp_path: Any) -> None:  # noqa: ANN401
    days = [pa.table({"k": [1], "j": [0], "x": [x]}) for x in (5, 9, 4)]
    places: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "output": str(tmp_path / "out")}

    def run(flow: ps.Dataflow, count: int) -> None:
        query = flow.start_local(rows=days[:count], **places)
        try:
            query.awaitTermination()
        finally:
            query.stop()

    run(reducing("k", v=ps.max("x")), 2)
    with pytest.raises(RecoveryError, match=r"changed: operator reduce"):
        run(reducing("k", v=ps.min("x")), 3)
    run(reducing("k", v=ps.max("x")), 3)
    assert ps.read_published(places["output"], "out")["v"].to_pylist() == [5, 9]
