"""``ps.sql``: a text of SQL as a flow whose outputs are its views, kept up to date."""

from collections.abc import Mapping

import pyarrow as pa

from pointstamp.dataflow import Dataflow
from pointstamp.errors import FlowError
from pointstamp.rows.undeclared import ExtraColumns


def sql(
    text: str,
    schemas: Mapping[str, str | pa.Schema] | None = None,
    /,
    *,
    name: str = "sql",
    parameters: Mapping[str, object] | None = None,
    max_rounds: int = 100,
    extra_columns: ExtraColumns = "warn",
    time_zone: str | None = None,
    **tables: str | pa.Schema,
) -> Dataflow:
    """A flow that keeps the views of a text in Spark's SQL up to date.

    The text is one query, whose output is ``result``, or several ``create view x as ...``, each an output of
    its name. Inputs are given as keywords (or in a mapping, where a name is also an option), with schemas as
    elsewhere, or declared in the text with ``create table``; one with a primary key takes upserts.
    ``extra_columns="ignore"`` accepts columns in their rows that no schema declares, as ``flow.input`` does.
    ``parameters`` are the values of ``:name`` in the text. A recursion with UNION ALL has ``max_rounds``.
    ``time_zone`` is the zone of ``Dataflow``, in which timestamps are shown and read.

        flow = ps.sql("select city, sum(price) as total from orders group by city",
                      orders="city string, price long")
        flow.run(orders=[...])["result"]

    What cannot be kept up to date is refused here, before anything runs, with its line and column.
    """
    try:
        from pointstamp.sql_views import statements  # an extra: sqlglot is loaded by those who use it
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("sqlglot"):
            raise
        raise FlowError(
            "ps.sql needs the package sqlglot. Install it with pip install 'pointstamp[sql]'."
        ) from error
    given = {**(schemas or {}), **tables}
    return statements.flow_of(
        text,
        given,
        name=name,
        parameters=dict(parameters or {}),
        rounds_max=max_rounds,
        extra_columns=extra_columns,
        time_zone=time_zone,
    )
