"""One flow in many tasks, in one task, in the driver's process, and without Spark: the results are the same.

Families, and what only each can find:
- a query that moves between all modes with one checkpoint: state and positions that only one mode can read;
- bounded runs in each mode, compared with Spark's own operations, and their failures: rows packed for
  one worker, files of the only task, messages that pass no mesh;
- connections: a run with one worker opens no socket, which an environment that allows none would find.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.errors import FlowError, OperatorError, SchemaError
from pointstamp.spark import forming, rendezvous
from support.options import with_options
from support.streams import SECONDS_MAX, counts_by_epoch, published_by_epoch, put, words_flow

MODES: dict[str, dict[str, Any]] = {
    "many tasks": {"workers": 2},
    "one task": {"workers": 1},
    "driver": {"in_driver": True},
}
WORDS = [["a", "b"], ["b"], ["a", "c"], ["c", "c"], ["a"], ["b", "d"]]


@pytest.mark.spark
def test_a_query_moves_between_all_modes_with_one_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    modes = ["local", "one task", "many tasks", "driver", "one task", "local"]
    for number, mode in enumerate(modes):
        put(tmp_path / "in", f"{number}", {"word": WORDS[number]})
        given: dict[str, Any] = {
            "words": ps.io.files(str(tmp_path / "in")),
            "checkpoint": str(tmp_path / "c"),
            "output": str(tmp_path / "o"),
            "available_now": True,
        }
        flow = words_flow("words")
        query = (
            flow.start(**with_options(given))
            if mode == "local"
            else flow.start(on=spark, **with_options({**given, **MODES[mode]}))
        )
        try:
            assert query.await_termination(SECONDS_MAX)
        finally:
            query.stop(finish=False)
        assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch(WORDS[: number + 1]), mode


@pytest.mark.spark
def test_a_streaming_dataframe_is_read_by_a_query_in_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", "0", {"word": WORDS[0]})
    stream = spark.readStream.schema("word string").parquet(str(tmp_path / "in"))
    query = words_flow("words").start(
        on=spark,
        words=stream,
        checkpoint=str(tmp_path / "c"),
        output=str(tmp_path / "o"),
        available_now=True,
        options=ps.QueryOptions(in_driver=True),
    )
    try:
        assert query.await_termination(SECONDS_MAX)
    finally:
        query.stop(finish=False)
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch(WORDS[:1])


@pytest.mark.spark
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("epoch", ["at", None])
def test_a_bounded_run_gives_what_group_by_gives_in_every_mode(
    spark: SparkSession, mode: str, epoch: str | None
) -> None:
    flow = ps.Dataflow("counts")
    numbers, words = flow.stream_input("numbers", "x long"), flow.stream_input("words", "w string")
    flow.output("counts", numbers.exchange("x").count("x"))
    flow.output("words", words.count("w"))
    frame = spark.range(0, 3_000, 1, 3).selectExpr("id % 91 as x", "id % 4 as at")
    other = spark.createDataFrame([("a", 2), ("b", 7), ("a", 2)], "w string, at long")
    given = {"numbers": frame, "words": other}
    if epoch is None:
        given = {name: each.drop("at") for name, each in given.items()}
    found = flow.run(given, on=spark, epoch=epoch, **with_options(MODES[mode], of_run=True))
    at = "at" if epoch else "0L as at"
    for name, source, key in (("counts", frame, "x"), ("words", other, "w")):
        expected = source.selectExpr(at, key).groupBy("at", key).count()
        assert Counter(map(tuple, found[name].collect())) == Counter(map(tuple, expected.collect()))


@pytest.mark.spark
@pytest.mark.parametrize("mode", MODES)
def test_a_run_without_rows_and_one_that_fails_are_the_same_in_every_mode(
    spark: SparkSession, mode: str, tmp_path: Path
) -> None:
    def divide(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ZeroDivisionError("by nothing")

    flow = ps.Dataflow("copy")
    flow.output("out", flow.stream_input("numbers", "x long"))
    nothing = spark.createDataFrame([], "x long")
    assert (
        flow.run(on=spark, numbers=nothing, **with_options(MODES[mode], of_run=True))["out"].collect() == []
    )
    fails = ps.Dataflow("fails")
    fails.output("out", fails.stream_input("numbers", "x long").map_batches(divide).named("divide"))
    some = spark.range(3).selectExpr("id as x")
    with pytest.raises(OperatorError, match=r"operator 'divide' failed .* ZeroDivisionError: by nothing"):
        fails.run(on=spark, numbers=some, output=tmp_path / "o", **with_options(MODES[mode], of_run=True))
    assert not [each for each in (tmp_path / "o").rglob("*") if each.is_file()]
    with pytest.raises(SchemaError, match="input 'numbers': epochs must be 0 or more, got a row of epoch -1"):
        flow.run(
            on=spark,
            numbers=some.selectExpr("x", "x - 1 as at"),
            epoch="at",
            **with_options(MODES[mode], of_run=True),
        )


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["one task", "driver"])
def test_a_run_with_one_worker_opens_no_connection(
    spark: SparkSession, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(forming, "RendezvousServer", refuse)
    monkeypatch.setattr(forming, "Mesh", refuse)
    monkeypatch.setattr(rendezvous, "_listener", refuse)
    flow = ps.Dataflow("copy")
    flow.output("out", flow.stream_input("numbers", "x long").exchange("x"))
    found = flow.run(
        on=spark, numbers=spark.range(5).selectExpr("id as x"), **with_options(MODES[mode], of_run=True)
    )["out"]
    assert sorted(map(tuple, found.collect())) == [(0, x) for x in range(5)]


@pytest.mark.spark
def test_options_about_tasks_are_rejected_in_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    flow = words_flow("words")
    places: dict[str, Any] = {"checkpoint": str(tmp_path / "c"), "output": str(tmp_path / "o")}
    with pytest.raises(FlowError, match=r"one worker in this process, so workers= does not apply"):
        flow.start(
            on=spark,
            words=ps.io.files(tmp_path),
            workers=2,
            options=ps.QueryOptions(in_driver=True),
            **places,
        )
    with pytest.raises(FlowError, match=r"so spare_crew= does not apply"):
        flow.start(
            on=spark,
            words=ps.io.files(tmp_path),
            options=ps.QueryOptions(spare_crew=True, in_driver=True),
            **places,
        )
    assert not list(tmp_path.iterdir())
