"""Columns that an input does not declare are left, whatever the rows come as and wherever the flow runs.

Families:
- every form of rows: Arrow batches and tables, pandas, polars, dictionaries;
- every way to run on this machine; Spark's is in ``tests/spark/test_run.py``, files in ``tests/sources``;
- what an operator sends is another matter: there a column that is not declared is refused.
"""

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import SchemaError

TABLE = pa.table({"note": ["a", "b"], "x": [1, 2], "day": [0, 1]})
FORMS = {
    "table": TABLE,
    "batch": TABLE.to_batches()[0],
    "pandas": TABLE.to_pandas(),
    "polars": pl.DataFrame({"note": ["a", "b"], "x": [1, 2], "day": [0, 1]}),
    "rows": TABLE.to_pylist(),
}


def doubled() -> ps.Dataflow:
    flow = ps.Dataflow("doubled")
    flow.output("out", flow.input("numbers", "x long").map(lambda row: {"x": 2 * row["x"]}, "x long"))
    return flow


def run(way: str, rows: Any, place: Path, **options: Any) -> list[tuple[int, int]]:  # noqa: ANN401
    flow = doubled()
    match way:
        case "workers":
            results = flow.run_local(numbers=[rows], workers=2, **options)
        case "processes":
            results = flow.run_local(numbers=[rows], processes=2, **options)
        case "checkpoint":
            results = flow.run_local(numbers=[rows], checkpoint=place / "checkpoint", **options)
        case _:
            out = place / "out"
            query = flow.start_local(
                numbers=[rows], checkpoint=place / "c", output=out, available_now=True, **options
            )
            query.awaitTermination()
            found = ps.read_published(str(out), "out")
            return sorted(zip(found["epoch"].to_pylist(), found["x"].to_pylist(), strict=True))
    table = results["out"].table()
    return sorted(zip(table["epoch"].to_pylist(), table["x"].to_pylist(), strict=True))


@pytest.mark.parametrize("way", ["workers", "processes", "checkpoint", "query"])
def test_columns_that_are_not_declared_are_left(way: str, tmp_path: Path) -> None:
    assert run(way, TABLE, tmp_path) == [(0, 2), (0, 4)]


@pytest.mark.parametrize("way", ["workers", "query"])
@pytest.mark.parametrize("form", FORMS)
def test_they_are_left_in_every_form_of_rows_beside_an_epoch_column(
    way: str, form: str, tmp_path: Path
) -> None:
    assert run(way, FORMS[form], tmp_path, epoch="day") == [(0, 2), (1, 4)]


@pytest.mark.parametrize("form", FORMS)
def test_a_declared_column_that_is_missing_is_missed_beside_others(form: str) -> None:
    flow = ps.Dataflow("test")
    flow.output("out", flow.input("numbers", "y long"))
    with pytest.raises(SchemaError, match=r"input 'numbers'.* lacks 'y', which the schema declares"):
        flow.run_local(numbers=[FORMS[form]])


def test_an_input_that_is_sent_to_by_hand_leaves_them_too() -> None:
    with doubled().open_local() as opened:
        numbers = opened.input("numbers")
        numbers.send(pd.DataFrame({"x": [1], "note": ["a"]}))
        numbers.close()
        while opened.step():
            pass
        assert opened.is_complete


def test_what_an_operator_sends_has_the_declared_columns_and_no_others() -> None:
    flow = ps.Dataflow("test")
    numbers = flow.input("numbers", "x long")
    flow.output("out", numbers.map_batches(lambda batch: batch.append_column("y", batch["x"])))
    with pytest.raises(
        SchemaError, match="operator 'map', output 'out' has 'y', but the schema declares only 'x'"
    ):
        flow.run_local(numbers=[TABLE])
