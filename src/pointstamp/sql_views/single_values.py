"""A subquery that is one value: ``price > (select avg(price) from ...)``.

Where it is an aggregate without GROUP BY, it is one value whatever its table holds; where it could have two
rows, it is looked at as it runs (``only_row``). Without a correlation it is a table of one row beside all
rows; with one it has a row for each key, and a row that has none gets the aggregate of no rows: 0 for a
count, else null. What is joined by more than equalities becomes one with a key before (``pair_conditions``).
"""

from sqlglot import exp

from pointstamp.expressions import functions as F  # noqa: N812 - as PySpark's users call it
from pointstamp.expressions.tree import Expression, col
from pointstamp.reduce.aggregate import Aggregate
from pointstamp.sql_views.catalog import Begun, Catalog
from pointstamp.sql_views.grouping import aggregates_in, grouped
from pointstamp.sql_views.only_row import checked
from pointstamp.sql_views.outer_joins import crossed, joined
from pointstamp.sql_views.pair_conditions import by_equalities
from pointstamp.sql_views.refusing import place, refused
from pointstamp.sql_views.scope import Relation
from pointstamp.sql_views.translating import Translator


def single_value(relation: Relation, node: exp.Subquery, catalog: Catalog) -> tuple[Relation, Expression]:
    """A relation with the columns of a subquery's aggregates, and the value that it is."""
    query = node.unnest()
    if not isinstance(query, exp.Select):
        return _only_value(relation, node, catalog.compiler.query(query, catalog), catalog)
    if len(query.expressions) != 1:
        raise refused(node, f"a subquery that stands for one value has {len(query.expressions)} columns")
    begun = catalog.compiler.begin(query, catalog, relation.scope)
    if begun.is_correlated:
        return _by_key(relation, begun, node)
    made = catalog.compiler.finish(begun)
    if not _is_one_row(query):
        return _only_value(relation, node, made, catalog)
    made = made.called("", catalog.unique("value"))
    return crossed(relation, made), col(made.names[0].at)


def _only_value(
    relation: Relation, node: exp.Expr, made: Relation, catalog: Catalog
) -> tuple[Relation, Expression]:
    """The value of the one row of a subquery, or null; how many rows it has is looked at as it runs."""
    if len(made.names) != 1:
        raise refused(node, f"a subquery that stands for one value has {len(made.names)} columns")
    value = catalog.unique("value")
    rows = f"{value} rows"
    aggregates = {value: Aggregate("min", made.names[0].at), rows: Aggregate("count")}
    one = made.table.agg(aggregates)
    beside = crossed(relation, Relation(one, (), is_single=True))
    return beside.with_table(checked(beside.table, rows, place(node))), col(value)


def _by_key(relation: Relation, begun: Begun, node: exp.Expr) -> tuple[Relation, Expression]:
    query = begun.node
    check_plain(query, "a value", allows_aggregates=True)
    begun = by_equalities(relation, begun)
    wanted = query.expressions[0].unalias()
    if not _is_one_row(query):
        return _only_value_by_key(relation, begun, node, wanted)
    translate = Translator(begun.relation.scope, begun.catalog.parameters)
    prefix = begun.catalog.unique("value")
    made = grouped(begun.relation, [theirs for _, theirs in begun.keys], [wanted], translate, prefix)
    pairs = [(mine, key) for (mine, _), key in zip(begun.keys, made.keys, strict=True)]
    beside = joined(relation, Relation(made.table, ()), pairs, "left", None)
    answers = {
        node: F.coalesce(answer, 0) if made.counts[node] else answer for node, answer in made.answers.items()
    }
    return beside, Translator(beside.scope, begun.catalog.parameters, answers)(wanted)


def _only_value_by_key(
    relation: Relation, begun: Begun, node: exp.Expr, wanted: exp.Expr
) -> tuple[Relation, Expression]:
    """The value of the one row of each key, or null."""
    value = begun.catalog.unique("value")
    rows, keys = f"{value} rows", [f"{value} {number}" for number in range(len(begun.keys))]
    translate = Translator(begun.relation.scope, begun.catalog.parameters)
    columns = [theirs.alias(name) for (_, theirs), name in zip(begun.keys, keys, strict=True)]
    table = begun.relation.table.select(*columns, translate(wanted).alias(value)).named("values")
    if begun.node.args.get("distinct") is not None:
        table = table.distinct()
    one = table.group_by(*keys).agg({f"{value} of": Aggregate("min", value), rows: Aggregate("count")})
    pairs = [(mine, col(name)) for (mine, _), name in zip(begun.keys, keys, strict=True)]
    beside = joined(relation, Relation(one, ()), pairs, "left", None)
    return beside.with_table(checked(beside.table, rows, place(node))), col(f"{value} of")


def _is_one_row(query: exp.Select) -> bool:
    has_aggregate = any(True for each in query.expressions for _ in aggregates_in(each))
    others = ("group", "having", "limit", "offset", "qualify", "laterals")
    return has_aggregate and not any(query.args.get(each) for each in others)


def check_plain(query: exp.Select, words: str, *, allows_aggregates: bool = False) -> None:
    """Refuse what a subquery that speaks of the query around it cannot have."""
    for part in ("group", "having", "limit", "offset", "qualify"):
        if query.args.get(part):
            raise refused(
                query.args[part],
                f"{part.upper()} in a subquery of {words} that speaks of the query around it "
                "is not supported",
                "Make it a view of its own, and join it.",
            )
    if not allows_aggregates and any(True for each in query.expressions for _ in aggregates_in(each)):
        raise refused(
            query,
            f"an aggregate in a subquery of {words} that speaks of the query around it is not supported",
            "Make it a view of its own, and join it.",
        )
