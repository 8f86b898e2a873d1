"""Subqueries inside of conditions and values: IN, EXISTS and single values, as joins.

EXISTS and IN that must hold are semi joins, NOT EXISTS is an anti join. Where the answer itself is asked for,
inside of OR or CASE or as a column, it is a mark: a left join with the distinct keys of the subquery.

IN knows three values. ``x in (...)`` is true if there is an equal value; else null if x is null and there are
values, or if one of these is null; else false. So NOT IN looks at how many values there are, and how many
are null, besides.

A subquery that refers to the query around it is joined by the equalities that it has with it (its
correlation). A single value that is an aggregate is then one for each key, and where no row has the key it
is the aggregate of no rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from pointstamp.dataflow.table import Table, consolidated
from pointstamp.errors import FlowError, SqlError
from pointstamp.expressions import functions as F  # noqa: N812 - as PySpark's users call it
from pointstamp.expressions.functions import coalesce
from pointstamp.expressions.tree import Expression, col, columns_of, lit, when
from pointstamp.flow.plan import How
from pointstamp.reduce.aggregate import Aggregate
from pointstamp.reduce.constructors import count
from pointstamp.sql_views.catalog import Begun, Catalog
from pointstamp.sql_views.condition_parts import KeyPair, all_of, null_safe_keys
from pointstamp.sql_views.expression_translation import Translator
from pointstamp.sql_views.group_by import aggregates_in, grouped
from pointstamp.sql_views.join_pool import crossed, inner, joined
from pointstamp.sql_views.rejection import place, placed, refused
from pointstamp.sql_views.scope import Relation, Scope, replaced


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
            "NOT IN of a subquery with a correlation other than equality is not supported",
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
        "a subquery with a correlation other than equality must be a separate condition",
        "Move it out of OR, CASE or the select list.",
    )


def _mark_of_in(relation: Relation, asked: "AskedValues", catalog: Catalog) -> tuple[Relation, Expression]:
    """A relation with what IN says of each row: true, false or null."""
    if asked.pairs:
        raise refused(
            asked.node,
            "a subquery with a correlation other than equality must be a separate condition",
            "Move it out of OR, CASE or the select list.",
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
    """The result of IN if no value is equal: whether it is false, and not null."""

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


# A subquery that is one value: ``price > (select avg(price) from ...)``.
#
# Where it is an aggregate without GROUP BY, it is one value whatever its table holds; where it could have two
# rows, it is looked at as it runs (this module). Without a correlation it is a table
# of one row beside all rows; with one it has a row for each key, and a row that has none gets the aggregate
# of no rows: 0 for a count, else null. What is joined by more than equalities becomes one with a key before
# (this module).


def single_value(relation: Relation, node: exp.Subquery, catalog: Catalog) -> tuple[Relation, Expression]:
    """A relation with the columns of a subquery's aggregates, and the value that it is."""
    query = node.unnest()
    if not isinstance(query, exp.Select):
        return _only_value(relation, node, catalog.compiler.query(query, catalog), catalog)
    if len(query.expressions) != 1:
        raise refused(node, f"a scalar subquery must have one column, got {len(query.expressions)}")
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
        raise refused(node, f"a scalar subquery must have one column, got {len(made.names)}")
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
    """Refuse what a subquery that refers to the query around it cannot have."""
    for part in ("group", "having", "limit", "offset", "qualify"):
        if query.args.get(part):
            raise refused(
                query.args[part],
                f"{part.upper()} in a correlated subquery of {words} is not supported",
                "Define it as a separate view, and join it.",
            )
    if not allows_aggregates and any(True for each in query.expressions for _ in aggregates_in(each)):
        raise refused(
            query,
            f"an aggregate in a correlated subquery of {words} is not supported",
            "Define it as a separate view, and join it.",
        )


# A subquery that is no aggregate and stands for one value: how many rows it has is looked at as it runs.
#
# One with more than one row is an error then, as in Spark; one without a row is null. What is looked at is
# the change of a whole epoch, consolidated, so that what one row replaces and another in the same epoch are
# not two.


def checked(table: Table, count: str, place: str) -> Table:
    """The same table, in which no row has a count above 1; FlowError, at run time, says where one has."""
    whole = consolidated(table, "one row each")
    return whole.map_batches(partial(_check, count, place)).named("at most one row")


