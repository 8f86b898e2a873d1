"""``ps.sql``, ``ps.views`` and ``ps.view``: queries as flows."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa

from pointstamp.arrow.schema import ExtraColumns
from pointstamp.dataflow import Dataflow
from pointstamp.dataflow.dataflow import KnownInput
from pointstamp.errors import FlowError
from pointstamp.flow.plan import NodeKind
from pointstamp.plan.logical import Scan, walk
from pointstamp.sql_views.policies import check_policy, declared_view, is_statement, statements

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pointstamp.query.query import Query
    from pointstamp.spark.catalyst.views import LogicalViews


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
    """Return a flow that keeps the views of a Spark SQL text up to date.

    The text is one query, whose output is ``result``, or several ``create view x as ...``, each an output of
    its name. Inputs are declared with keywords or in the text with ``create table``; a table with a primary
    key takes upserts.

    Args:
        text: The SQL text.
        schemas (Mapping[str, schema], default None): Schemas of inputs by name, for names that are options.
        name (str, default "sql"): The name of the flow.
        parameters (Mapping[str, object], default None): The values of ``:name`` in the text.
        max_rounds (int, default 100): The maximum number of rounds of a recursion with UNION ALL.
        extra_columns (str, default "warn"): ``"ignore"`` accepts columns that no schema declares, as
            ``flow.stream_input`` does.
        time_zone (str, default None): The time zone, as in ``Dataflow``.
        **tables: Schemas of inputs by name.

    Raises:
        SqlError: A view cannot be kept up to date; the message has the line and the column.

    Examples:
        >>> flow = ps.sql("select city, sum(price) as total from orders group by city",
        ...               orders="city string, price long")
        >>> results = flow.run([[{"city": "Rome", "price": 5}], [{"city": "Rome", "price": 2}]])
        >>> results.table("result").to_pylist()
        [{'city': 'Rome', 'total': 7}]

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


# ``ps.views``: PySpark DataFrames and Spark SQL texts as views, each an output of one flow.

Changes: TypeAlias = Mapping[str, str | Mapping[str, Any]]
"""For each input that is not append-only: the column of weights, or what its rows say."""


def views(
    spark: "SparkSession",
    views: "Mapping[str, DataFrame | str] | str",
    /,
    *,
    inputs: "Mapping[str, Any] | None" = None,
    changes: Changes | None = None,
    policy: str = "INCREMENTAL",
    name: str = "views",
) -> "ViewFlow":
    """Return a flow that keeps PySpark DataFrames and Spark SQL texts up to date.

    Each view is an output of its name. The inputs are the tables that the views read, by name: temporary
    views, tables of a catalog, and paths. ``start`` and ``run`` find them: Delta and Iceberg tables with
    their changes, folders of files, streams, published views. Spark analyzes the queries; names, types and
    the meaning of expressions are those of Spark, with the settings of the session.

    Args:
        spark: The session (classic) that has the tables of the texts and DataFrames.
        views: DataFrames or Spark SQL texts by the name of the view; or a text with one or more statements
            ``create materialized view name [refresh policy p] as query``.
        inputs (Mapping, default None): By the name of a table, a source or a streaming DataFrame that has its
            rows; or a DataFrame that names a table without a name (``createDataFrame`` without a temporary
            view).
        changes (Mapping, default None): How the rows of an input change its table. Default: rows are
            inserted. A text names the column of multiplicities (1 inserts a row, -1 deletes it). A mapping
            has one of ``{"weight": column}``, ``{"operation": column}`` ("insert", "delete", ...), and
            ``{"key": columns, "order": column, "deleted": column}`` for upserts.
        policy (str, default "INCREMENTAL"): The refresh policy of views that name none: ``"INCREMENTAL"`` or
            ``"INCREMENTAL STRICT"`` reject a view that cannot be incremental, with ``"AUTO"`` Spark
            recomputes it at each refresh, with ``"FULL"`` every view.
        name (str, default "views"): The name of the flow.

    Raises:
        SqlError: A view has something that cannot be kept up to date; the message names it.

    On Spark: ``flow = ps.views(spark, {"totals": "select city, sum(price) as total from orders group by
    city"})``, then ``flow.run({"orders": [epoch0, epoch1]})["totals"]``.

    """
    queries, policies = _declared(views, check_policy(policy))
    return _flow_of(spark, queries, policies, inputs, changes, name)


