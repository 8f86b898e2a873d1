"""Spark Connect: the same flows through a session that is only a client of a server in another process.

Families, and what only each can find:
- answers: a loop, several inputs, and reading again, compared with a classic session and with this process;
  only a real server refuses what Connect lacks (sparkContext, RDDs, a shared temporary folder);
- failures: what a task says travels through gRPC in other words than through py4j, and must come out as the
  same sentence; what cannot work is refused before the server is asked to run anything.

The server is the one that pyspark ships, started with spark-submit on loopback at a port that the system
chooses, and stopped by its pid.
"""

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.connect import functions as connect_functions
from pyspark.sql.connect.session import SparkSession as ConnectSession

import pointstamp as ps
from pointstamp.errors import FlowError, OperatorError, TransportError
from pointstamp.spark import frames
from support.options import with_options
from support.streams import (
    SECONDS_MAX,
    counts_by_epoch,
    last_counts,
    published_by_epoch,
    put,
    until,
    words_flow,
)

pytestmark = pytest.mark.spark

SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS_MAX = 300
STOP_SECONDS_MAX = 180
# One line for us: where the server listens. Nobody reads the pipe afterwards, so the rest goes to a file.
LOGGING = """
appender.file.type = Console
appender.file.name = file
appender.file.target = SYSTEM_ERR
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c: %m%n
appender.pipe.type = Console
appender.pipe.name = pipe
appender.pipe.layout.type = PatternLayout
appender.pipe.layout.pattern = %m%n
appender.pipe.filter.line.type = RegexFilter
appender.pipe.filter.line.regex = .*started at.*
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
logger.server.name = org.apache.spark.sql.connect.service.SparkConnectServer
logger.server.level = info
logger.server.additivity = false
logger.server.appenderRef.pipe.ref = pipe
"""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.sql.shuffle.partitions": "2",
    # Queries of a few rows: compiling them takes longer than running them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Connect server with two slots."""
    folder = tmp_path_factory.mktemp("server")
    log = folder / "log4j2.properties"
    log.write_text(LOGGING)
    java = f"-Dlog4j2.configurationFile=file:{log} -XX:TieredStopAtLevel=1"
    settings = [part for name, value in SETTINGS.items() for part in ("--conf", f"{name}={value}")]
    command = ["bin/spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--master", "local[2]", "--driver-java-options", java, *settings, "spark-internal"]
    with (folder / "said").open("wb") as output:
        # Each script hands its process on to the next, so that this pid is Java's.
        running = subprocess.Popen(
            [str(SPARK_HOME / command[0]), *command[1:]],
            env={
                **os.environ,
                "SPARK_HOME": str(SPARK_HOME),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_LOCAL_DIRS": str(folder / "scratch"),
                "PYSPARK_PYTHON": sys.executable,
            },
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )
        try:
            assert running.stdout is not None
            assert select.select([running.stdout], [], [], START_SECONDS_MAX)[0], "the server does not start"
            started = re.search(r"started at: (127\.0\.0\.1:\d+)", running.stdout.readline())
            assert started is not None, (folder / "said").read_text()[-4_000:]
            yield f"sc://{started[1]}"
        finally:
            running.terminate()
            running.communicate(timeout=STOP_SECONDS_MAX)


@pytest.fixture(scope="module")
def connect(server: str) -> Iterator[SparkSession]:
    # Not through pyspark.sql.SparkSession.builder, which makes Connect the mode of this whole process.
    session = ConnectSession.builder.remote(server).create()
    yield session
    session.stop()


def halving() -> ps.Dataflow:
    """Each number is halved until nothing is left; how often is each number seen?"""
    flow = ps.Dataflow("halving")
    numbers = flow.stream_input("numbers", "x long")
    with numbers.loop("halve") as loop:
        again = loop.variable("x long")
        now = loop.enter(numbers).union(again).exchange("x")
        half = now.map_batches(lambda batch: pa.record_batch({"x": pc.shift_right(batch["x"], 1)}))
        loop.feedback(again, half.filter(pc.field("x") > 0))
        flow.output("seen", loop.leave(now).count("x"))
    return flow


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, frame.collect()))


# Answers.


