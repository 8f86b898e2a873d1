"""SELECT in the logical order: FROM, WHERE, GROUP BY, HAVING, windows, columns, LIMIT.

``begin`` does FROM and WHERE, so that the caller for a subquery can see how it belongs to the query around
it; ``finish`` does the rest.
"""

from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from pointstamp.expressions.tree import Column, Expression, Literal, col, columns_of, lit
from pointstamp.sql_views.catalog import Begun, Catalog
from pointstamp.sql_views.condition_parts import conjuncts, parts_of, split
from pointstamp.sql_views.expression_translation import Translator, canonical
from pointstamp.sql_views.from_clause import FromClause
from pointstamp.sql_views.group_by import GroupSets, aggregates_in, grouped, grouping_sets, sets_of
from pointstamp.sql_views.join_pool import JoinPool
from pointstamp.sql_views.literals import constant_int, constant_text
from pointstamp.sql_views.now_conditions import TimeCondition, time_condition
from pointstamp.sql_views.order_by import limited
from pointstamp.sql_views.over_clause import with_windows
from pointstamp.sql_views.parsing import POSITION
from pointstamp.sql_views.rejection import placed, refused
from pointstamp.sql_views.scope import Aliases, Relation, Scope, ScopeName, at_position, output_name
from pointstamp.sql_views.sql_functions import GENERATORS
from pointstamp.sql_views.subqueries import filtered, is_plain_in, subqueries_in, with_answers


def begin(node: exp.Select, catalog: Catalog, outer: Scope | None) -> Begun:
    """FROM and WHERE of a select."""
    parts = conjuncts(node.args["where"].this if node.args.get("where") else None)
    asking = [part for part in parts if any(True for _ in subqueries_in(part))]
    plain = [part for part in parts if part not in asking]
    timed = [each for part in plain if (each := time_condition(part)) is not None]
    over = [each.node for each in timed]
    clause = FromClause(catalog, [part for part in plain if part not in over], timed)
    pool = clause.read(node.args["from_"].this, node.args.get("joins") or [])
    clause.apply_times(pool)
    later, related = [], []
    for part in clause.where:
        unknown = [each for each in part.find_all(exp.Column) if not pool.scope.has(each)]
        if not unknown or (outer is None and not node.args.get("laterals")):
            translated = Translator(pool.scope, catalog.parameters)(part)
            pool.conditions.extend(parts_of(translated))
        elif outer is not None and any(outer.has(each) for each in unknown):
            related.append(part)
        else:
            later.append(part)
    asking = [part for part in asking if not _narrows(pool, part, catalog)]
    relation = pool.merge()
    for lateral in node.args.get("laterals") or []:
        relation = exploded(relation, lateral, catalog)
    translate = Translator(relation.scope, catalog.parameters)
    for part in later:
        relation = relation.with_table(relation.table.filter(translate(part)))
    for each in clause.timed:
        relation = relation.with_table(each.applied(relation.table, translate(each.value)))
    for part in asking:
        relation = filtered(relation, part, catalog)
    if outer is None or not related:
        return Begun(node, relation, catalog, [], [])
    inside = Translator(relation.scope.beneath(outer), catalog.parameters)
    conditions = [each for part in related for each in parts_of(inside(part))]
    found = split(conditions, outer.schema, relation.table.schema)
    # A part of a correlated condition may concern the subquery alone, once common parts are factored out.
    relation = relation.filtered(found.right)
    return Begun(node, relation, catalog, found.keys, [*found.left, *found.pairs])


def _narrows(pool: JoinPool, part: exp.Expr, catalog: Catalog) -> bool:
    """Return whether IN takes rows of one relation away before that is joined: then it is done."""
    if len(pool.waiting) < 2 or not is_plain_in(part, catalog):
        return False
    columns = list(part.this.find_all(exp.Column))
    for position, each in enumerate(pool.waiting):
        if columns and all(each.relation.scope.has(column) for column in columns):
            for column in columns:
                pool.scope.find(column)  # one that another relation has, too, is refused
            pool.narrow(position, lambda relation: filtered(relation, part, catalog))
            return True
    return False


def finish(begun: Begun) -> Relation:
    """A select from its groups on."""
    node, catalog = begun.node, begun.catalog
    relation, columns = with_generators(begun.relation, _columns(node, begun.relation), catalog)
    return _Select(node, catalog, relation, columns).made()


