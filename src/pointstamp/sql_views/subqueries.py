"""Subqueries inside of conditions and values: IN, EXISTS and single values, as joins.

EXISTS and IN that must hold are semi joins, NOT EXISTS is an anti join. Where the answer itself is asked for,
inside of OR or CASE or as a column, it is a mark: a left join with the distinct keys of the subquery.

IN knows three values. ``x in (...)`` is true if there is an equal value; else null if x is null and there are
values, or if one of these is null; else false. So NOT IN looks at how many values there are, and how many
are null, besides.

A subquery that speaks of the query around it is joined by the equalities that it has with it (its
correlation). A single value that is an aggregate is then one for each key, and where no row has the key it
is the aggregate of no rows.
"""

from dataclasses import dataclass

from sqlglot import exp

from pointstamp.errors import SqlError
from pointstamp.expressions.functions import coalesce
from pointstamp.expressions.tree import Expression, col, columns_of, lit, when
from pointstamp.flow.join_kind import How
from pointstamp.reduce.asking import count
from pointstamp.sql_views.catalog import Catalog
from pointstamp.sql_views.conditions import KeyPair, all_of
from pointstamp.sql_views.finding import not_known
from pointstamp.sql_views.outer_joins import crossed, joined
from pointstamp.sql_views.refusing import placed, refused
from pointstamp.sql_views.scope import Relation, Scope
from pointstamp.sql_views.single_values import check_plain, single_value
from pointstamp.sql_views.translating import Translator


@dataclass(frozen=True, slots=True)
class Asked:
    """A subquery that was compiled: its rows, and how they belong to rows of the query around it."""

    node: exp.Expr
    relation: Relation
    keys: list[KeyPair]
    """Columns of the query around it, and what they must be equal to."""
    pairs: list[Expression]
    """Other conditions on pairs."""


def filtered(relation: Relation, condition: exp.Expr, catalog: Catalog) -> Relation:
    """The rows for which a condition holds that has subqueries in it."""
    inner, is_negated = condition, False
    while isinstance(inner, exp.Not | exp.Paren):
        is_negated ^= isinstance(inner, exp.Not)
        inner = inner.this
    with placed(condition):
        if isinstance(inner, exp.Exists):
            return _exists(relation, inner, catalog, is_negated=is_negated)
        if isinstance(inner, exp.In) and inner.args.get("query") is not None:
            return _is_in(relation, inner, catalog, is_negated=is_negated)
        translator = Translator(relation.scope, catalog.parameters)
        made, translator = with_answers(relation, [condition], translator, catalog)
        kept = made.table.filter(translator(condition)).select(*relation.table.schema.names).named("rows")
        return relation.with_table(kept)


def with_answers(
    relation: Relation, nodes: list[exp.Expr], translator: Translator, catalog: Catalog
) -> tuple[Relation, Translator]:
    """A relation with a column for each subquery in these nodes, and who translates with them."""
    for node in nodes:
        for each in list(not_known(node, translator)):
            with placed(each):
                relation, answer = _answer(relation, each, translator, catalog)
            translator = Translator(
                relation.scope,
                translator.parameters,
                {**translator.answers, id(each): answer},
                translator.keys,
                translator.rows,
            )
    return relation, translator


def _answer(
    relation: Relation, node: exp.Expr, translator: Translator, catalog: Catalog
) -> tuple[Relation, Expression]:
    if isinstance(node, exp.Subquery):
        return single_value(relation, node, catalog)
    if isinstance(node, exp.Exists):
        return _marked(relation, _rows_of(node.this, catalog, relation.scope), catalog)
    if isinstance(node, exp.In):
        asked = _values_of(node, catalog, relation.scope, translator)
        return _mark_of_in(relation, asked, catalog)
    raise refused(node, "ALL and ANY of a subquery are not supported", "Compare with its min or max.")


