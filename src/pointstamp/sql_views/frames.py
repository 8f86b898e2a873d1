"""``ps.views``: PySpark DataFrames and Spark SQL texts as views, each an output of one flow."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from pointstamp.dataflow import Dataflow
from pointstamp.errors import FlowError
from pointstamp.flow.plan import NodeKind
from pointstamp.plan.logical import LogicalOperator, Scan, walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Changes: TypeAlias = Mapping[str, str | Mapping[str, Any]]
"""For each input that is not append-only: the column of weights, or what its rows say."""


def views(
    spark: "SparkSession",
    views: "Mapping[str, DataFrame | str]",
    /,
    *,
    inputs: "Mapping[str, DataFrame] | None" = None,
    changes: Changes | None = None,
    name: str = "views",
) -> Dataflow:
    """Return a flow that keeps PySpark DataFrames and Spark SQL texts up to date.

    Each view is an output of its name. The inputs are the tables that the views read, by name: temporary
    views, tables of a catalog, and paths. Spark analyzes the queries; names, types and the meaning of
    expressions are Spark's, under the settings that the session has now.

    Args:
        spark: the session (classic) in which the texts and the DataFrames have their tables.
        views: DataFrames or texts in Spark's SQL, by the name of the view.
        inputs: DataFrames by name, for tables that have none (``createDataFrame`` without a temporary view).
        changes: how the rows of an input change its table; default: rows are added. A text names the column
            of weights (1 inserts a row, -1 deletes it). A mapping has one of ``{"weight": column}``,
            ``{"operation": column}`` ("insert", "delete", ...), and
            ``{"key": columns, "order": column, "deleted": column}`` for upserts.
        name: the name of the flow.

    Raises:
        SqlError: a view has something that cannot be kept up to date; the text names it.

    Example:
        flow = ps.views(spark, {"totals": "select city, sum(price) as total from orders group by city"})
        flow.run({"orders": [epoch0, epoch1]})["totals"]

    """
    from pointstamp.spark.catalyst.views import logical_views  # pyspark is loaded by those who use it

    found = logical_views(spark, views, inputs or {}, changes or {})
    flow = flow_of_plan(name, found.outputs, found.session.time_zone)
    for output, node in flow.plan.named(NodeKind.OUTPUT).items():
        node.settings = found.settings
        node.notes = tuple(found.notes.get(output, ()))
    return flow


def is_frame(given: object) -> bool:
    """Return whether something is a DataFrame of PySpark, classic or Connect."""
    kind = type(given)
    return kind.__module__.startswith("pyspark.") and kind.__name__ == "DataFrame"


def flow_of_plan(name: str, outputs: Mapping[str, LogicalOperator], time_zone: str | None) -> Dataflow:
    """Return the flow that computes logical operators, each an output of its name."""
    flow = Dataflow(name, time_zone=time_zone)
    if not any(isinstance(each, Scan) for each in walk(list(outputs.values()))):
        raise FlowError(f"flow '{name}' reads no table, so nothing in it can change. Read a table in a view.")
    flow.add_plan(outputs)
    return flow
