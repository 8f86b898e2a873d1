"""A subquery that is one value: ``price > (select avg(price) from ...)``.

It must be an aggregate without GROUP BY, so that it is one value whatever its table holds; one that could
have two rows is refused. Without a correlation it is a table of one row beside all rows; with one it has a
row for each key, and a row that has none gets the aggregate of no rows: 0 for a count, else null.
"""

from sqlglot import exp

from pointstamp.expressions import functions as F  # noqa: N812 - as PySpark's users call it
from pointstamp.expressions.tree import Expression, col
from pointstamp.views.catalog import Begun, Catalog
from pointstamp.views.grouping import aggregates_in, grouped
from pointstamp.views.outer_joins import crossed, joined
from pointstamp.views.refusing import refused
from pointstamp.views.scope import Relation
from pointstamp.views.translating import Translator


def single_value(relation: Relation, node: exp.Subquery, catalog: Catalog) -> tuple[Relation, Expression]:
    """A relation with the columns of a subquery's aggregates, and the value that it is."""
    query = node.unnest()
    if not isinstance(query, exp.Select) or not _is_one_row(query):
        raise refused(
            node,
            "a subquery that stands for one value must be an aggregate without GROUP BY, so that it has "
            "one row",
            "Write max(...) or another aggregate.",
        )
    if len(query.expressions) != 1:
        raise refused(node, f"a subquery that stands for one value has {len(query.expressions)} columns")
    begun = catalog.compiler.begin(query, catalog, relation.scope)
    if begun.is_correlated:
        return _by_key(relation, begun)
    made = catalog.compiler.finish(begun).called("", catalog.unique("value"))
    return crossed(relation, made), col(made.names[0].at)


def _by_key(relation: Relation, begun: Begun) -> tuple[Relation, Expression]:
    query = begun.node
    if begun.pairs:
        raise refused(
            query,
            "a value of a subquery that is joined by more than equalities is not supported",
            "Join the tables, and group them by a key.",
        )
    check_plain(query, "a value", allows_aggregates=True)
    wanted = query.expressions[0].unalias()
    translate = Translator(begun.relation.scope, begun.catalog.parameters)
    prefix = begun.catalog.unique("value")
    made = grouped(begun.relation, [theirs for _, theirs in begun.keys], [wanted], translate, prefix)
    pairs = [(mine, key) for (mine, _), key in zip(begun.keys, made.keys, strict=True)]
    beside = joined(relation, Relation(made.table, ()), pairs, "left", None)
    answers = {
        node: F.coalesce(answer, 0) if made.counts[node] else answer for node, answer in made.answers.items()
    }
    return beside, Translator(beside.scope, begun.catalog.parameters, answers)(wanted)


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