@pytest.mark.long
def test_a_loop_through_connect_gives_what_a_classic_session_and_this_process_give(
    connect: SparkSession, spark: SparkSession, tmp_path: Path
) -> None:
    table = pa.table({"x": list(range(1, 200)), "at": [n % 3 for n in range(1, 200)]})
    flow = halving()
    here = flow.run(numbers=table, epoch="at")["seen"].table().to_pylist()
    found = {}
    for name, session in {"connect": connect, "classic": spark}.items():
        frame = session.createDataFrame(table.to_pandas())
        found[name] = rows(
            flow.run(on=session, numbers=frame, epoch="at", output=str(tmp_path / name))["seen"]
        )
    assert found["connect"] == found["classic"] == sorted(tuple(row.values()) for row in here)


@pytest.mark.long
def test_what_connect_published_is_read_again_and_as_many_workers_ran_as_there_are_slots(
    connect: SparkSession, tmp_path: Path
) -> None:
    flow = ps.Dataflow("two")
    words, numbers = flow.stream_input("words", "w string"), flow.stream_input("numbers", "x long")
    flow.output("words", words.count("w"))
    flow.output("numbers", numbers.exchange("x"))
    flow.output("nothing", numbers.filter(pc.field("x") < 0))
    flow.run(
        on=connect,
        words=connect.createDataFrame([("a",), ("b",), ("a",)], "w string"),
        numbers=connect.range(20).selectExpr("id as x"),
        output=str(tmp_path),
    )
    again = frames.read(connect, str(tmp_path))
    assert rows(again["words"]) == [(0, "a", 2), (0, "b", 1)]
    assert rows(again["numbers"]) == [(0, number) for number in range(20)]
    assert rows(again["nothing"]) == []
    assert len(list((tmp_path / "numbers").glob("*worker-0000[01]*.parquet"))) == 2


@pytest.mark.parametrize("mode", [{"workers": 1}, {"in_driver": True}], ids=["one task", "driver"])
def test_a_run_and_a_query_in_one_task_and_in_the_driver_give_the_same_through_connect(
    connect: SparkSession, mode: dict[str, Any], tmp_path: Path
) -> None:
    words = [["a", "b"], ["b"], ["c"]]
    frame = connect.createDataFrame([(word,) for word in words[0]], "word string")
    bounded = words_flow("words").run(
        on=connect, words=frame, output=str(tmp_path / "run"), **with_options(mode, of_run=True)
    )
    assert rows(bounded["counts"]) == [(0, "a", 1), (0, "b", 1)]
    places: dict[str, Any] = {"checkpoint": str(tmp_path / "c"), "output": str(tmp_path / "o")}
    for number, batch in enumerate(words):
        put(tmp_path / "in", str(number), {"word": batch})
        given = {"words": ps.io.files(tmp_path / "in"), "available_now": True, **places}
        if number == 1:  # the checkpoint moves to this process and back
            query = words_flow("words").start(**with_options(given))
        else:
            query = words_flow("words").start(on=connect, **with_options({**given, **mode}))
        try:
            assert query.await_termination(SECONDS_MAX)
        finally:
            query.stop(finish=False)
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch(words)


# Failures.