def _exists(relation: Relation, node: exp.Exists, catalog: Catalog, *, is_negated: bool) -> Relation:
    asked = _rows_of(node.this, catalog, relation.scope)
    if not asked.keys:
        made, mark = _marked(relation, asked, catalog)
        kept = made.table.filter(~mark if is_negated else mark)
        return relation.with_table(kept.select(*relation.table.schema.names).named("rows"))
    how: How = "anti" if is_negated else "semi"
    return joined(relation, asked.relation, asked.keys, how, all_of(asked.pairs))


def _is_in(relation: Relation, node: exp.In, catalog: Catalog, *, is_negated: bool) -> Relation:
    translator = Translator(relation.scope, catalog.parameters)
    asked = _values_of(node, catalog, relation.scope, translator)
    if not is_negated:
        return joined(relation, asked.relation, [*asked.values, *asked.keys], "semi", all_of(asked.pairs))
    if asked.pairs:
        raise refused(
            node,
            "NOT IN of a subquery that is joined by more than equalities is not supported",
            "Write NOT EXISTS.",
        )
    others = joined(relation, asked.relation, [*asked.values, *asked.keys], "anti", None)
    made, known = _with_counts(others, asked, catalog)
    kept = made.table.filter(known.is_false).select(*relation.table.schema.names).named("rows")
    return relation.with_table(kept)


def _marked(relation: Relation, asked: Asked, catalog: Catalog) -> tuple[Relation, Expression]:
    """A relation with a column that is true where the subquery has a row."""
    around = [each for each in asked.pairs if set(columns_of(each)) <= set(relation.table.schema.names)]
    if len(around) < len(asked.pairs):
        raise _refused_pairs(asked)
    mark = catalog.unique("is there")
    if not asked.keys:
        counted = asked.relation.table.agg({mark: count()})
        made = crossed(relation, Relation(counted, (), is_single=True))
        is_there = col(mark) > 0
    else:
        made = _with_mark(relation, asked.relation, asked.keys, mark)
        is_there = col(mark).is_not_null()
    holds = all_of(around)  # of the row around it, whatever the subquery has
    return made, is_there if holds is None else is_there & coalesce(holds, lit(False))


def _refused_pairs(asked: Asked) -> SqlError:
    if not asked.keys:
        return refused(
            asked.node,
            "EXISTS needs an equality between a column of its subquery and one of the query around it",
            "Add one, such as u.id = t.id; else all rows would meet all.",
        )
    return refused(
        asked.node,
        "a subquery that is joined by more than equalities must be a condition of its own",
        "Take it out of OR, CASE or the select.",
    )


def _mark_of_in(relation: Relation, asked: "AskedValues", catalog: Catalog) -> tuple[Relation, Expression]:
    """A relation with what IN says of each row: true, false or null."""
    if asked.pairs:
        raise refused(
            asked.node,
            "a subquery that is joined by more than equalities must be a condition of its own",
            "Take it out of OR, CASE or the select.",
        )
    mark = catalog.unique("is in")
    made = _with_mark(relation, asked.relation, [*asked.values, *asked.keys], mark)
    made, known = _with_counts(made, asked, catalog)
    return made, when(col(mark).is_not_null(), True).when(known.is_false, False).otherwise(None)


def _with_mark(relation: Relation, other: Relation, keys: list[KeyPair], mark: str) -> Relation:
    """A left join with the distinct keys of a subquery, which have a column that is true."""
    names = [f"{mark} {number}" for number in range(len(keys))]
    distinct = (
        other.table.select(*(theirs.alias(name) for (_, theirs), name in zip(keys, names, strict=True)))
        .named("keys")
        .distinct()
    )
    marked = distinct.select(*names, lit(True).alias(mark)).named("mark")
    pairs = [(mine, col(name)) for (mine, _), name in zip(keys, names, strict=True)]
    return joined(relation, Relation(marked, ()), pairs, "left", None)


