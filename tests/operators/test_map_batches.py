"""What a function of whole batches may give back: rows in every form in which an input takes them.

Families:
- each form gives the same rows, with one worker and with two;
- no rows: None, an empty list, a frame without rows;
- what is no rows is refused with the operator's name.
"""

from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import SchemaError

BATCH = pa.record_batch({"x": [1, 2, 3], "word": ["a", None, "c"]})
FORMS: dict[str, Callable[[pa.RecordBatch], Any]] = {
    "batch": lambda batch: batch,
    "table": lambda batch: pa.Table.from_batches([batch.slice(0, 1), batch.slice(1)]),
    "polars": lambda batch: pl.DataFrame(batch),
    "pandas": lambda batch: batch.to_pandas(),
    "rows": lambda batch: batch.to_pylist(),
    "stream": lambda batch: pa.RecordBatchReader.from_batches(batch.schema, [batch]),
}


def mapped(function: Callable[[pa.RecordBatch], Any], workers: int = 1) -> list[dict[str, Any]]:
    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("in", BATCH.schema).exchange("x").map_batches(function))
    rows: list[dict[str, Any]] = flow.run({"in": [BATCH]}, workers=workers)["out"][0].to_pylist()
    return sorted(rows, key=lambda row: row["x"])


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_rows_come_back_in_any_form_that_an_input_takes(form: str, workers: int) -> None:
    assert mapped(FORMS[form], workers) == BATCH.to_pylist()


@pytest.mark.parametrize(
    "nothing",
    [None, [], pl.DataFrame(BATCH).clear(), pd.DataFrame({"x": [], "word": []}, dtype=object)],
    ids=["none", "list", "polars", "pandas"],
)
def test_no_rows_send_nothing(nothing: Any) -> None:  # noqa: ANN401 - any form of no rows
    assert mapped(lambda _: nothing) == []


@pytest.mark.parametrize("made", [7, "rows", {"x": 1, "word": "a"}, [1], pl.Series([1])])
def test_what_is_no_rows_is_refused_with_the_operators_name(made: Any) -> None:  # noqa: ANN401 - as above
    with pytest.raises(SchemaError, match="operator 'map', output 'out': rows must be a pyarrow"):
        mapped(lambda _: made)
