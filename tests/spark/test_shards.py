"""Exchanges by a function on Spark: rows are at the worker of their shard, and bad answers are said as text.

Spark's shuffle brings the rows of an exchange by columns to their owners; a function is not mistaken for
columns, and the workers exchange by it themselves, whether rows come packed or as they are.
"""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.errors import OperatorError
from pointstamp.spark.row_packing import input_specs

pytestmark = pytest.mark.spark


class Where:
    """Says for each number on which worker it is."""

    outputs = "x long, worker long"

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        context.send([{"x": x, "worker": int(context.worker)} for x in batch["x"].to_pylist()])


def flow_by(function: object) -> ps.Dataflow:
    flow = ps.Dataflow("shards")
    numbers = flow.stream_input("numbers", "x long").exchange("x", by=function)  # type: ignore[arg-type]
    flow.output("out", ps.operator("where", Where(), numbers=numbers))
    return flow


def tens(batch: pa.RecordBatch) -> pa.Array:
    return pc.divide(batch["x"], 10)


def test_the_columns_of_a_function_are_no_keys_to_pack_by() -> None:
    plan = flow_by(tens).plan
    assert [spec.keys for spec in input_specs(plan, plan.graph(), {})] == [None]


@pytest.mark.parametrize("epoch", [None, "day"])
def test_rows_are_at_the_worker_of_their_shard(spark: SparkSession, epoch: str | None) -> None:
    frame = spark.range(0, 60, 1, 2).selectExpr("id as x", "id % 3 as day")
    # Without an epoch column the partitions are read as they are, with one they are packed.
    out = flow_by(tens).run(on=spark, numbers=frame, workers=2, epoch=epoch)["out"]
    assert sorted((row.x, row.worker) for row in out.collect()) == [(x, x // 10 % 2) for x in range(60)]


def test_a_bad_answer_comes_back_in_words(spark: SparkSession) -> None:
    frame = spark.range(10).selectExpr("id as x")
    said = r"exchange by a function of x before operator 'where': the function .* must give .* but gave -1"
    with pytest.raises(OperatorError, match=said):
        flow_by(lambda batch: [-1] * batch.num_rows).run(on=spark, numbers=frame, workers=2)
