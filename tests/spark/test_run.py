"""Bounded runs on Spark: the same flows, DataFrames in and DataFrames out.

Families:
- answers: what Spark's own operations say on the same rows, and what the run in this process says;
- epoch columns: declared ones, which stay in the rows, and others, on a table of cases with its own oracle;
- refusals: what can be known to be wrong is said in one sentence, and a user's exception comes back as such.
"""

import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

import pointstamp as ps
from pointstamp.errors import FlowError, OperatorError, SchemaError, StorageError
from pointstamp.spark import job
from pointstamp.spark.row_packing import input_specs
from pointstamp.verify.verifier import JudgeProcess
from support.dated import CASES, Case, Outputs, by_epoch

pytestmark = pytest.mark.spark


def test_counts_by_key_and_epoch_are_those_of_group_by(spark: SparkSession) -> None:
    flow = ps.Dataflow("counts")
    flow.output("counts", flow.stream_input("numbers", "x long").count("x"))
    frame = spark.range(0, 5_000).selectExpr("id % 91 as x", "id % 4 as at")
    result = flow.run(on=spark, numbers=frame, epoch="at")["counts"]
    expected = frame.groupBy("at", "x").count()
    assert Counter(map(tuple, result.collect())) == Counter(map(tuple, expected.collect()))
    assert result.count() == expected.count()  # again, without running the job again


