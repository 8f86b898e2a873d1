"""Columns that an input does not declare, whatever the rows come as and wherever the flow runs.

Families:
- *left out*: in every form of rows (Arrow, pandas, polars, dictionaries) and every way to run here;
- *changes*: one that looks like the change of a row is an error, by every way in; Spark's ways are in
  ``tests/spark/test_run.py``, Delta's in ``tests/connectors/test_delta_changes.py``;
- *warnings*: others are a warning, once for an input, and none with ``extra_columns="ignore"``;
- *text*: rows at hand with text that is not UTF-8 are refused;
- what an operator sends is another matter: there a column that is not declared is refused.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import pointstamp as ps
from pointstamp.arrow import schema
from pointstamp.errors import FlowError, SchemaError
from support.options import with_options

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
    flow.output("out", flow.stream_input("numbers", "x long").map(lambda row: {"x": 2 * row["x"]}, "x long"))
    return flow


def run(way: str, rows: Any, place: Path, **options: Any) -> list[tuple[int, int]]:  # noqa: ANN401
    flow = doubled()
    match way:
        case "workers":
            results = flow.run(numbers=[rows], workers=2, **options)
        case "processes":
            results = flow.run(numbers=[rows], processes=2, **options)
        case "checkpoint":
            results = flow.run(numbers=[rows], checkpoint=place / "checkpoint", **options)
        case _:
            out = place / "out"
            query = flow.start(
                numbers=[rows],
                checkpoint=place / "c",
                output=out,
                available_now=True,
                **with_options(options),
            )
            query.await_termination()
            found = ps.read_changes(str(out), "out")
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
    flow.output("out", flow.stream_input("numbers", "y long"))
    with pytest.raises(SchemaError, match=r"input 'numbers'.* lacks 'y', which the schema declares"):
        flow.run(numbers=[FORMS[form]])


def test_an_input_that_is_sent_to_by_hand_leaves_them_too() -> None:
    with doubled().open() as opened:
        numbers = opened.input("numbers")
        numbers.send(pd.DataFrame({"x": [1], "note": ["a"]}))
        numbers.close()
        while opened.step():
            pass
        assert opened.is_complete


def test_what_an_operator_sends_has_the_declared_columns_and_no_others() -> None:
    flow = ps.Dataflow("test")
    numbers = flow.stream_input("numbers", "x long")
    flow.output("out", numbers.map_batches(lambda batch: batch.append_column("y", batch["x"])))
    with pytest.raises(
        SchemaError, match="operator 'map', output 'out' has 'y', but the schema declares only 'x'"
    ):
        flow.run(numbers=[TABLE])


# Changes.

EDGES = pa.table({"src": [1, 1, 1], "dst": [2, 3, 2], "diff": [1, 1, -1]})
WEIGHED = """
    create table edges (src long, dst long, diff long) tblproperties ('weight' = 'diff');
    create view counts as select src, count(*) n from edges group by src;