def explain_views(
    spark: "SparkSession",
    views: "Mapping[str, DataFrame | str] | str",
    /,
    *,
    inputs: "Mapping[str, Any] | None" = None,
    changes: Changes | None = None,
    policy: str = "INCREMENTAL",
) -> str:
    """Explain what ``views`` would do with each view, and why a view is not incremental. Nothing runs.

    The arguments are those of ``views``; texts may begin with ``explain create materialized view``. A view
    that ``views`` would reject is explained, too.

    On Spark: ``print(ps.explain_views(spark, "explain create materialized view v as select rand() as r from
    orders"))``.
    """
    queries, policies = _declared(views, check_policy(policy))
    lenient = {name: "AUTO" if each.startswith("INCREMENTAL") else each for name, each in policies.items()}
    flow = _flow_of(spark, queries, lenient, inputs, changes, "views")
    flow.policies = policies
    return flow.explain()


class ViewFlow(Dataflow):
    """A flow of PySpark DataFrames and Spark SQL texts; made by ``views``."""

    def __init__(self, name: str, found: "LogicalViews", policies: Mapping[str, str]) -> None:
        if not any(isinstance(each, Scan) for each in walk(list(found.outputs.values()))):
            raise FlowError(
                f"flow '{name}' reads no table, so nothing in it can change. Read a table in a view."
            )
        super().__init__(name, time_zone=found.session.time_zone)
        self.add_plan(found.outputs)
        for output, node in self.plan.named(NodeKind.OUTPUT).items():
            node.settings = found.settings
            node.notes = tuple(found.notes.get(output, ()))
        self.policies = policies
        self.recomputed = found.recomputed
        self._took: dict[str, float] = {}
        own = {each.input: each for each in found.recomputed.values()}
        self._known_inputs: Mapping[str, KnownInput] = {**found.followed, **own}

    def explain(self, *, format: Literal["text", "json"] = "text") -> str:  # noqa: A002 - as other engines
        """Return for each view whether it is incremental or why not; then the plan with its state and cost.

        Args:
            format (str, default "text"): ``"text"``, or ``"json"`` for the data of the plan.

        """
        plan = super().explain(format=format)
        if format == "json":
            return plan
        return "\n".join([*map(self._verdict, self.policies), "", plan])

    def _verdict(self, name: str) -> str:
        policy, view = self.policies[name], self.recomputed.get(name)
        who = f"view '{name}' (refresh policy {policy})"
        if view is None:
            return f"{who}: incremental"
        if policy.startswith("INCREMENTAL"):
            return f"{who}: REJECTED, because {view.reason}"
        return f"{who}: recomputed in full by Spark at each refresh, because {view.reason}"

    def _followed(
        self,
        spark: "SparkSession",
        data: Mapping[str, Any],
        *,
        checkpoint: str,
        available_now: bool,
    ) -> dict[str, Any]:
        if not self.recomputed:
            return super()._followed(spark, data, checkpoint=checkpoint, available_now=available_now)
        from pointstamp.spark.refreshing import refresh_inputs

        if not available_now:
            names = ", ".join(f"'{each}'" for each in self.recomputed)
            raise FlowError(
                f"flow '{self.name}': {names} is recomputed in full, which a query that keeps running "
                "cannot do. "
                "Start with available_now=True for each refresh, or define these views with refresh policy "
                "INCREMENTAL."
            )
        own = {each.input for each in self.recomputed.values()}
        known = {name: each.to_follow() for name, each in self._not_given(data).items() if name not in own}
        return refresh_inputs(spark, self.recomputed, {**data, **known}, checkpoint, self._took)

    def _started(self, query: "Query") -> None:
        for name, seconds in self._took.items():
            reason = self.recomputed[name].reason
            query.note(f"view '{name}' was recomputed in full by Spark in {seconds:.1f} s, because {reason}")


