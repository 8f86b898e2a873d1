"""A port that chooses its shard by a function (Brun et al. 2021, section 2).

Families:
- *where rows go*: against ``shard % workers`` computed row by row; it finds rows at the wrong worker;
- *same results*: one worker, several, processes; with doors and loops between, which must not lose the pact;
- *answers*: every form that is taken, and every bad one refused with the reader's name and the line;
- *drawn*: text and drawings say the function;
- worlds, recovery and Spark are in ``tests/simulate/test_shard_worlds.py``,
  ``tests/journal/test_rescaling.py`` and ``tests/spark/test_shards.py``.
"""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError, OperatorError, SchemaError


class Where:
    """Says for each number on which worker it is."""

    outputs = "x long, worker long"

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        here = pa.array(np.full(batch.num_rows, int(context.worker)))
        context.send(pa.record_batch({"x": batch["x"], "worker": here}))


def tens(batch: pa.RecordBatch) -> pa.Array:
    """Numbers of the same ten together."""
    return pc.divide(batch["x"], 10)


def flow_by(by: Any, *columns: str) -> ps.Dataflow:  # noqa: ANN401 - whatever a user may give
    flow = ps.Dataflow("shards")
    numbers = flow.stream_input("numbers", "x long, word string").exchange(*columns, by=by)
    flow.output("out", ps.operator("where", Where(), numbers=numbers))
    return flow


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64()), "word": [f"w{value}" for value in values]})


def places(results: Any) -> list[tuple[int, int]]:  # noqa: ANN401 - tables by epoch
    table = results["out"].table()
    return sorted(zip(table["x"].to_pylist(), table["worker"].to_pylist(), strict=True))


# Where rows go.


