"""One select, in the order in which SQL means it: FROM, WHERE, GROUP BY, HAVING, windows, the columns, LIMIT.

``begin`` does FROM and WHERE, so that whoever asks for a subquery can see how it belongs to the query around
it; ``finish`` does the rest.
"""

from dataclasses import dataclass, replace

from sqlglot import exp

from pointstamp.expressions.tree import Column, Expression, Literal, col, columns_of, lit
from pointstamp.sql_views.aliases import Aliases, output_name
from pointstamp.sql_views.canonical import canonical
from pointstamp.sql_views.catalog import Begun, Catalog
from pointstamp.sql_views.conditions import conjuncts, parts_of, split
from pointstamp.sql_views.event_time import TimeCondition, time_condition
from pointstamp.sql_views.exploding import exploded, with_generators
from pointstamp.sql_views.finding import is_plain_in, subqueries_in
from pointstamp.sql_views.from_clause import FromClause
from pointstamp.sql_views.grouping import aggregates_in, grouped
from pointstamp.sql_views.grouping_sets import GroupSets, grouping_sets, sets_of
from pointstamp.sql_views.joins import JoinPool
from pointstamp.sql_views.limits import limited
from pointstamp.sql_views.parsing import POSITION
from pointstamp.sql_views.pruning import names_behind, names_in, names_of_from, pruned
from pointstamp.sql_views.ranking import with_windows
from pointstamp.sql_views.refusing import placed, refused
from pointstamp.sql_views.scope import Relation, Scope, ScopeName, at_position
from pointstamp.sql_views.subqueries import filtered, with_answers
from pointstamp.sql_views.time_windows import with_time_windows
from pointstamp.sql_views.translating import Translator


def begin(node: exp.Select, catalog: Catalog, outer: Scope | None) -> Begun:
    """FROM and WHERE of a select."""
    parts = conjuncts(node.args["where"].this if node.args.get("where") else None)
    asking = [part for part in parts if any(True for _ in subqueries_in(part))]
    plain = [part for part in parts if part not in asking]
    timed = [each for part in plain if (each := time_condition(part)) is not None]
    over = [each.node for each in timed]
    clause = FromClause(catalog, names_of_from(node), [part for part in plain if part not in over], timed)
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
    behind = names_behind(node)
    times = [each.value for each in clause.timed]
    wanted = None if behind is None else behind | names_in([*later, *related, *asking, *times])
    relation = pool.merge(wanted)
    for lateral in node.args.get("laterals") or []:
        relation = exploded(relation, lateral, catalog)
    translate = Translator(relation.scope, catalog.parameters)
    for part in later:
        relation = relation.with_table(relation.table.filter(translate(part)))
    for each in clause.timed:
        relation = relation.with_table(each.applied(relation.table, translate(each.value)))
    for number, part in enumerate(asking):
        relation = filtered(relation, part, catalog)
        if behind is not None:
            relation = pruned(relation, behind | names_in([*related, *asking[number + 1 :]]))
    if outer is None or not related:
        return Begun(node, relation, catalog, [], [])
    inside = Translator(relation.scope.beneath(outer), catalog.parameters)
    conditions = [each for part in related for each in parts_of(inside(part))]
    found = split(conditions, outer.schema, relation.table.schema)
    # A part of a correlated condition may concern the subquery alone, once common parts are factored out.
    relation = relation.filtered(found.right)
    return Begun(node, relation, catalog, found.keys, [*found.left, *found.pairs])


def _narrows(pool: JoinPool, part: exp.Expr, catalog: Catalog) -> bool:
    """Whether IN takes rows of one relation away before that is joined: then it is done."""
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
    """What is selected, by name."""

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
                    "a group is over, or not, by a time that rows are grouped by",
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
            if is_null:  # a column needs some type; whoever speaks of this one means the literal null
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
    """What a select emits: names and expressions, with stars spelt out.

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
                f"EXCEPT takes columns, and '{each.sql()}' is a field of one",
                "Select the fields one by one.",
            )
        table, name = column.table or None, column.name
        called = [one for one in meant if one.is_called(name, table)]
        if len(called) != 1:
            raise refused(
                each,
                f"EXCEPT takes columns of '*', and '{each.sql()}' is {len(called)} of them",
                "Name one column, with its table.",
            )
        if called[0] in found:
            raise refused(each, f"'{each.sql()}' is in EXCEPT twice", "Remove one of them.")
        found += called
    if found and len(found) == len(meant):
        raise refused(star, "EXCEPT leaves no column", "Select at least one column.")
    return found