def _flow_of(
    spark: "SparkSession",
    queries: "Mapping[str, DataFrame | str]",
    policies: Mapping[str, str],
    inputs: "Mapping[str, Any] | None",
    changes: Changes | None,
    name: str,
) -> ViewFlow:
    from pointstamp.spark.catalyst.views import logical_views  # pyspark is loaded by those who use it

    found = logical_views(spark, queries, inputs or {}, changes or {}, policies)
    return ViewFlow(name, found, policies)


def _declared(
    views: "Mapping[str, DataFrame | str] | str", policy: str
) -> "tuple[dict[str, DataFrame | str], dict[str, str]]":
    """Return the queries by the names of their views, and the policy of each."""
    queries: dict[str, DataFrame | str] = {}
    policies: dict[str, str] = {}
    pairs: list[tuple[str | None, Any]]
    pairs = [(None, each) for each in statements(views)] if isinstance(views, str) else list(views.items())
    for name, each in pairs:
        if isinstance(each, str) and (name is None or is_statement(each)):
            found = declared_view(each)
            name, query = name or found.name, found.query
            policies[name] = found.policy or policy
        else:
            assert name is not None
            query = each
            policies[name] = policy
        if name in queries:
            raise FlowError(f"ps.views: two views have the name '{name}'. Give one of them another name.")
        queries[name] = query
    return queries, policies


def is_frame(given: object) -> bool:
    """Return whether something is a DataFrame of PySpark, classic or Connect."""
    kind = type(given)
    return kind.__module__.startswith("pyspark.") and kind.__name__ == "DataFrame"


# ``ps.view``: DataFrames of PySpark by their plan, expressions of Ibis and SQLFrame by their text.


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
    """Return a flow that keeps an Ibis expression, or a DataFrame of SQLFrame or PySpark, up to date.

    The output is ``result``; a mapping of names to expressions makes a view of each. The inputs are the
    tables of the expression, with the schemas that it knows; rows are inserted into them. For an input with
    deletions or a key, declare the table: in ``inputs`` as text, ``create table ...``, as in ``ps.sql``, or a
    schema as a keyword.

    Spark's analyzer reads a DataFrame of PySpark, as in ``ps.views``: ``ps.view(spark.table("orders")...)``.

    Args:
        expression: An expression, a DataFrame, or a mapping of names to them.
        schemas (Mapping[str, schema], default None): Schemas of inputs by name, for names that are options.
        inputs (str | Mapping, default ""): Declarations of tables as text; for PySpark, sources or DataFrames
            by name.
        changes (Mapping, default None): For PySpark: how the rows of inputs change their tables.
        policy (str, default "INCREMENTAL"): For PySpark: the refresh policy.
        name (str, default "view"): The name of the flow.
        max_rounds (int, default 100): The maximum number of rounds of a recursion with UNION ALL.
        time_zone (str, default None): The time zone, as in ``Dataflow``.
        **tables: Schemas of inputs by name.

    Examples:
        >>> import ibis
        >>> orders = ibis.table({"city": "string", "price": "int64"}, name="orders")
        >>> flow = ps.view(orders.group_by("city").agg(total=orders.price.sum()))
        >>> flow.run([[{"city": "Rome", "price": 5}]]).table("result").to_pylist()
        [{'city': 'Rome', 'total': 5}]

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
        from pointstamp.sql_views import ibis_expressions  # an extra: sqlglot is loaded by those who use it
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("sqlglot"):
            raise
        raise FlowError(
            "ps.view needs the package sqlglot. Install it with pip install 'pointstamp[sql]'."
        ) from error
    given = {**(schemas or {}), **tables}
    return ibis_expressions.flow_of(
        expression, given, inputs=inputs, name=name, rounds_max=max_rounds, time_zone=time_zone
    )