def _check(count: str, place: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    most = pc.max(batch.column(batch.schema.names.index(count))).as_py()
    if most is not None and most > 1:
        raise FlowError(
            f"{place}: a scalar subquery must have one row, got {most}. Write max(...) or another "
            "aggregate, or a condition that leaves one."
        )
    return batch


# A single value of a subquery that is joined by more than equalities, as one that is joined by these alone.
#
# What such a subquery gives depends on those columns of a row around it of which its conditions speak. So the
# different values of these columns are joined with the subquery's rows, by the equalities that there are and
# by the other conditions; what comes out belongs to the row around it by equal values, null being equal to
# null. A change costs the pairs that it makes. At least one equality must be there: else all rows would meet
# all.


def by_equalities(relation: Relation, begun: Begun) -> Begun:
    """A subquery whose rows belong to those of a relation by equal values alone."""
    if not begun.pairs:
        return begun
    if not begun.keys:
        raise refused(
            begun.node,
            "a correlated scalar subquery needs an equality between an inner and an outer column",
            "Add one, such as u.id = t.id; if all its conditions are on the outer query, write CASE WHEN "
            "... THEN (the subquery without them) END.",
        )
    schema = relation.table.schema
    asked = [each for each, _ in begun.keys] + begun.pairs
    spoken_of = dict.fromkeys(name for each in asked for name in columns_of(each) if name in schema.names)
    prefix = begun.catalog.unique("around")
    names = {name: f"{prefix}.{name}" for name in spoken_of}
    around = relation.table.select(*(col(name).alias(to) for name, to in names.items())).named("around")
    keys = [(replaced(mine, names), theirs) for mine, theirs in begun.keys]
    where = all_of(replaced(each, names) for each in begun.pairs)
    pairs, _ = inner(Relation(around.distinct(), ()), begun.relation, keys, where)
    never_null = {name for mine, _ in begun.keys for name in columns_of(mine)}
    equal: list[KeyPair] = []
    for name, to in names.items():
        field = schema.field(name)
        if name in never_null or not field.nullable:
            equal.append((col(name), col(to)))
            continue
        keys = null_safe_keys(col(name), schema, col(to), pairs.table.schema)
        if not keys:
            raise refused(
                begun.node,
                f"a scalar subquery cannot be correlated by a condition on a {field.type}",
                "Correlate by equality, or by another column.",
            )
        equal.extend(keys)
    return replace(begun, relation=pairs, keys=equal, pairs=[])


# Where subqueries stand in an expression, and which of them surely refer to their own tables alone.


def subqueries_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """The subqueries of an expression, the outermost ones only."""
    if _is_subquery(node):
        yield node
        return
    for child in node.iter_expressions():
        yield from subqueries_in(child)


def not_known(node: exp.Expr, translator: Translator) -> Iterator[exp.Expr]:
    """The subqueries of an expression, but for those in what rows are grouped by, which has a column."""
    if not any(True for _ in subqueries_in(node)) or translator.knows(node):
        return
    if _is_subquery(node):
        yield node
        return
    for child in node.iter_expressions():
        yield from not_known(child, translator)


def _is_subquery(node: exp.Expr) -> bool:
    return isinstance(node, exp.Exists | exp.Subquery | exp.All | exp.Any) or (
        isinstance(node, exp.In) and node.args.get("query") is not None
    )


def is_plain_in(node: exp.Expr, catalog: Catalog) -> bool:
    """Return whether a condition is IN of a query that surely refers to its own tables alone."""
    query = node.args["query"].unnest() if isinstance(node, exp.In) and node.args.get("query") else None
    if not isinstance(query, exp.Select) or query.args.get("with_") or query.find(exp.Lateral):
        return False
    if any(each is not query for each in query.find_all(exp.Query)):
        return False
    tables = list(query.find_all(exp.Table))
    known = {name.lower() for each in tables for name in catalog.find(each).schema.names}
    aliases = {each.alias_or_name.lower() for each in tables}
    return all(
        each.table.lower() in aliases if each.table else each.name.lower() in known
        for each in query.find_all(exp.Column)
    )