"""


def counting(**options: Any) -> ps.Dataflow:  # noqa: ANN401
    return ps.sql("select src, count(*) n from edges group by src", edges="src long, dst long", **options)


def feed(way: str, table: pa.Table, place: Path, flow: ps.Dataflow) -> None:
    """Give a flow the rows of a table as its input 'edges', or fail."""
    places: Any = {"checkpoint": place / "c", "output": place / "o"}
    inbox = place / "in"
    inbox.mkdir()
    match way:
        case "table" | "pandas" | "polars" | "rows":
            as_form = {
                "table": lambda: table,
                "pandas": table.to_pandas,
                "polars": lambda: pl.from_arrow(table),
                "rows": table.to_pylist,
            }
            flow.run(edges=[as_form[way]()])
        case "processes":
            flow.run(edges=[table], processes=1)
        case "sent":
            with flow.open() as opened:
                opened.input("edges").send(table)
        case "checkpoint":
            flow.run(edges=[table], checkpoint=place / "c")
        case "query":
            flow.start(edges=[table], available_now=True, **places).await_termination()
        case "published":
            source = ps.Dataflow("source")
            declared = ", ".join(f"{name} long" for name in table.schema.names if name != "diff")
            source.output("edges", source.table("rows", declared, extra_columns="ignore"))
            source.start(
                rows=[table], available_now=True, checkpoint=place / "c0", output=inbox
            ).await_termination()
            flow.start(
                edges=ps.io.published(inbox, "edges"), available_now=True, **places
            ).await_termination()
        case _:
            if way == "parquet":
                pq.write_table(table, inbox / "1.parquet")
            elif way == "csv":
                pa_csv.write_csv(table, inbox / "1.csv")
            elif way == "json, later":  # of which the first objects have no such key
                lines = [{"src": 0, "dst": 0}] * 50 + table.to_pylist()
                (inbox / "1.json").write_text("".join(json.dumps(row) + "\n" for row in lines))
            elif way == "partition":
                (inbox / "diff=-1").mkdir()
                pq.write_table(table.drop_columns(["diff"]), inbox / "diff=-1" / "1.parquet")
            else:
                (inbox / "1.json").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
            flow.start(edges=ps.io.files(inbox), available_now=True, **places).await_termination()


MEMORY = ["table", "pandas", "polars", "rows", "processes", "sent", "checkpoint", "query"]
STORED = ["published", "parquet", "csv", "json", "json, later", "partition"]


@pytest.mark.parametrize("way", [*MEMORY, *STORED])
def test_an_undeclared_column_that_says_the_change_of_a_row_is_an_error(way: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="a column 'diff', which the schema does not declare") as caught:
        feed(way, EDGES, tmp_path, counting())
    assert "a column 'diff', which the schema does not declare and which looks like the change" in str(
        caught.value
    )
    assert "flow.table(..., weight='diff'), or in SQL tblproperties ('weight' = 'diff')" in str(caught.value)


@pytest.mark.parametrize("way", [*MEMORY, *STORED])
def test_it_is_accepted_where_the_input_says_so(way: str, tmp_path: Path) -> None:
    feed(way, EDGES, tmp_path, counting(extra_columns="ignore"))


def test_declared_as_the_weight_it_deletes() -> None:
    counts = ps.sql(WEIGHED).run(edges=[EDGES])["counts"][0].to_pylist()
    assert counts == [{"src": 1, "n": 1, "diff": 1}]


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("weight", "weight='weight'"),
        ("op", "operation='op'"),
        ("__op", "operation='__op'"),
        ("OPERATION", "operation='OPERATION'"),
        ("_change_type", "operation='_change_type'"),
        ("deleted", "deleted='deleted'"),
        ("__deleted", "deleted='__deleted'"),
        ("is_deleted", "deleted='is_deleted'"),
        ("isDeleted", "deleted='isDeleted'"),
        ("DELETED_AT", "deleted='DELETED_AT'"),
        ("_fivetran_deleted", "deleted='_fivetran_deleted'"),
    ],
)
def test_every_usual_name_is_known_and_the_error_says_how_to_declare_it(name: str, way: str) -> None:
    with pytest.raises(SchemaError, match=f"a column '{name}'.*{way}"):
        counting().run(edges=[EDGES.rename_columns(["src", "dst", name])])


@pytest.mark.parametrize(
    "name", ["deleted", "is_deleted", "isDeleted", "IS_DELETED", "_deleted", "delete_flag"]
)
@pytest.mark.parametrize("way", ["parquet", "csv", "json", "json, later"])
def test_a_mark_of_deleted_rows_is_found_wherever_it_stands(way: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=f"a column '{name}', which the schema does not declare"):
        feed(way, EDGES.rename_columns(["src", "dst", name]), tmp_path, counting())


def test_a_mark_of_deleted_rows_inside_a_value_of_json_is_no_column(tmp_path: Path) -> None:
    rows = [{"src": 1, "dst": 2, "note": {"deleted": 1}}, {"src": 1, "dst": 2, "note": 'is "deleted": yes'}]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    counting().start(
        edges=ps.io.files(tmp_path / "in"),
        available_now=True,
        checkpoint=tmp_path / "c",
        output=tmp_path / "o",
    ).await_termination()


# Warnings.


@pytest.fixture(name="warned")
def _warned(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    monkeypatch.setattr(schema, "_warned", {})
    return lambda: [each for each in caplog.messages if "does not declare" in each]


@pytest.mark.parametrize("way", [*MEMORY, "parquet", "csv", "json"])
def test_other_undeclared_columns_are_a_warning_once(
    way: str, tmp_path: Path, warned: Callable[[], list[str]]
) -> None:
    feed(way, EDGES.rename_columns(["src", "dst", "note"]), tmp_path, counting())
    (message,) = warned()
    assert "the rows have 'note', which the schema does not declare; these columns are not read." in message


def test_they_are_no_warning_where_the_input_says_so(warned: Callable[[], list[str]]) -> None:
    counting(extra_columns="ignore").run(edges=[EDGES.rename_columns(["src", "dst", "note"])])
    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("numbers", "x long", extra_columns="ignore"))
    flow.run(numbers=[TABLE, TABLE])
    assert warned() == []


def test_extra_columns_is_one_of_two_words() -> None:
    with pytest.raises(FlowError, match=r"input 'x': extra_columns must be 'warn' or 'ignore', got 'drop'"):
        ps.Dataflow("test").stream_input("x", "x long", extra_columns="drop")  # type: ignore[arg-type]


# Text.


@pytest.mark.parametrize("way", ["workers", "processes", "checkpoint", "query"])
def test_rows_at_hand_with_text_that_is_not_utf8_are_refused(way: str, tmp_path: Path) -> None:
    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("numbers", "s string"))
    wrong = pa.table({"s": pa.array([b"caf\xe9"]).view(pa.string())})
    with pytest.raises(SchemaError, match=r"input 'numbers': column 's' has text that is not UTF-8"):
        run_flow(flow, way, wrong, tmp_path)


def run_flow(flow: ps.Dataflow, way: str, rows: pa.Table, place: Path) -> None:
    match way:
        case "workers":
            flow.run(numbers=[rows])
        case "processes":
            flow.run(numbers=[rows], processes=1)
        case "checkpoint":
            flow.run(numbers=[rows], checkpoint=place / "c")
        case _:
            flow.start(numbers=[rows], checkpoint=place / "c", output=place / "o").await_termination()
