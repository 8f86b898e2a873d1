"""Conditions: an expression keeps the rows that Arrow's own filter keeps, in their order.

Families:
- against Arrow: ``Table.filter`` with the same expression, on batches of one row up to several of the
  engine's own chunks, with nulls, structs, text and sets of values;
- what is neither true nor false is left out of the rows that are kept, and is among the others.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pointstamp as ps
from pointstamp.operators.stateless import mask_of

FIELD = pc.field
EXPRESSIONS = {
    "comparison": FIELD("n") > 1000,
    "nulls": FIELD("maybe") > 4,
    "not nulls": ~(FIELD("maybe") > 4),
    "is null": FIELD("maybe").is_null(),
    "set": FIELD("word").isin(["a", "c"]),
    "both": (FIELD("n") > 10) & (FIELD("word") == "b"),
    "nested": FIELD("pair", "left") < 7,
    "always": pc.scalar(True),
    "never": pc.scalar(False),
}


def rows(count: int) -> pa.RecordBatch:
    numbers = np.arange(count)
    maybe = pa.array([None if n % 5 == 0 else n % 11 for n in numbers.tolist()], pa.int64())
    return pa.record_batch(
        {
            "n": numbers,
            "maybe": maybe,
            "word": pa.array(["a", "b", "c"]).take(pa.array(numbers % 3)),
            "pair": pa.StructArray.from_arrays([pa.array(numbers % 13)], ["left"]),
        }
    )


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("count", [1, 7, 100_000])
def test_an_expression_keeps_the_rows_that_arrow_keeps_in_their_order(name: str, count: int) -> None:
    batch = rows(count)
    kept = batch.filter(mask_of(EXPRESSIONS[name], batch, "test"))
    assert kept.equals(batch.filter(EXPRESSIONS[name]))


def test_branch_by_an_expression_loses_no_row_and_null_is_among_the_others() -> None:
    batch = rows(100_000)
    flow = ps.Dataflow("test")
    kept, others = flow.stream_input("rows", batch.schema).split(FIELD("maybe") > 4)
    flow.output("kept", kept)
    flow.output("others", others)
    results = flow.run(rows=batch)
    expected = pc.fill_null(pc.greater(batch["maybe"], 4), False)
    assert results["kept"][0].equals(pa.Table.from_batches([batch.filter(expected)]))
    assert results["others"][0].equals(pa.Table.from_batches([batch.filter(pc.invert(expected))]))
