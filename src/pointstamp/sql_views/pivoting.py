"""PIVOT: one column for each value of another one, as aggregates of the rows that have it.

Rows are grouped by the columns of which PIVOT does not speak, as in Spark. A value of which a group has no
row is null there, also of a count.
"""

from sqlglot import exp

from pointstamp.expressions.tree import col
from pointstamp.sql_views.catalog import Catalog
from pointstamp.sql_views.refusing import refused
from pointstamp.sql_views.scope import Relation


def pivoted(node: exp.Pivot, relation: Relation, catalog: Catalog) -> Relation:
    """A relation with columns for values."""
    if node.args.get("unpivot"):
        raise refused(node, "UNPIVOT is not supported", "Write a union all of selects.")
    fields = node.args.get("fields") or []
    if len(fields) != 1 or not isinstance(fields[0], exp.In) or not isinstance(fields[0].this, exp.Column):
        raise refused(node, "PIVOT takes one column here", "Write pivot (sum(x) for y in (1, 2)).")
    by, name = fields[0].this, catalog.unique("pivoted")
    wanted = [each.unalias() for each in node.expressions]
    used = {each.name.lower() for part in wanted for each in part.find_all(exp.Column)} | {by.name.lower()}
    keys = [exp.column(each, quoted=True) for each in relation.columns if each.lower() not in used]
    columns: list[exp.Expr] = [*keys]
    for value in fields[0].expressions:
        plain = value.this if isinstance(value, exp.PivotAlias) else value
        label = str(value.args["alias"].name) if isinstance(value, exp.PivotAlias) else plain.name
        for each in node.expressions:
            said = label if len(wanted) == 1 else f"{label}_{each.alias or each.sql(dialect='spark').lower()}"
            columns.append(exp.alias_(_of_value(each.unalias(), by, plain), said, quoted=True))
    query = exp.Select(expressions=columns).from_(exp.to_table(f"`{name}`", dialect="spark"), copy=False)
    if keys:
        query.set("group", exp.Group(expressions=[each.copy() for each in keys]))
    table = relation.table.select(*(col(each.at).alias(each.column) for each in relation.names)).named(
        "pivot"
    )
    return catalog.compiler.query(query, catalog.with_table(name, table))


def _of_value(aggregate: exp.Expr, by: exp.Column, value: exp.Expr) -> exp.Expr:
    """An aggregate of the rows that have a value, or null where there are none."""

    def has() -> exp.Where:
        return exp.Where(this=exp.EQ(this=by.copy(), expression=value.copy()))

    if not isinstance(aggregate, exp.Anonymous):
        raise refused(aggregate, "PIVOT takes aggregates", "Write pivot (sum(x) for y in (1, 2)).")
    made = exp.Filter(this=aggregate.copy(), expression=has())
    if str(aggregate.this).lower() not in ("count", "count_if"):
        return made
    rows = exp.Filter(this=exp.Anonymous(this="count", expressions=[exp.Star()]), expression=has())
    none = exp.EQ(this=rows, expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=none, true=exp.Null())], default=made)
