"""``ps.view``: DataFrames of PySpark by their plan, expressions of Ibis and SQLFrame by their text."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pointstamp.dataflow import Dataflow
from pointstamp.errors import FlowError
from pointstamp.sql_views.frames import Changes, is_frame, views


def view(
    expression: Any,  # noqa: ANN401 - of a package that need not be there
    schemas: Mapping[str, str | pa.Schema] | None = None,
    /,
    *,
    inputs: Any = "",  # noqa: ANN401 - a text, or DataFrames by name
    changes: Changes | None = None,
    policy: str = "INCREMENTAL",
    name: str = "view",
    max_rounds: int = 100,
    time_zone: str | None = None,
    **tables: str | pa.Schema,
) -> Dataflow:
    """A flow that keeps an expression of Ibis, or a DataFrame of SQLFrame, up to date.

    It has the output ``result``; a mapping of names to expressions makes a view of each. The inputs are the
    tables of which the expression is made, with the schemas that it knows; rows are added to them. Who
    deletes rows, or has a key, declares the table: in ``inputs`` as text, ``create table ...``, as in
    ``ps.sql``, or a schema as a keyword.

        orders = ibis.table({"city": "string", "price": "int64"}, name="orders")
        flow = ps.view(orders.group_by("city").agg(total=orders.price.sum()))

    ``time_zone`` is the zone of ``Dataflow``, in which timestamps are shown and read.

    A DataFrame of PySpark is read by the plan that Spark's analyzer made of it, as ``ps.views`` says, with
    ``inputs`` a mapping of sources or DataFrames, ``changes`` how the rows of inputs change their tables, and
    ``policy`` the refresh policy:

        flow = ps.view(spark.table("orders").groupBy("city").sum("price"))
    """
    if is_frame(expression):
        if schemas or tables or time_zone is not None:
            raise FlowError(
                "ps.view: a DataFrame of PySpark has its own schemas and the time zone of its session. Leave "
                "schemas and time_zone= out."
            )
        return views(
            expression.sparkSession,
            {"result": expression},
            inputs=inputs or None,
            changes=changes,
            policy=policy,
            name=name,
        )
    if changes is not None or policy != "INCREMENTAL":
        given_option = "changes=" if changes is not None else "policy="
        raise FlowError(
            f"ps.view: {given_option} is for DataFrames of PySpark. Declare the table in inputs=."
        )
    try:
        from pointstamp.sql_views import expressions  # an extra: sqlglot is loaded by those who use it
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("sqlglot"):
            raise
        raise FlowError(
            "ps.view needs the package sqlglot. Install it with pip install 'pointstamp[sql]'."
        ) from error
    given = {**(schemas or {}), **tables}
    return expressions.flow_of(
        expression, given, inputs=inputs, name=name, rounds_max=max_rounds, time_zone=time_zone
    )