@dataclass(slots=True)
class _Select:
    """A select whose rows are there."""

    node: exp.Select
    catalog: Catalog
    relation: Relation
    columns: list[tuple[str, exp.Expr]]
    """The selected columns, by name."""

    def made(self) -> Relation:
        aliases = Aliases(self.columns, self.relation.scope)
        group, having = self.node.args.get("group"), self.node.args.get("having")
        qualify, order = self.node.args.get("qualify"), self.node.args.get("order")
        conditions = [aliases.beside(each.this) for each in (having, qualify) if each is not None]
        ordered = [] if order is None else [aliases.first(each) for each in order.expressions]
        nodes = [*(each for _, each in self.columns), *conditions, *ordered]
        translator = Translator(self.relation.scope, self.catalog.parameters)
        is_grouped = group is not None or any(True for each in nodes for _ in aggregates_in(each))
        is_single = False
        parts = [] if having is None else conjuncts(conditions[0])
        timed = [each for part in parts if (each := time_condition(part)) is not None]
        if is_grouped:
            translator, is_single = self._grouped(aliases, nodes, translator, timed)
        elif having is not None:
            raise refused(having, "HAVING needs GROUP BY or an aggregate", "Write WHERE.")
        if having is not None:
            translator = self._having(conditions[0], translator, timed)
        outputs = [*(each for _, each in self.columns), *conditions[having is not None :], *ordered]
        self.relation, translator = with_answers(self.relation, outputs, translator, self.catalog)
        self.relation, translator = with_windows(
            self.relation, self.node, outputs, translator, self.catalog, conditions[having is not None :]
        )
        if qualify is not None:
            condition = translator(conditions[-1])
            self.relation = self.relation.with_table(self.relation.table.filter(condition).named("qualify"))
        return self._selected(translator, ordered, is_single=is_single)

    def _grouped(
        self,
        aliases: Aliases,
        nodes: list[exp.Expr],
        translator: Translator,
        timed: list[TimeCondition],
    ) -> tuple[Translator, bool]:
        group = self.node.args.get("group")
        sets = sets_of(group, aliases, [each for _, each in self.columns], self.relation)
        is_plain = sets.is_plain
        self.relation, translator = with_time_windows(
            self.relation, sets.nodes, translator, self.catalog, is_plain=is_plain, while_open=bool(timed)
        )
        self.relation, translator = with_answers(self.relation, sets.nodes, translator, self.catalog)
        translator = _knowing_alike(translator, sets.nodes, nodes)
        self.relation, translator = with_answers(
            self.relation, [each for node in nodes for each in aggregates_in(node)], translator, self.catalog
        )
        keys = []
        for each in sets.nodes:
            with placed(each):
                keys.append(translator(each))
        if is_plain:  # a window of time is two columns by now
            sets = GroupSets(sets.nodes, [tuple(range(len(keys)))])
        keys, sets = sets.merged(keys)
        is_plain = sets.is_plain
        self._let_go(keys, translator, timed)
        prefix = self.catalog.unique("group")
        if is_plain:
            made = grouped(self.relation, keys, nodes, translator, prefix)
        else:
            made = grouping_sets(self.relation, keys, nodes, translator, prefix, sets)
        known = {canonical(key): column for key, column in zip(keys, made.keys, strict=True)}
        names = tuple(
            replace(each, at=str(known[canonical(col(each.at))].column))
            for each in self.relation.names
            if canonical(col(each.at)) in known
        )
        self.relation = Relation(made.table, names)
        scope = self.relation.scope
        after = Translator(scope, self.catalog.parameters, made.answers, known, translator)
        return after, not keys and is_plain

    def _let_go(self, keys: list[Expression], translator: Translator, timed: list[TimeCondition]) -> None:
        """Forget rows whose groups are over, where HAVING says by which time they are."""
        plain = {key.column for key in keys if isinstance(key, Column)}
        for each in timed:
            each.check_promised(self.relation.table)
            value = translator(each.value)
            if canonical(value) not in map(canonical, keys) and not set(columns_of(value)) <= plain:
                raise refused(
                    each.node,
                    "HAVING with now() needs a time of GROUP BY",
                    "Write having window.end <= now(), or add the time to GROUP BY.",
                )
            with placed(each.node):
                self.relation = self.relation.with_table(self.relation.table.retain_until(value))

    def _having(self, condition: exp.Expr, translator: Translator, timed: list[TimeCondition]) -> Translator:
        over = [each.node for each in timed]
        for part in conjuncts(condition):
            if part in over:
                continue
            self.relation, translator = with_answers(self.relation, [part], translator, self.catalog)
            with placed(part):
                table = self.relation.table.filter(translator(part)).named("having")
            self.relation = self.relation.with_table(table)
        for each in timed:
            if each.is_over:
                table = each.final(self.relation.table, translator(each.value))
                self.relation = self.relation.with_table(table)
        return translator

    def _selected(self, translator: Translator, ordered: list[exp.Expr], *, is_single: bool) -> Relation:
        wanted: dict[str, Expression] = {}
        names = []
        for name, each in self.columns:
            at = f"{name}#{len(wanted)}" if name in wanted else name
            with placed(each):
                wanted[at] = translator(each)
            is_null = _is_null(wanted[at])
            if is_null:  # a column needs some type; whoever refers to this one means the literal null
                wanted[at] = lit(None).cast("boolean")
            names.append(ScopeName(None, name, at, is_null=is_null))
        table = self.relation.table
        with placed(self.node):
            if ordered or self.node.args.get("limit") or self.node.args.get("offset"):
                table = limited(self.node, table, wanted, ordered, translator)
            else:
                table = table.select(*(each.alias(at) for at, each in wanted.items()))
                if self.node.args.get("distinct") is not None:
                    table = table.distinct()
        return Relation(table, tuple(names), is_single)