@dataclass(frozen=True, slots=True)
class AskedValues:
    """The values of IN (subquery): as pairs of what is looked for and where."""

    node: exp.Expr
    relation: Relation
    values: list[KeyPair]
    keys: list[KeyPair]
    pairs: list[Expression]


@dataclass(frozen=True, slots=True)
class KnownOfIn:
    """Where no value is equal: whether IN is false, and not null."""

    is_false: Expression


def _with_counts(relation: Relation, asked: AskedValues, catalog: Catalog) -> tuple[Relation, KnownOfIn]:
    """A relation with how many values the subquery has for each row, and in how many of them is a null."""
    if len(asked.values) > 1:
        raise refused(
            asked.node, "NOT IN of several values that may be null is not supported", "Write NOT EXISTS."
        )
    (mine, theirs), of = asked.values[0], catalog.unique("values")
    nulls = f"{of} null"
    counts = {of: count(), nulls: count(where=theirs.is_null())}
    if not asked.keys:
        counted = asked.relation.table.agg(counts)
        made = crossed(relation, Relation(counted, (), is_single=True))
        return made, KnownOfIn((col(of) == 0) | (mine.is_not_null() & (col(nulls) == 0)))
    names = [f"{of} {number}" for number in range(len(asked.keys))]
    keyed = asked.relation.table.select(
        *asked.relation.table.schema.names,
        *(theirs.alias(name) for (_, theirs), name in zip(asked.keys, names, strict=True)),
    ).named("keys")
    counted = keyed.group_by(*names).agg(counts)
    pairs = [(outer, col(name)) for (outer, _), name in zip(asked.keys, names, strict=True)]
    made = joined(relation, Relation(counted, ()), pairs, "left", None)
    return made, KnownOfIn(col(of).is_null() | (mine.is_not_null() & (col(nulls) == 0)))


def _rows_of(node: exp.Expr, catalog: Catalog, outer: Scope) -> Asked:
    """The rows of a subquery, for EXISTS."""
    node = node.unnest()
    if not isinstance(node, exp.Select):
        return Asked(node, catalog.compiler.query(node, catalog), [], [])
    if all(isinstance(each, exp.Star) for each in node.expressions):
        node = node.copy().select(exp.Literal.number(1), append=False)  # whether there is a row, not which
    begun = catalog.compiler.begin(node, catalog, outer)
    if not begun.is_correlated:
        return Asked(node, catalog.compiler.finish(begun), [], [])
    check_plain(node, "EXISTS")
    return Asked(node, begun.relation, begun.keys, begun.pairs)


def _values_of(node: exp.In, catalog: Catalog, outer: Scope, translator: Translator) -> AskedValues:
    """The values of a subquery, for IN."""
    wanted = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    mine = [translator(each) for each in wanted]
    query = node.args["query"].unnest()
    if not isinstance(query, exp.Select):
        made = catalog.compiler.query(query, catalog)
        begun = None
    else:
        begun = catalog.compiler.begin(query, catalog, outer)
        if begun.is_correlated:
            check_plain(query, "IN")
            translate = Translator(begun.relation.scope, catalog.parameters)
            theirs = [translate(each.unalias()) for each in query.expressions]
            _check_count(node, mine, theirs)
            values = list(zip(mine, theirs, strict=True))
            return AskedValues(node, begun.relation, values, begun.keys, begun.pairs)
        made = catalog.compiler.finish(begun)
    theirs = [col(each.at) for each in made.names]
    _check_count(node, mine, theirs)
    unique = made.called("", catalog.unique("in"))
    values = list(zip(mine, (col(each.at) for each in unique.names), strict=True))
    return AskedValues(node, unique, values, [], [])


def _check_count(node: exp.In, mine: list[Expression], theirs: list[Expression]) -> None:
    if len(mine) != len(theirs):
        raise refused(node, f"IN compares {len(mine)} values with {len(theirs)} columns of the subquery")
