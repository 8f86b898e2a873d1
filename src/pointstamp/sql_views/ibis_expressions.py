"""Ibis and SQLFrame expressions as statements with schemas.

Neither package is imported: who has an expression has loaded its package. Texts are in Spark's dialect, and
what is refused is said with its place in the text, which is shown.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from pointstamp.dataflow import Dataflow
from pointstamp.errors import FlowError, SqlError
from pointstamp.sql_views.parsing import parse
from pointstamp.sql_views.rejection import refused
from pointstamp.sql_views.statements import flow_of_statements

_IBIS_TYPES: Final = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "boolean": "boolean",
    "string": "string",
    "date": "date",
    "binary": "binary",
}
"""Types of Ibis by their names, in the words of a schema."""


@dataclass(frozen=True, slots=True)
class SqlOfExpression:
    """The text of an expression, and the schemas of the tables that it knows."""

    text: str
    schemas: Mapping[str, str]

    def query(self) -> exp.Expr:
        """The one query of the text, with common tables called by their place and not by a hash."""
        found = parse(self.text)
        if len(found) != 1:
            raise FlowError(f"ps.view needs an expression that is one query, got {len(found)}.")
        with_ = found[0].args.get("with_")
        common = (
            {} if with_ is None else {each.alias: f"step{n}" for n, each in enumerate(with_.expressions, 1)}
        )
        for each in found[0].find_all(exp.Identifier):
            if each.name in common:
                each.set("this", common[each.name])
        return found[0]


def flow_of(
    expression: Any,  # noqa: ANN401 - of any package
    schemas: Mapping[str, str | pa.Schema],
    *,
    inputs: str,
    name: str,
    rounds_max: int,
    time_zone: str | None = None,
) -> Dataflow:
    """The flow that keeps one expression, or several by name, up to date."""
    found = _read(expression)
    declared = [*parse(inputs)] if inputs.strip() else []
    for each in declared:
        if not isinstance(each, exp.Create) or str(each.args.get("kind")).upper() != "TABLE":
            raise refused(each, "inputs= declares tables", "Write create table t (id long, ...).")
    own = {_named(each).lower() for each in declared} | {each.lower() for each in schemas}
    known: dict[str, str | pa.Schema] = dict(schemas)
    statements: list[exp.Expr] = list(declared)
    for output, made in found.items():
        known.update({each: said for each, said in made.schemas.items() if each.lower() not in own})
        query = made.query()
        if isinstance(expression, Mapping):
            query = exp.Create(this=exp.to_table(output), kind="VIEW", expression=query)
        statements.append(query)
    try:
        return flow_of_statements(
            statements, known, name=name, parameters={}, rounds_max=rounds_max, time_zone=time_zone
        )
    except SqlError as error:
        texts = "\n".join(each.text for each in found.values())
        raise SqlError(f"{error} It is in the SQL of the expression:\n{texts}") from error


def _named(node: exp.Expr) -> str:
    target = node.this.this if isinstance(node.this, exp.Schema) else node.this
    return str(target.name)


def _read(expression: Any) -> dict[str, SqlOfExpression]:  # noqa: ANN401 - of any package
    if isinstance(expression, Mapping):
        if not expression:
            raise FlowError("ps.view needs at least one expression, got an empty mapping.")
        return {name: _sql_of(each) for name, each in expression.items()}
    return {"": _sql_of(expression)}


def _sql_of(expression: Any) -> SqlOfExpression:  # noqa: ANN401 - of any package
    package = type(expression).__module__.partition(".")[0]
    if package == "ibis" and hasattr(expression, "op"):
        return _of_ibis(expression)
    if package == "sqlframe" and hasattr(expression, "sql"):
        return _of_sqlframe(expression)
    if package == "pyspark":
        raise FlowError(
            "ps.view takes one DataFrame of PySpark. Give several to ps.views(spark, {'name': DataFrame})."
        )
    raise FlowError(
        f"ps.view needs an expression of Ibis or a DataFrame of SQLFrame, got {type(expression).__name__}. "
        "For a text, use ps.sql."
    )


def _of_ibis(expression: Any) -> SqlOfExpression:  # noqa: ANN401 - of Ibis
    ibis = sys.modules["ibis"]
    operations = sys.modules["ibis.expr.operations"]
    schemas = {}
    for table in expression.op().find(operations.PhysicalTable):
        if isinstance(table, operations.InMemoryTable):
            raise FlowError(
                f"ps.view: the expression holds the rows of '{table.name}' itself. Use a table without rows, "
                "ibis.table({'id': 'int64'}, name='t'), and feed them."
            )
        columns = ", ".join(f"`{name}` {_ibis_type(name, kind)}" for name, kind in table.schema.items())
        schemas[str(table.name)] = columns
    return SqlOfExpression(str(ibis.to_sql(expression, dialect="databricks")), schemas)


def _ibis_type(column: str, kind: Any) -> str:  # noqa: ANN401 - of Ibis
    """A type of Ibis in the words of a schema."""
    nullable = "" if kind.nullable else " not null"
    if kind.is_timestamp():
        return ("timestamp_ntz" if kind.timezone is None else "timestamp") + nullable
    if kind.is_decimal():
        return f"decimal({kind.precision or 10}, {kind.scale or 0}){nullable}"
    if kind.is_array():
        return f"array<{_ibis_type(column, kind.value_type)}>{nullable}"
    if kind.is_struct():
        fields = ", ".join(f"{name}: {_ibis_type(column, each)}" for name, each in kind.items())
        return f"struct<{fields}>{nullable}"
    word = _IBIS_TYPES.get(str(kind).lstrip("!"))
    if word is None:
        raise FlowError(f"ps.view: the column '{column}' has the Ibis type {kind}, which is not supported.")
    return word + nullable


def _of_sqlframe(expression: Any) -> SqlOfExpression:  # noqa: ANN401 - of SQLFrame
    text = str(expression.sql(dialect="spark", optimize=False))
    schemas = {}
    for query in parse(text):
        common = {each.alias.lower() for each in query.find_all(exp.CTE)}
        for table in query.find_all(exp.Table):
            if table.name.lower() in common:
                continue
            columns = expression.session.catalog.get_columns_from_schema(exp.to_table(table.name))
            words = [f"`{name}` {kind.sql(dialect='spark')}" for name, kind in columns.items()]
            schemas[table.name] = ", ".join(words)
    return SqlOfExpression(text, schemas)