@pytest.mark.long
def test_a_query_through_connect_goes_on_after_a_worker_is_killed_and_takes_a_streaming_dataframe(
    connect: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in", "0", {"word": ["a", "b"]})
    query = words_flow("words").start(
        on=connect,
        words=ps.io.files(tmp_path / "in"),
        checkpoint=str(tmp_path / "c"),
        output=str(tmp_path / "o"),
        workers=2,
    )
    try:
        query.process_all_available()
        os.kill(query.workers()[0][1], signal.SIGKILL)
        until(lambda: query.restarts >= 1)
        put(tmp_path / "in", "1", {"word": ["b"]})
        until(lambda: query.epoch >= 1)
    finally:
        query.stop()
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch([["a", "b"], ["b"]])
    stream = connect.readStream.schema("word string").parquet(str(tmp_path / "in"))
    again = words_flow("words").start(
        on=connect, words=stream, checkpoint=str(tmp_path / "c2"), output=str(tmp_path / "o2")
    )
    try:
        again.processAllAvailable()
    finally:
        again.stop()
    assert last_counts(published_by_epoch(tmp_path / "o2", "counts")) == {"a": 1, "b": 2}


@pytest.mark.long
def test_a_users_exception_comes_back_through_connect_with_operator_time_and_line(
    connect: SparkSession, tmp_path: Path
) -> None:
    def fail(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ZeroDivisionError("by nothing")

    flow = ps.Dataflow("fails")
    flow.output("out", flow.stream_input("numbers", "x long").exchange("x").map_batches(fail).named("divide"))
    with pytest.raises(OperatorError, match=r"operator 'divide' failed .* ZeroDivisionError: by nothing"):
        flow.run(on=connect, numbers=connect.range(10).selectExpr("id as x"), output=str(tmp_path))
    assert list(tmp_path.rglob("*.parquet")) == []


@pytest.mark.long
def test_a_task_that_dies_and_one_that_refuses_its_rows_are_told_in_one_sentence(
    connect: SparkSession, tmp_path: Path
) -> None:
    def die(batch: pa.RecordBatch) -> pa.RecordBatch:
        os._exit(3)

    flow = ps.Dataflow("dies")
    flow.output("out", flow.stream_input("numbers", "x long").exchange("x").map_batches(die))
    with pytest.raises(TransportError, match="a worker's Python process died while the flow ran"):
        flow.run(on=connect, numbers=connect.range(10).selectExpr("id as x"), output=str(tmp_path / "dies"))
    early = connect.range(10).selectExpr("id as x", "id - 5 as at")
    with pytest.raises(FlowError, match="epochs must be 0 or more") as caught:
        halving().run(on=connect, numbers=early, epoch="at", output=str(tmp_path / "early"))
    assert "\n" not in str(caught.value)


def test_what_cannot_work_through_connect_is_said_before_the_server_runs_anything(
    connect: SparkSession, tmp_path: Path
) -> None:
    frame = connect.range(10).selectExpr("id as x")
    with pytest.raises(FlowError, match=r"a Connect session .* Give output="):
        halving().run(on=connect, numbers=frame)
    with pytest.raises(FlowError, match="3 workers were requested, but Spark has 2 slots"):
        halving().run(
            on=connect, numbers=frame, workers=3, output=str(tmp_path), options=ps.QueryOptions(min_workers=3)
        )
    with pytest.raises(FlowError, match="input 'numbers': column 'x' must be int64, got string"):
        halving().run(on=connect, numbers=frame.selectExpr("string(x) as x"), output=str(tmp_path))


# Views of DataFrames of Connect.


@pytest.mark.long
def test_a_frame_of_connect_is_a_view_by_the_planner_of_a_classic_session(
    connect: SparkSession, spark: SparkSession
) -> None:
    for each in (connect, spark):  # the server is asked for the types of columns, and not for the plan
        each.createDataFrame([], "city string, price long").createOrReplaceTempView("orders")

    def query(session: SparkSession) -> DataFrame:
        orders = session.table("orders").where("price > 1")
        again = connect_functions.udf(lambda price: price * 2, "long") if session is connect else None
        doubled = (again or functions.udf(lambda price: price * 2, "long"))("price").alias("price")
        return orders.select("city", doubled).groupBy("city").sum("price")

    epochs = [
        pa.table({"city": ["Rome", "Oslo", "Rome"], "price": [10, 20, 1]}),
        pa.table({"city": ["Rome"], "price": [5]}),
    ]
    made = {
        each: ps.views(spark, {"result": query(each)}).run({"orders": epochs})["result"]
        for each in (connect, spark)
    }
    last = {each: sorted(map(str, found[1].to_pylist())) for each, found in made.items()}
    assert last[connect] == last[spark]
    assert len(last[spark]) == 2  # the sum of Rome before, and after


@pytest.mark.long
def test_without_a_classic_session_the_error_says_how_to_start_one(server: str) -> None:
    asked = f"""
import sys
from pyspark.sql.connect.session import SparkSession
import pointstamp as ps
frame = SparkSession.builder.remote({server!r}).create().range(3)
try:
    ps.view(frame)
except ps.errors.FlowError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=180)
    assert "only a client of Spark Connect" in done.stdout, done.stderr[-2000:]
    assert "ps.views(classic, {'name': df})" in done.stdout