def _is_null(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is None and expression.type is None


def _knowing_alike(translator: Translator, keys: list[exp.Expr], nodes: list[exp.Expr]) -> Translator:
    """The same, for which a subquery that rows are grouped by is the same value wherever it stands."""
    known = {each.sql(): translator.answers[id(each)] for key in keys for each in subqueries_in(key)}
    if not known:
        return translator
    alike = [each for node in nodes for each in subqueries_in(node) if each.sql() in known]
    return translator.knowing({id(each): known[each.sql()] for each in alike})


def _columns(node: exp.Select, relation: Relation) -> list[tuple[str, exp.Expr]]:
    """The output of a select: names and expressions, with stars expanded.

    A name that FROM does not have may be the alias of a column before (a lateral alias).
    """
    made: list[tuple[str, exp.Expr]] = []
    for each in node.expressions:
        inner = each.unalias()
        star = inner.this if isinstance(inner, exp.Column) else inner
        if POSITION in inner.meta:
            column = at_position(inner, relation)
            made.append((column.name, column))
            continue
        if not isinstance(star, exp.Star):
            made.append((output_name(each), Aliases(made, relation.scope).lateral(inner)))
            continue
        table = inner.text("table").lower() if isinstance(inner, exp.Column) else None
        if table and not relation.scope.has_table(table):
            raise refused(inner, f"there is no table '{table}'")
        meant = [
            name
            for name in relation.names
            if ((not name.is_merged) if not table else (name.table or "").lower() == table)
        ]
        left_out = _left_out(star, meant, relation.scope)
        made += [(name.column, relation.scope.column(name)) for name in meant if name not in left_out]
    return made


def _left_out(star: exp.Star, meant: list[ScopeName], scope: Scope) -> list[ScopeName]:
    """The columns that ``* except (...)`` leaves out; SqlError if ``*`` does not have them."""
    found: list[ScopeName] = []
    for each in star.args.get("except_") or []:
        column = each if isinstance(each, exp.Column) else exp.Column(this=each.copy())
        if not isinstance(scope.find(column), Column):
            raise refused(
                each,
                f"EXCEPT needs columns, but '{each.sql()}' is a field of one",
                "Select the fields one by one.",
            )
        table, name = column.table or None, column.name
        called = [one for one in meant if one.is_called(name, table)]
        if len(called) != 1:
            raise refused(
                each,
                f"EXCEPT needs columns of '*', but '{each.sql()}' is {len(called)} of them",
                "Name one column, with its table.",
            )
        if called[0] in found:
            raise refused(each, f"'{each.sql()}' is in EXCEPT twice", "Remove one of them.")
        found += called
    if found and len(found) == len(meant):
        raise refused(star, "EXCEPT leaves no column", "Select at least one column.")
    return found


# LATERAL VIEW explode, and explode in a select: one row for each element of a list.


def exploded(relation: Relation, lateral: exp.Lateral, catalog: Catalog) -> Relation:
    """A relation beside the elements of a list of its own."""
    call, alias = lateral.this, lateral.args.get("alias")
    names = [] if alias is None else [each.name for each in alias.args.get("columns") or []]
    table = None if alias is None or alias.this is None else alias.this.name
    if not _is_generator(call):
        raise refused(lateral, "LATERAL supports only explode and posexplode here", "Write a join.")
    return _exploded(relation, call, table, names, bool(lateral.args.get("outer")), catalog)


def with_generators(
    relation: Relation, columns: list[tuple[str, exp.Expr]], catalog: Catalog
) -> tuple[Relation, list[tuple[str, exp.Expr]]]:
    """A select with explode in it: its rows, and the columns with the element in place of the call."""
    made, found = [], 0
    for name, node in columns:
        if not _is_generator(node):
            made.append((name, node))
            continue
        found += 1
        if found > 1:
            raise refused(node, "a select can have one explode", "Write lateral views.")
        alias = catalog.unique("exploded")
        is_posed = str(node.this).lower().startswith("pos")
        relation = _exploded(relation, node, alias, ["pos", "col"] if is_posed else ["col"], False, catalog)
        if is_posed:
            made.append(("pos", exp.column("pos", table=alias)))
        shown = "col" if "(" in name else name
        made.append((shown, exp.column("col", table=alias)))
    return relation, made


def _exploded(
    relation: Relation,
    call: exp.Expr,
    table: str | None,
    names: list[str],
    is_outer: bool,
    catalog: Catalog,
) -> Relation:
    kind = str(call.this).lower()
    is_posed, is_outer = kind.startswith("pos"), is_outer or kind.endswith("_outer")
    names = names or (["pos", "col"] if is_posed else ["col"])
    if len(names) != 1 + is_posed or len(call.expressions) != 1:
        raise refused(
            call, f"{kind} takes one list and returns {1 + is_posed} columns, got {len(names)} names"
        )
    unique = catalog.unique(table or "element")
    at, position = f"{unique}.{names[-1]}", f"{unique}.{names[0]}" if is_posed else None
    with placed(call):
        values = Translator(relation.scope, catalog.parameters)(call.expressions[0])
        wide = relation.table.select(*relation.table.schema.names, values.alias(at)).named("list")
        made = wide.explode(at, outer=is_outer, position=position)
    added = [ScopeName(table, names[-1], at)]
    if position is not None:
        made = made.select(*relation.table.schema.names, col(position).cast("int").alias(position), at)
        added.insert(0, ScopeName(table, names[0], position))
    return Relation(made, (*relation.names, *added))


def _is_generator(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in GENERATORS


# GROUP BY window(at, '10 minutes') and session_window(at, '5 minutes'): windows of event time.
#
# As in Spark the window is then called ``window`` (or ``session_window``), with the fields ``start`` and
# ``end``: here these two are columns. A window is corrected however late a row is, unless HAVING says that it
# is wanted when it is over (``while_open``: then what is kept of it is freed).

_WINDOWS: Final = ("window", "session_window")


def with_time_windows(
    relation: Relation,
    nodes: list[exp.Expr],
    translator: Translator,
    catalog: Catalog,
    *,
    is_plain: bool,
    while_open: bool,
) -> tuple[Relation, Translator]:
    """Rows with the windows that they are grouped by; the nodes are changed to the columns of these."""
    for node in list(nodes):
        if not isinstance(node, exp.Anonymous) or str(node.this).lower() not in _WINDOWS:
            continue
        kind, unique = str(node.this).lower(), catalog.unique("window")
        if not is_plain:
            raise refused(node, f"{kind} in ROLLUP, CUBE or GROUPING SETS is not supported")
        others = [each for each in nodes if each is not node]
        with placed(node):
            relation = _in_windows(relation, node, others, translator, unique, while_open=while_open)
        columns = [exp.column(part, table=kind) for part in ("start", "end")]
        added = [ScopeName(kind, part, f"{unique}.{part}") for part in ("start", "end")]
        relation = Relation(relation.table, (*relation.names, *added))
        translator = Translator(relation.scope, translator.parameters, translator.answers)
        position = next(n for n, each in enumerate(nodes) if each is node)
        nodes[position : position + 1] = columns
    return relation, translator


def _in_windows(
    relation: Relation,
    node: exp.Anonymous,
    others: list[exp.Expr],
    translator: Translator,
    unique: str,
    *,
    while_open: bool,
) -> Relation:
    kind, arguments = str(node.this).lower(), node.expressions
    if not 2 <= len(arguments) <= (4 if kind == "window" else 2):
        raise refused(node, f"{kind} needs a time and a length", f"Write {kind}(at, '10 minutes').")
    at, start, end = f"{unique}.at", f"{unique}.start", f"{unique}.end"
    wide = relation.table.select(*relation.table.schema.names, translator(arguments[0]).alias(at)).named(
        "event time"
    )
    lengths = [_length(each) for each in arguments[1:]]
    if kind == "window":
        slide = lengths[1] if len(lengths) > 1 else None
        offset = lengths[2] if len(lengths) > 2 else None
        made = wide.window(at, lengths[0], slide=slide, offset=offset, start=start, end=end)
    else:
        keys = {f"{unique}.key{n}": translator(each) for n, each in enumerate(others)}
        keyed = wide.select(*wide.schema.names, *(each.alias(name) for name, each in keys.items()))
        made = keyed.session_window(*keys, at=at, gap=lengths[0], start=start, end=end)
        made = made.retain_until(end) if while_open else made
    kept = [col(each) for each in (*relation.table.schema.names, start, end)]
    return relation.with_table(made.select(*kept).named("in windows"))


def _length(node: exp.Expr) -> str | int:
    if isinstance(node, exp.Literal) and not node.is_string:
        return constant_int(node, "the length of a window")
    return constant_text(node, "the length of a window")