@given(values=st.lists(st.integers(0, 2**40), max_size=30), workers=st.integers(1, 4))
def test_each_row_goes_to_the_worker_of_its_shard_and_none_is_lost(values: list[int], workers: int) -> None:
    results = flow_by(tens).run(numbers=[rows(*values)], workers=workers)
    assert places(results) == sorted((x, x // 10 % workers) for x in values)


def test_processes_agree_with_workers_in_one() -> None:
    given = [rows(*range(50)), rows(*range(100, 150))]
    assert places(flow_by(tens).run(numbers=given, processes=2)) == places(
        flow_by(tens).run(numbers=given, workers=2)
    )


def test_rows_of_one_shard_stay_in_their_order() -> None:
    results = flow_by(lambda batch: pc.bit_wise_and(batch["x"], 1)).run(
        numbers=[rows(4, 3, 8, 1, 2)], workers=2
    )
    table = results["out"].table()
    even = [
        x for x, worker in zip(table["x"].to_pylist(), table["worker"].to_pylist(), strict=True) if not worker
    ]
    assert even == [4, 8, 2]


def test_the_function_is_given_the_named_columns_and_no_others() -> None:
    seen: list[list[str]] = []

    def by(batch: pa.RecordBatch) -> pa.Array:
        seen.append(batch.schema.names)
        return batch["x"]

    flow_by(by, "x").run(numbers=[rows(1)])
    flow_by(by).run(numbers=[rows(1)])
    assert seen == [["x"], ["x", "word"]]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_doors_and_loops_keep_the_function_and_results_do_not_depend_on_workers(workers: int) -> None:
    """Before ``enter``, before ``feedback`` and before ``delay``: each door passes on how rows are shared."""
    flow = ps.Dataflow("doors")
    numbers = flow.stream_input("numbers", "x long")
    with numbers.loop("down") as loop:
        entered = loop.enter(numbers.exchange(by=tens))
        again = loop.variable("x long")
        placed = ps.operator("first", Where(), numbers=entered)
        back = ps.operator("second", Where(), numbers=again)
        less = placed.union(back).map_batches(
            lambda batch: pa.record_batch({"x": pc.subtract(batch["x"], 10)}), "x long"
        )
        loop.feedback(again, less.filter(pc.field("x") >= 0).exchange(by=tens))
        flow.output("out", loop.leave(placed.union(back)))
    flow.output("later", ps.operator("third", Where(), numbers=numbers.exchange(by=tens).delay(1)))
    results = flow.run(numbers=[pa.table({"x": [35, 7, 21]})], workers=workers)
    passed = [35, 25, 15, 5, 7, 21, 11, 1]
    assert places(results) == sorted((x, x // 10 % workers) for x in passed)
    assert {(row["x"], row["worker"]) for row in results["later"][1].to_pylist()} == {
        (x, x // 10 % workers) for x in (35, 7, 21)
    }


def test_copies_that_were_asked_for_before_are_made_before() -> None:
    flow = ps.Dataflow("copies")
    numbers = flow.stream_input("numbers", "x long, word string").broadcast().exchange(by=tens)
    flow.output("out", ps.operator("where", Where(), numbers=numbers))
    assert places(flow.run(numbers=[rows(5, 15)], workers=2)) == [(5, 0), (5, 0), (15, 1), (15, 1)]


# Answers.


@pytest.mark.parametrize(
    "form",
    [
        lambda n: pa.array(n, pa.int64()),
        lambda n: pa.array(n, pa.uint8()),
        lambda n: pa.chunked_array([n[:1], n[1:]], pa.int32()),
        lambda n: np.array(n),
        lambda n: np.array(n, np.uint16),
        lambda n: n,
        tuple,
        pl.Series,
        lambda n: np.array(n, np.uint64) + np.uint64(2**63),
    ],
    ids=["int64", "uint8", "chunks", "numpy", "uint16", "list", "tuple", "polars", "beyond int64"],
)
def test_every_form_of_whole_numbers_is_taken(form: Any) -> None:  # noqa: ANN401
    flow = flow_by(lambda batch: form(batch["x"].to_pylist()))
    assert places(flow.run(numbers=[rows(0, 1, 2, 3)], workers=2)) == [(0, 0), (1, 1), (2, 0), (3, 1)]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([1, 2], r"gave 2 of them\. Give one for each row"),
        ([1, None, 2], r"gave 1 nulls"),
        ([1, -5, 2], r"gave -5\. Take the remainder"),
        ([1.0, 2.0, 3.0], r"gave double\. Round or cast"),
        ([True, False, True], r"gave bool"),
        (["a", "b", "c"], r"gave string"),
        (np.zeros((3, 1), int), r"gave ndarray"),
        (3, r"gave int"),
        (None, r"gave NoneType"),
    ],
    ids=repr,
)
def test_a_bad_answer_names_the_reader_and_the_line_of_the_function(
    answer: Any,  # noqa: ANN401 - whatever a function may give
    said: str,
    workers: int,
) -> None:
    def shard(batch: pa.RecordBatch) -> Any:  # noqa: ANN401 - as above
        return answer

    line = shard.__code__.co_firstlineno
    who = rf"exchange by shard before operator 'where': the function \(.*function\.py:{line}\) must give"
    with pytest.raises(OperatorError, match=f"{who} the shard of each of 3 rows.*{said}"):
        flow_by(shard).run(numbers=[rows(1, 2, 3)], workers=workers)


@pytest.mark.parametrize(("workers", "processes"), [(1, None), (2, None), (1, 2)])
def test_a_function_that_raises_is_named_with_its_line_and_the_rows(
    workers: int, processes: int | None
) -> None:
    def shard(batch: pa.RecordBatch) -> pa.Array:
        return batch["price"]

    line = shard.__code__.co_firstlineno + 1
    who = "exchange by shard before operator 'where'"
    said = rf"{who}: the function failed: KeyError: .*function\.py:{line}, in shard"
    with pytest.raises(OperatorError, match=rf"{said}.*has 2 rows and begins \[{{'x': 1, 'word': 'w1'}}"):
        flow_by(shard).run(numbers=[rows(1, 2)], workers=workers, processes=processes)


def test_what_is_no_exchange_is_refused_where_it_is_written() -> None:
    numbers = ps.Dataflow("test").stream_input("numbers", "x long")
    with pytest.raises(
        FlowError, match=r"needs at least one key column.*or a function.*exchange\(by=function\)"
    ):
        numbers.exchange()
    with pytest.raises(
        FlowError, match=r"takes a function from a batch to the shard.*got str 'x'.*without by"
    ):
        numbers.exchange(by="x")  # type: ignore[arg-type]
    with pytest.raises(FlowError, match=r"takes names of columns, got function.*exchange\(by=function\)"):
        numbers.exchange(tens)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="exchange of stream 'numbers' needs the column 'y'"):
        numbers.exchange("y", by=tens)


# Drawn.


def test_text_and_drawings_say_the_function() -> None:
    named, plain = flow_by(tens, "x"), flow_by(lambda batch: batch["x"])
    assert "reads 'numbers' by tens of x\n" in named.describe()
    assert "reads 'numbers' by a function\n" in plain.describe()
    for flow, words in ((named, "by tens of x"), (plain, "by a function")):
        assert words in flow.to_mermaid()
        assert words in flow.to_html()
