"""FROM with its joins, and the pushed-down parts of WHERE.

A comma binds weaker than JOIN, as in Spark. Inner joins go to a pool (``join_pool``); one of another kind
takes what was joined since the last comma as its left side. A part of WHERE that uses only that left side is
applied before a left, semi or anti join: these make no rows in which the left side is null. A right or full
join that follows makes some, so WHERE waits for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
from sqlglot import exp

from pointstamp.errors import FlowError
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.tree import Choice, Expression, col, lit
from pointstamp.expressions.type_rules import common_of_all
from pointstamp.flow.plan import How
from pointstamp.sql_views.catalog import Catalog
from pointstamp.sql_views.condition_parts import SplitCondition, all_of, parts_of, split
from pointstamp.sql_views.expression_translation import Translator
from pointstamp.sql_views.join_pool import JoinPool, Unjoined, inner, joined, merged_names
from pointstamp.sql_views.now_conditions import TimeCondition
from pointstamp.sql_views.over_clause import AT_MOST, places_wanted
from pointstamp.sql_views.parsing import COMMA
from pointstamp.sql_views.rejection import placed, refused
from pointstamp.sql_views.scope import Relation, Scope, ScopeName, relation_of

_KINDS: Final[dict[str, How]] = {"SEMI": "semi", "ANTI": "anti"}
_SIDES: Final[dict[str, How]] = {"LEFT": "left", "RIGHT": "right", "FULL": "full"}
_ALWAYS: Final = lit(True)


@dataclass(slots=True)
class FromClause:
    """FROM as it is read: a pool of relations, those since the last comma apart."""

    catalog: Catalog
    where: list[exp.Expr]
    """Parts of WHERE that are not applied yet."""
    timed: list[TimeCondition]
    """Conditions on event time that are not applied yet."""
    _applied: list[exp.Expr] = field(default_factory=list)
    """Parts of WHERE that were applied before a join."""

    def read(self, first: exp.Expr, joins: Sequence[exp.Join]) -> JoinPool:
        """The relations of FROM, and the conditions between them."""
        whole, chain = JoinPool(), JoinPool()
        chain.add(self._source(first), first)
        for number, join in enumerate(joins):
            if _is_comma(join):
                _move(chain, whole)
                chain = JoinPool()
                chain.add(self._source(join.this), join.this)
            else:
                self._join(chain, join, may_filter=not _makes_nulls(joins[number + 1 :]))
        _move(chain, whole)
        for part in self._applied:
            for column in part.find_all(exp.Column):
                whole.scope.find(column)  # one that a later relation has, too, is refused
        return whole

    def apply_times(self, pool: JoinPool) -> None:
        """Apply what refers to the event time of one relation, so that a join of it forgets rows, too."""
        for each in list(self.timed):
            columns = list(each.value.find_all(exp.Column))
            for number, waiting in enumerate(pool.waiting):
                relation = waiting.relation
                if columns and all(relation.scope.has(column) for column in columns):
                    value = Translator(relation.scope, self.catalog.parameters)(each.value)
                    made = relation.with_table(each.applied(relation.table, value))
                    pool.waiting[number] = replace(waiting, relation=made)
                    self.timed.remove(each)
                    break

    def _source(self, node: exp.Expr, *, is_seen: bool = True) -> Relation:
        """A relation; WHERE can only refer to it if it is seen there."""
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Subquery):
            return self._in_parentheses(node, node.this)
        if is_seen and isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
            node.this.meta[AT_MOST] = self._places_wanted(node)
        return source(node, self.catalog)

    def _in_parentheses(self, node: exp.Subquery, first: exp.Expr) -> Relation:
        """Joins in parentheses: what they join is referred to by its own names."""
        if node.args.get("alias") is not None:
            raise refused(
                node, "joins in parentheses cannot have an alias", "Write (select * from ...) as x."
            )
        joins, alone = first.args.get("joins") or [], first.copy()
        alone.set("joins", None)
        return FromClause(self.catalog, [], []).read(alone, joins).merge()

    def _places_wanted(self, node: exp.Subquery) -> dict[str, int]:
        """The columns of a subquery with a maximum in WHERE: the row numbers that are used."""
        if any(node.this.args.get(part) for part in ("limit", "qualify")):
            return {}
        found: dict[str, int] = {}
        for part in self.where:
            wanted, column = places_wanted(part), part.this
            if wanted is not None and isinstance(column, exp.Column) and column.table in ("", node.alias):
                name = column.name.lower()
                found[name] = min(wanted, found.get(name, wanted))
        return found

    def _join(self, chain: JoinPool, join: exp.Join, *, may_filter: bool) -> None:
        how = _how(join)
        right = self._source(join.this, is_seen=how not in ("semi", "anti"))
        using = self._using(chain, right, join)
        if how == "inner" and not using:
            self._inner(chain, right, join)
            return
        if how in ("left", "semi", "anti") and may_filter:
            self.apply_times(chain)
        left = chain.merge()
        with placed(join):
            if how in ("left", "semi", "anti") and may_filter:
                left = self._filtered(left, right)
            made = self._of_kind(left, right, join, how, using)
        chain.waiting = [Unjoined(made, join.this)]

    def _inner(self, chain: JoinPool, right: Relation, join: exp.Join) -> None:
        """An inner join, which waits in the pool; ON that compares both sides says that pairs are meant."""
        left = chain.scope
        chain.add(right, join.this, is_cross=join.text("kind").upper() == "CROSS")
        if join.args.get("on") is not None:
            found = list(parts_of(Translator(chain.scope, self.catalog.parameters)(join.args["on"])))
            chain.conditions.extend(found)
            if split(found, left.schema, right.table.schema).pairs:
                chain.waiting[-1] = replace(chain.waiting[-1], is_cross=True)

    def _using(self, chain: JoinPool, right: Relation, join: exp.Join) -> list[str]:
        if join.text("method").upper() == "NATURAL":
            mine = {each.column.lower() for each in chain.scope.names if not each.is_merged}
            found = [each.column for each in right.names if each.column.lower() in mine]
            if not found:
                raise refused(join, "a NATURAL JOIN needs a common column, but the tables have none")
            return found
        return [each.name for each in join.args.get("using") or []]

    def _of_kind(
        self, left: Relation, right: Relation, join: exp.Join, how: How, using: list[str]
    ) -> Relation:
        conditions: list[Expression] = []
        for column in using:
            word = exp.column(column)
            conditions.append(left.scope.find(word) == right.scope.find(word))
        scope = left.scope | right.scope
        if join.args.get("on") is not None:
            conditions.extend(parts_of(Translator(scope, self.catalog.parameters)(join.args["on"])))
        found = split(conditions, left.table.schema, right.table.schema)
        if not found.keys:
            if not found.pairs:
                raise refused(
                    join.this,
                    f"a {how} join needs a comparison of columns of both sides in ON",
                    "Add one, such as a.id = b.id.",
                )
            found.keys.append((_ALWAYS, _ALWAYS))  # every row is compared with every row
        left, right, pairs = _filtered_sides(left, right, how, conditions, found)
        if how == "inner":
            made, _ = inner(left, right, found.keys, all_of(pairs))
            right = Relation(made.table, made.names[len(left.names) :])
        else:
            made = joined(left, right, found.keys, how, all_of(pairs))
        return merged_names(Relation(made.table, left.names), right, using, how) if using else made

    def _filtered(self, left: Relation, right: Relation) -> Relation:
        """The left side with the parts of WHERE that refer to it alone."""
        own = []
        for part in self.where:
            columns = list(part.find_all(exp.Column))
            if columns and all(left.scope.has(each) and not right.scope.has(each) for each in columns):
                own.append(part)
        self.where = [part for part in self.where if part not in own]
        self._applied += own
        translate = Translator(left.scope, self.catalog.parameters)
        return left.filtered(translate(part) for part in own)


def _filtered_sides(
    left: Relation, right: Relation, how: How, conditions: list[Expression], found: SplitCondition
) -> tuple[Relation, Relation, list[Expression]]:
    """Conditions of ON on one side: a side whose rows may go is filtered, of another they are of the pair.

    Those of the pair stay in the order of the text, because one may keep another from failing.
    """
    pairs = list(found.pairs)
    if how in ("left", "semi", "anti", "inner"):
        right = right.filtered(found.right)
    else:
        pairs += found.right
    if how in ("right", "semi", "inner"):
        left = left.filtered(found.left)
    else:
        pairs += found.left
    of_pairs = {id(each) for each in pairs}
    return left, right, [each for each in conditions if id(each) in of_pairs]


def _how(join: exp.Join) -> How:
    kind, side = join.text("kind").upper(), join.text("side").upper()
    if join.args.get("on") is None and not join.args.get("using") and kind not in ("CROSS", ""):
        raise refused(join.this, "a join needs ON or USING")
    return _KINDS.get(kind) or _SIDES.get(side, "inner")


def _makes_nulls(joins: Sequence[exp.Join]) -> bool:
    """Whether one of these joins, up to the next comma, makes rows in which the side before it is null."""
    for join in joins:
        if _is_comma(join):
            return False
        if join.text("side").upper() in ("RIGHT", "FULL"):
            return True
    return False


def _is_comma(join: exp.Join) -> bool:
    return bool(join.meta.get(COMMA))


def _move(chain: JoinPool, whole: JoinPool) -> None:
    whole.waiting.extend(chain.waiting)
    whole.conditions.extend(chain.conditions)


# One item of FROM as a relation: a table, a query in parentheses, or rows that stand in the text.

_ONE_ROW = pa.record_batch({"": pa.array([0])})


def source(node: exp.Expr, catalog: Catalog) -> Relation:
    """A relation under its alias."""
    if isinstance(node, exp.Table):
        if isinstance(node.this, exp.Anonymous):
            raise refused(node, f"the table function {node.this.name} is not supported")
        alias = node.alias or node.name
        made = catalog.relation(node)
    elif isinstance(node, exp.Subquery):
        alias = node.alias
        made = catalog.compiler.query(node.this, catalog)
    elif isinstance(node, exp.Values):
        alias = node.alias
        made = values(node, catalog)
    else:
        raise refused(node, "this is not allowed in FROM", "Write a table, or a query in parentheses.")
    for pivot in node.args.get("pivots") or []:
        made = pivoted(pivot, made, catalog)
        alias = pivot.alias or alias
    made = _with_columns_called(node, made)
    return made.called(alias, catalog.unique(alias or "query"))


def values(node: exp.Values, catalog: Catalog) -> Relation:
    """Rows that stand in the text; columns are called col1, col2 and so on, as in Spark."""
    translate = Translator(Scope((), pa.schema([])), catalog.parameters)
    rows = [
        [translate(each) for each in (row.expressions if isinstance(row, exp.Tuple) else [row])]
        for row in node.expressions
    ]
    if any(len(row) != len(rows[0]) for row in rows):
        raise refused(node, "all rows of VALUES must have the same number of values")
    names = [f"col{n}" for n in range(1, len(rows[0]) + 1)]
    made = [_column(node, [row[n] for row in rows]) for n in range(len(names))]
    known = {name: column for name, column in zip(names, made, strict=True) if isinstance(column, pa.Array)}
    batch = pa.RecordBatch.from_pydict({_ROW: pa.array(range(len(rows))), **known})
    if len(known) == len(names):
        return relation_of(catalog.rows(node, batch.drop_columns([_ROW])), is_single=len(rows) == 1)
    wanted = {name: col(name) if name in known else column for name, column in zip(names, made, strict=True)}
    table = catalog.rows(node, batch).select(**wanted).named("values in the time zone")
    return relation_of(table, is_single=len(rows) == 1)


_ROW: Final = "the number of the row"


def _column(node: exp.Values, given: list[Expression]) -> pa.Array | Expression:
    """The values of a column; an expression over the number of the row, if they depend on the time zone."""
    kinds = []
    for each in given:
        try:
            kinds.append(compile_expression(each, _ONE_ROW.schema, "VALUES").type)
        except FlowError:
            if str(each) != "null":
                raise
            kinds.append(pa.null())
    with placed(node):
        met = common_of_all(kinds, "VALUES")
        if pa.types.is_null(met):
            raise refused(
                node, "a column of VALUES is always null, and has no type", "Cast it: cast(null as long)."
            )
        parts = [compile_expression(each.cast(met), _ONE_ROW.schema, "VALUES") for each in given]
    if any(each.uses_zone for each in parts):
        branches = ((col(_ROW) == number, each.cast(met)) for number, each in enumerate(given))
        return Choice(tuple(branches))
    return pa.concat_arrays([each(_ONE_ROW) for each in parts])


def _with_columns_called(node: exp.Expr, made: Relation) -> Relation:
    alias = node.args.get("alias")
    columns = [] if alias is None else [each.name for each in alias.args.get("columns") or []]
    if not columns:
        return made
    if len(columns) != len(made.names):
        raise refused(node, f"'{node.alias}' has {len(made.names)} columns, got {len(columns)} names")
    names = tuple(
        ScopeName(each.table, column, each.at) for each, column in zip(made.names, columns, strict=True)
    )
    return Relation(made.table, names, made.is_single)


# PIVOT: one column for each value of another one, as aggregates of the rows that have it.
#
# Rows are grouped by the columns of which PIVOT does not speak, as in Spark. A value of which a group has no
# row is null there, also of a count.


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