def test_a_run_with_a_checkpoint_gives_the_same_judged_or_not_and_goes_on_from_where_it_was(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, begun = JudgeProcess.begin, []

    def note(self: JudgeProcess, generation: int, *given: Any, **named: Any) -> None:  # noqa: ANN401
        begun.append(generation)
        begin(self, generation, *given, **named)

    monkeypatch.setattr(JudgeProcess, "begin", note)
    flow = ps.Dataflow("counts")
    flow.output("counts", flow.stream_input("numbers", "x long").group_by("x", running=True).count())
    frame = spark.range(0, 1_000).selectExpr("id % 91 as x", "id % 4 as at")
    expected = Counter(map(tuple, flow.run(on=spark, numbers=frame, epoch="at")["counts"].collect()))
    for verify in (True, False):  # the second has nothing left to do
        result = flow.run(on=spark, numbers=frame, epoch="at", checkpoint=str(tmp_path), verify=verify)[
            "counts"
        ]
        assert Counter(map(tuple, result.collect())) == expected
    assert begun == [1]


@pytest.mark.parametrize("partitions", [2, 3])
def test_partitions_are_read_as_they_are_where_there_is_one_for_each_worker(
    spark: SparkSession, partitions: int
) -> None:
    flow = ps.Dataflow("odd")
    flow.output("odd", flow.stream_input("numbers", "x long").filter(pc.field("x") > 900))
    frame = spark.range(0, 1_000, 1, partitions).toDF("x")
    specs = input_specs(flow.plan, flow.plan.graph(), {})
    assert job.reads_as_it_is(spark, {"numbers": frame}, specs, 2) == (partitions == 2)
    found = flow.run(on=spark, numbers=frame, workers=2)["odd"].collect()
    assert sorted(map(tuple, found)) == [(0, x) for x in range(901, 1_000)]


@pytest.mark.parametrize("way", ["two partitions", "three partitions", "coalesced", "united"])
def test_rows_by_key_come_to_their_worker_packed_or_as_they_are(spark: SparkSession, way: str) -> None:
    flow = ps.Dataflow("counts")
    flow.output("counts", flow.stream_input("numbers", "x long, s string").count("x", "s"))
    ids = {
        "two partitions": lambda: spark.range(0, 5_000, 1, 2),
        "three partitions": lambda: spark.range(0, 5_000, 1, 3),
        # A barrier stage refuses these, though two partitions come out.
        "coalesced": lambda: spark.range(0, 5_000, 1, 4).coalesce(2),
        "united": lambda: spark.range(0, 2_000, 1, 1).unionAll(spark.range(2_000, 5_000, 1, 1)),
    }[way]()
    frame = ids.selectExpr("id % 91 as x", "string(id % 3) as s")
    specs = input_specs(flow.plan, flow.plan.graph(), {})
    assert specs[0].keys == ("x", "s")
    assert job.reads_as_it_is(spark, {"numbers": frame}, specs, 2) == (way == "two partitions")
    found = flow.run(on=spark, numbers=frame, workers=2, options=ps.QueryOptions(pushdown=False))[
        "counts"
    ].collect()
    wanted = Counter((n % 91, str(n % 3)) for n in range(5_000))
    assert sorted(map(tuple, found)) == sorted((0, *key, count) for key, count in wanted.items())


def test_a_loop_gives_what_it_gives_in_this_process(spark: SparkSession) -> None:
    flow = ps.Dataflow("halving")
    numbers = flow.stream_input("numbers", "x long")
    with numbers.loop("halve") as loop:
        again = loop.variable("x long")
        now = loop.enter(numbers).union(again).exchange("x")
        half = now.map_batches(lambda batch: pa.record_batch({"x": pc.shift_right(batch["x"], 1)}))
        loop.feedback(again, half.filter(pc.field("x") > 0))
        flow.output("seen", loop.leave(now).count("x"))
    table = pa.table({"x": list(range(1, 200))})
    local = flow.run(numbers=[table])["seen"].table().to_pylist()
    frame = spark.createDataFrame(table.to_pandas())
    rows = [row.asDict() for row in flow.run(on=spark, numbers=frame)["seen"].collect()]
    assert sorted(map(str, rows)) == sorted(map(str, local))


def test_several_inputs_of_different_schemas_and_empty_ones_make_one_job(spark: SparkSession) -> None:
    flow = ps.Dataflow("two")
    words, numbers = flow.stream_input("words", "w string"), flow.stream_input("numbers", "x long, y double")
    flow.output("words", words.count("w"))
    flow.output("numbers", numbers.filter(pc.field("y") > 0.5))
    flow.output("nothing", numbers.filter(pc.field("y") > 9.0))
    results = flow.run(
        on=spark,
        words=spark.createDataFrame([("a",), ("b",), ("a",)], "w string"),
        numbers=spark.createDataFrame([], "x long, y double"),
    )
    assert sorted(map(tuple, results["words"].collect())) == [(0, "a", 2), (0, "b", 1)]
    assert results["numbers"].count() == 0
    assert results["nothing"].columns == ["epoch", "x", "y"]


def test_the_output_lies_where_it_was_asked_for(spark: SparkSession) -> None:
    flow = ps.Dataflow("copy")
    flow.output("copied", flow.stream_input("numbers", "x long"))
    with tempfile.TemporaryDirectory() as folder:
        flow.run(on=spark, numbers=spark.range(10).selectExpr("id as x"), output=folder)
        assert list(Path(folder, "copied").glob("*.parquet"))
        assert spark.read.parquet(f"{folder}/copied").count() == 10


# Epoch columns.


def dated_frames(spark: SparkSession, case: Case) -> dict[str, DataFrame]:
    sales = spark.createDataFrame(case.rows, f"day {case.declared}, amount long")
    return {"sales": sales, "visits": sales.select("amount", "day")}


def collected(frames: dict[str, DataFrame]) -> Outputs:
    return by_epoch({name: [row.asDict() for row in frame.collect()] for name, frame in frames.items()})


@pytest.mark.parametrize(
    "case",
    [each for each in CASES if len(each.rows) > 3 or each.declared == "byte"],
    ids=lambda case: case.name,
)
def test_a_declared_epoch_column_says_the_epoch_and_stays_in_the_rows(
    spark: SparkSession, case: Case
) -> None:
    result = case.flow().run(dated_frames(spark, case), on=spark, epoch="day")
    assert collected(result) == case.expected()


def test_with_a_checkpoint_it_stays_the_first_time_and_the_second(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = CASES[1]
    for _ in range(2):
        result = case.flow().run(dated_frames(spark, case), on=spark, epoch="day", checkpoint=tmp_path)
        assert collected(result) == case.expected()


def test_rows_are_packed_where_a_declared_column_says_their_epochs_and_else_read_as_they_are(
    spark: SparkSession,
) -> None:
    flow = ps.Dataflow("copy")
    flow.output("copied", flow.stream_input("sales", "day long, amount long"))
    frame = spark.range(0, 100, 1, 2).selectExpr("id % 3 as day", "id as amount")
    for epochs, is_read_as_it_is in (({}, True), ({"sales": "day"}, False)):
        specs = input_specs(flow.plan, flow.plan.graph(), epochs)
        assert job.reads_as_it_is(spark, {"sales": frame}, specs, 2) == is_read_as_it_is
        found = flow.run(on=spark, sales=frame, epoch=epochs, workers=2)["copied"].collect()
        wanted = [(amount % 3 if epochs else 0, amount % 3, amount) for amount in range(100)]
        assert sorted(map(tuple, found)) == sorted(wanted)


@pytest.mark.parametrize("declared", ["long", None])
def test_what_is_no_epoch_is_refused_in_words(spark: SparkSession, declared: str | None) -> None:
    flow = ps.Dataflow("refused")
    flow.output("out", flow.stream_input("sales", "amount long" + (f", day {declared}" if declared else "")))
    frame = spark.range(3)
    for day, said in (
        ("nullif(id, 1)", "the epoch column 'day' has nulls, but every row needs an epoch"),
        ("id - 1", "input 'sales': epochs must be 0 or more, got a row of epoch -1"),
        (
            "date '2024-01-31'",
            r"'day' must be an integer, got date32\[day\]\. .* unix_date\(day\) in Spark",
        ),
        ("string(id)", "the epoch column 'day' must be an integer, got string"),
    ):
        with pytest.raises(SchemaError, match=said):
            flow.run(on=spark, sales=frame.selectExpr("id as amount", f"{day} as day"), epoch="day")


def test_an_epoch_column_that_is_declared_as_a_date_is_refused_on_every_way(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = ps.Dataflow("refused")
    flow.output("out", flow.stream_input("sales", "day date, amount long"))
    frame = spark.range(3).selectExpr("date_from_unix_date(int(id)) as day", "id as amount")
    said = r"'day' must be an integer, got date32\[day\]\. .* unix_date\(day\) in Spark"
    state = tmp_path / "c"
    with pytest.raises(SchemaError, match=said):
        flow.run(on=spark, sales=frame, epoch="day")
    with pytest.raises(SchemaError, match=said):
        flow.run(on=spark, sales=frame, checkpoint=state, epoch="day")
    options = ps.QueryOptions(epoch="day")
    with pytest.raises(SchemaError, match=said):
        flow.start(on=spark, sales=frame, checkpoint=state, output=tmp_path / "o", options=options)
    assert not list(tmp_path.iterdir())


# Refusals.


def test_a_users_exception_comes_back_with_operator_time_and_line(spark: SparkSession) -> None:
    def fail(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ZeroDivisionError("by nothing")

    flow = ps.Dataflow("fails")
    flow.output("out", flow.stream_input("numbers", "x long").exchange("x").map_batches(fail).named("divide"))
    with pytest.raises(OperatorError, match=r"operator 'divide' failed .* ZeroDivisionError: by nothing"):
        flow.run(on=spark, numbers=spark.range(10).selectExpr("id as x"))


def test_what_cannot_work_is_said_before_spark_starts(spark: SparkSession) -> None:
    flow = ps.Dataflow("refused")
    flow.output("out", flow.stream_input("numbers", "x long"))
    frame = spark.range(10).selectExpr("id as y")
    with pytest.raises(FlowError, match=r"3 workers were requested, but Spark has 2 slots"):
        flow.run(
            on=spark,
            numbers=spark.range(10).selectExpr("id as x"),
            workers=3,
            options=ps.QueryOptions(min_workers=3),
        )
    with pytest.raises(SchemaError, match=r"input 'numbers': the DataFrame has no column 'x'; it has 'y'"):
        flow.run(on=spark, numbers=frame)
    with pytest.raises(FlowError, match=r"has the inputs 'numbers', got 'letters'"):
        flow.run(on=spark, letters=frame)

    with pytest.raises(SchemaError, match=r"input 'numbers': epoch= names the column 'day', but"):
        flow.run(on=spark, numbers=spark.range(10).selectExpr("id as x"), epoch="day")
    with pytest.raises(FlowError, match=r"has no input 'path'\. .*output=path"):
        flow.run(on=spark, numbers=frame, path="somewhere")
    with pytest.raises(FlowError, match=r"needs the path of a folder as output=, got ParquetSink"):
        flow.run(on=spark, numbers=frame, output=ps.io.ParquetSink("somewhere"))
    silent = ps.Dataflow("silent")
    silent.stream_input("numbers", "x long")
    with pytest.raises(FlowError, match=r"flow 'silent' has no output"):
        silent.run(on=spark, numbers=frame)


def test_columns_that_are_not_declared_are_left_as_everywhere(spark: SparkSession) -> None:
    flow = ps.Dataflow("copy")
    flow.output("copied", flow.stream_input("numbers", "x long"))
    frame = spark.range(3).selectExpr("id as x", "'a' as note", "id as y")
    assert sorted(map(tuple, flow.run(on=spark, numbers=frame)["copied"].collect())) == [
        (0, 0),
        (0, 1),
        (0, 2),
    ]


def test_a_column_of_another_type_is_named(spark: SparkSession) -> None:
    flow = ps.Dataflow("refused")
    flow.output("out", flow.stream_input("numbers", "x long"))
    frame = spark.createDataFrame([("one",)], "x string")
    with pytest.raises(FlowError, match=r"input 'numbers': column 'x' must be int64, got string"):
        flow.run(on=spark, numbers=frame)


def test_an_undeclared_column_that_says_the_change_of_a_row_is_an_error_before_anything_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = ps.sql("select src, count(*) n from edges group by src", edges="src long, dst long")
    frame = spark.createDataFrame([(1, 2, 1), (1, 2, -1)], "src long, dst long, diff long")
    frame.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("src long, dst long, diff long").parquet(str(tmp_path / "in"))
    places: dict[str, Any] = {"checkpoint": tmp_path / "checkpoint", "output": tmp_path / "out"}
    for begin in (
        lambda: flow.run(on=spark, edges=frame),
        lambda: flow.start(on=spark, edges=frame, **places),
        lambda: flow.start(on=spark, edges=stream, **places),
    ):
        with pytest.raises(SchemaError, match=r"input 'edges': the rows have a column 'diff', which"):
            begin()
    assert not (tmp_path / "checkpoint" / "log").exists()


def test_files_that_spark_writes_with_its_own_defaults_are_read(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(1, datetime(2024, 1, 31, 12, 30, tzinfo=UTC), "2024-01-31"), (2, None, "2024-02-01")]
    frame = spark.createDataFrame(rows, "x long, at timestamp, day string").selectExpr(
        "x", "at", "struct(at as inner) as s", "cast(day as date) as day"
    )
    kind = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(kind)
    spark.conf.set(kind, "INT96")
    try:
        frame.write.partitionBy("day").parquet(str(tmp_path / "in"))
    finally:
        spark.conf.set(kind, str(before))
    flow = ps.Dataflow("written by Spark")
    columns = "x long, at timestamp, s struct<inner:timestamp>, day date"
    flow.output("out", flow.stream_input("rows", columns))
    query = flow.start(
        rows=ps.io.files(tmp_path / "in"),
        checkpoint=tmp_path / "c",
        output=tmp_path / "o",
        available_now=True,
    )
    query.await_termination()
    found = sorted(ps.read_changes(str(tmp_path / "o"), "out").to_pylist(), key=lambda row: row["x"])
    assert [(row["x"], row["at"], row["s"]["inner"], str(row["day"])) for row in found] == [
        (number, at, at, day) for number, at, day in rows
    ]


def test_what_is_no_dataframe_of_sparks_or_has_no_end_is_refused_before_anything_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = ps.Dataflow("numbers")
    flow.output("out", flow.stream_input("numbers", "x long"))
    frame = spark.range(3).selectExpr("id as x")
    stream = spark.readStream.schema("x long").parquet(str(tmp_path))
    with pytest.raises(FlowError, match=r"needs a Spark DataFrame, got pandas\..*DataFrame\."):
        flow.run(on=spark, numbers=frame.toPandas())
    with pytest.raises(FlowError, match=r"'numbers' is a streaming DataFrame.*Use start\(\)"):
        flow.run(on=spark, numbers=stream)
    places: dict[str, Any] = {"checkpoint": tmp_path / "checkpoint", "output": tmp_path / "out"}
    with pytest.raises(FlowError, match=r"or a source such as ps\.io\.files\(path\), got str"):
        flow.start(on=spark, numbers="folder", **places)
    with pytest.raises(StorageError, match=r"the folder '.*nowhere' cannot be listed"):
        flow.start(on=spark, numbers=ps.io.files(tmp_path / "nowhere"), **places)
    assert not (tmp_path / "checkpoint").exists()
