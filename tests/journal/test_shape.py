"""Changed flows: what would be given to an operator that reads it as something else is refused before it is.

Families:
- reductions: a running one keeps numbers that do not say which aggregate they are of;
- declared state: what is kept, how, and by which key;
- what may change freely: code, and operators that keep nothing from epoch to epoch.
"""

from typing import Any, ClassVar

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
