"""Views of DataFrames beside Spark's own answer over the rows that are there, after every epoch.

A query is a function of the session, or a text: it is asked twice, once over empty tables for its plan, and
after every epoch over the rows that are there then. Nothing else is shared with the flow that is checked.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from benchmarks.sql.answers import Rows, added_up, check_same, rows_of_table
from pyspark.sql import DataFrame, SparkSession

import pointstamp as ps
from pointstamp.flow.plan import NodeKind
from support.batch_answers import WEIGHT, Fed

Query: TypeAlias = str | Callable[[SparkSession], DataFrame]


def asked(spark: SparkSession, query: Query) -> DataFrame:
    """A query over the tables that are registered now."""
    return spark.sql(query) if isinstance(query, str) else query(spark)


def register(spark: SparkSession, tables: Mapping[str, pa.Table | Path]) -> None:
    """Temporary views of these rows, or of those of a file of Parquet."""
    for name, table in tables.items():
        if isinstance(table, Path):
            frame = spark.read.parquet(str(table))
        else:
            frame = spark.createDataFrame(table.combine_chunks())
        frame.createOrReplaceTempView(name)


def flow_of(spark: SparkSession, query: Query, tables: Mapping[str, pa.Table | Path]) -> ps.Dataflow:
    """The view of a query, whose inputs have weights; it reads the plan over the tables, and no rows."""
    register(
        spark, {name: each if isinstance(each, Path) else each.slice(0, 0) for name, each in tables.items()}
    )
    frame = asked(spark, query)
    read = ps.views(spark, {"result": frame}).plan.named(NodeKind.INPUT)
    return ps.views(spark, {"result": frame}, changes=dict.fromkeys(read, WEIGHT))


def check(spark: SparkSession, query: Query, fed: Fed, *, workers: int = 1) -> list[Rows]:
    """The rows after each epoch; AssertionError names the first epoch that is not Spark's answer."""
    epochs = range(len(next(iter(fed.there.values()))))
    rows = {epoch: {name: tables[epoch] for name, tables in fed.there.items()} for epoch in epochs}
    return check_files(spark, query, fed, rows, workers=workers)


def check_files(
    spark: SparkSession,
    query: Query,
    fed: Fed,
    there: Mapping[int, Mapping[str, pa.Table | Path]],
    *,
    workers: int,
) -> list[Rows]:
    """The rows after some epochs, for which it is given what Spark is asked about."""
    flow = flow_of(spark, query, next(iter(there.values())))
    inputs = {name: fed.changes[name] for name in flow.plan.named(NodeKind.INPUT)}
    results = flow.run(inputs, workers=workers)["result"]
    answers = []
    for epoch, tables in there.items():
        ours = added_up([_with_texts(results[each]) for each in range(epoch + 1)])
        answers.append(ours)
        register(spark, tables)
        theirs = rows_of_table(_with_texts(asked(spark, query).toArrow()))
        check_same(ours, theirs, f"epoch {epoch}")
    return answers


def _with_texts(table: pa.Table) -> pa.Table:
    """The same rows with lists and structs as texts, so that rows can be counted."""
    for place, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            texts = pa.array([repr(each) for each in table.column(place).to_pylist()], pa.string())
            table = table.set_column(place, field.name, texts)
    return table
