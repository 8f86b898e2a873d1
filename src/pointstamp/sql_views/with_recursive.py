"""WITH RECURSIVE as a loop: base and recursive term until a fixed point.

With UNION the table is a set. Its value is the least one that holds the start and, with rows, what the step
makes of them: the fixpoint of Datalog. SQL says it by giving the step only the rows that are new, which is
the same for a step in which the table stands once. With UNION ALL every way to a row counts, so a cycle would
never end, and the rounds are limited.

A step must not make less of more rows. So the table may not stand in NOT EXISTS, NOT IN, behind EXCEPT, on
the far side of an outer join or in a subquery. Aggregates other than min and max are refused; with these the
value of a round is computed only from the round before it, as shortest paths need it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
from sqlglot import exp

from pointstamp.dataflow.dataflow import Dataflow
from pointstamp.dataflow.table import Table, iterate
from pointstamp.expressions.tree import col
from pointstamp.sql_views.catalog import Catalog
from pointstamp.sql_views.group_by import aggregates_in
from pointstamp.sql_views.rejection import placed, refused
from pointstamp.sql_views.scope import Relation, check_typed


def is_recursive(common: exp.CTE) -> bool:
    """Return whether a common table refers to itself."""
    return bool(uses(common.this, common.alias))


def recursive(common: exp.CTE, names: list[str], catalog: Catalog) -> Table:
    """The table of a recursion; SqlError says what it may not be made of."""
    name, union = common.alias, common.this.unnest()
    if not isinstance(union, exp.Union):
        raise refused(
            common, f"recursive CTE '{name}' must have the form <base> UNION [ALL] <recursive term>"
        )
    catalog = with_own_tables(union, name, catalog)
    start: exp.Expr = union.left
    step: exp.Expr = union.right
    if uses(start, name):
        raise refused(
            start,
            f"the base of recursive CTE '{name}' refers to it",
            "Write the base first, then the recursive term.",
        )
    if any(union.args.get(part) is not None for part in ("order", "limit", "offset")):
        raise refused(
            union,
            "ORDER BY, LIMIT and OFFSET of a recursion are not supported",
            "Write them in the outer query.",
        )
    is_set = bool(union.args.get("distinct"))
    check_step(step, name, is_set=is_set)
    begun = catalog.compiler.query(start, catalog)
    check_typed(start, begun)
    initial = begun.table
    if names:
        if len(names) != len(initial.schema):
            raise refused(common, f"'{name}' has {len(initial.schema)} columns, got {len(names)} names")
        initial = initial.select(
            *(col(old).alias(new) for old, new in zip(initial.schema.names, names, strict=True))
        ).named("start")
    initial = nullable(initial)
    if is_set:
        initial = initial.distinct()
    step, catalog = rows_outside(step, catalog)
    inside = {each.alias.lower() for each in step.find_all(exp.CTE)} | {name.lower()}
    others = {
        each.name.lower(): catalog.find(each)
        for each in step.find_all(exp.Table)
        if each.name.lower() not in inside
    }

    def body(so_far: Table, begun: Table, *entered: Table) -> Table:
        tables = {name.lower(): so_far, **dict(zip(others, entered, strict=True))}
        made = catalog.compiler.query(step, catalog.in_loop(tables, name)).table
        both = begun.union(like_start(step, made, begun))
        return both.distinct() if is_set else both

    with placed(common):
        rounds = None if is_set else catalog.rounds_max
        return initial.iterate(body, initial, *others.values(), max_rounds=rounds, name=name)


def with_own_tables(union: exp.Union, name: str, catalog: Catalog) -> Catalog:
    """The declarations of WITH inside a recursion; they cannot refer to the recursion."""
    with_ = union.args.get("with_")
    if with_ is None:
        return catalog
    for common in with_.expressions:
        for used in uses(common.this, name):
            raise refused(
                used,
                f"'{name}' cannot be used in a WITH clause before its base",
                "Write WITH in the recursive term.",
            )
    return catalog.compiler.common_tables(union, catalog)


def rows_outside(step: exp.Expr, catalog: Catalog) -> tuple[exp.Expr, Catalog]:
    """A step in which rows of the text are tables by name, because a loop cannot make them."""
    made = exp.Paren(this=step.copy())
    for node in list(made.find_all(exp.Values)):
        name = catalog.unique("rows of the text")
        rows = catalog.compiler.query(node.copy(), catalog)
        catalog = catalog.with_table(name, rows.table, is_single=rows.is_single)
        table = exp.Table(this=exp.to_identifier(name, quoted=True), alias=node.args.get("alias"))
        if isinstance(node.parent, exp.SetOperation | exp.Paren):
            node.replace(exp.Select(expressions=[exp.Star()]).from_(table, copy=False))
        else:
            node.replace(table)
    inner: exp.Expr = made.this
    return inner, catalog


def like_start(step: exp.Expr, made: Table, start: Table) -> Table:
    """The result of the step, cast to the columns and types of the start."""
    if len(made.schema) != len(start.schema):
        raise refused(
            step, f"the recursive term has {len(made.schema)} columns and the base {len(start.schema)}"
        )
    return made.select(
        *(
            col(own).cast(field.type).alias(field.name)
            for own, field in zip(made.schema.names, start.schema, strict=True)
        ),
    ).named("step")


def nullable(table: Table) -> Table:
    """The same columns, which may be null: what a step makes of them may be."""
    return table.select(*(col(each.name).cast(each.type).alias(each.name) for each in table.schema))


def uses(node: exp.Expr, name: str) -> list[exp.Table]:
    """Return where a query refers to a table."""
    return [each for each in node.find_all(exp.Table) if each.name.lower() == name.lower()]


def check_step(step: exp.Expr, name: str, *, is_set: bool) -> None:
    """Refuse steps that make less of more rows, or that count ways twice."""
    used = uses(step, name)
    if not is_set and len(used) > 1:
        raise refused(used[1], f"'{name}' is used twice in the recursive term of a UNION ALL", "Write UNION.")
    if any(
        each.args.get("limit") or each.args.get("order") or each.args.get("offset")
        for each in step.find_all(exp.Query)
    ):
        raise refused(step, "LIMIT in a recursion is not supported", "Write it in the outer query.")
    for window in step.find_all(exp.Window):
        raise refused(window, "window functions in a recursion are not supported")
    for node in used:
        _check_use(node, step, name)
    for select in step.find_all(exp.Select):
        for each in select.expressions:
            for aggregate in aggregates_in(each):
                call = aggregate.find(exp.Anonymous)
                kind = "" if call is None else str(call.this).lower()
                if kind not in ("min", "max") or not is_set or not select.args.get("group"):
                    raise refused(
                        aggregate,
                        f"{kind} in a recursion may not terminate",
                        "Only min and max with GROUP BY in a UNION are allowed.",
                    )


def _check_use(node: exp.Table, step: exp.Expr, name: str) -> None:
    """Refuse a table that is being made where more rows of it would take others away."""
    child: exp.Expr = node
    parent = node.parent
    while parent is not None and child is not step:
        is_inside = isinstance(parent, exp.Exists | exp.In) or (
            isinstance(parent, exp.Subquery) and not isinstance(parent.parent, exp.From | exp.Join)
        )
        if (is_inside and child is not parent.this) or isinstance(parent, exp.Exists):
            raise refused(node, f"'{name}' cannot be used in a subquery of its recursive term", "Join it.")
        if isinstance(parent, exp.Except):
            raise refused(node, f"'{name}' cannot be used in EXCEPT of its recursive term")
        if isinstance(parent, exp.Join) and (parent.text("side") or parent.text("kind") in ("SEMI", "ANTI")):
            raise refused(
                node,
                f"'{name}' cannot be used on the nullable side of an outer join of its recursive term",
                "Write an inner join.",
            )
        if isinstance(parent, exp.Select) and any(
            join.text("side").upper() in ("RIGHT", "FULL") for join in parent.args.get("joins") or []
        ):
            raise refused(node, f"'{name}' cannot be used with a right or full join in its recursive term")
        child, parent = parent, parent.parent


# Recursions that refer to each other: common tables of one WITH RECURSIVE, and views of one text.
#
# Each of them is a set. Its value is the least one that holds its starts, the parts of its UNION that refer
# to none of the group, and what its steps make of all the tables of the group. A table without a start begins
# without rows; then the types of its columns are those that its first step makes. What a step may be is what
# the step of one recursion may be (this module).

Node = TypeVar("Node", bound=exp.Expr)


def ordered_groups(
    named: Mapping[str, Node], query_of: Callable[[Node], exp.Expr]
) -> "list[Node | list[Node]]":
    """Return declarations in an order in which each can be compiled; those that need each other are a list.

    The order is that of the text. A group stands where its last member does, and what reads it behind it.
    """
    reads = {
        name: {other for other in named if other != name and uses(query_of(node), other)}
        for name, node in named.items()
    }
    reached = {name: _reached(name, reads) for name in named}
    made: list[Node | list[Node]] = []
    done: set[str] = set()
    waiting: list[str] = []
    for name in named:
        waiting.append(name)
        for each in list(waiting):
            group = [other for other in named if other in reached[each] and each in reached[other]]
            members = group or [each]
            needed = {
                other
                for member in members
                for other in reads[member]
                if other not in members and _is_in_group(other, reached)
            }
            if each in done or not set(members) <= set(waiting) or not needed <= done:
                continue
            made.append([named[member] for member in members] if group else named[each])
            done.update(members)
        waiting = [each for each in waiting if each not in done]
    made.extend(named[each] for each in waiting)
    return made


def _reached(start: str, reads: Mapping[str, set[str]]) -> set[str]:
    """Return all that something reads, directly or not."""
    found: set[str] = set()
    waiting = list(reads[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(reads[name])
    return found


def _is_in_group(name: str, reached: Mapping[str, set[str]]) -> bool:
    return name in reached[name]


@dataclass(slots=True)
class _Member:
    """One table of a group."""

    name: str
    node: exp.Expr
    columns: list[str]
    """The names that are given to its columns."""
    starts: list[exp.Expr] = field(default_factory=list)
    steps: list[exp.Expr] = field(default_factory=list)
    catalog: Catalog | None = None
    start: Table | None = None
    schema: pa.Schema | None = None
    others: dict[str, Table] = field(default_factory=dict)
    """The tables that its steps read besides those of the group, by name."""


def column_names(node: exp.Expr) -> list[str]:
    """Return the names that a common table or a view gives to its columns."""
    if isinstance(node, exp.Create):
        return [each.name for each in node.this.expressions] if isinstance(node.this, exp.Schema) else []
    return [each.name for each in (node.args["alias"].args.get("columns") or [])]


def mutually_recursive(nodes: Mapping[str, exp.Expr], catalog: Catalog) -> dict[str, Table]:
    """Return the tables of a group by name; SqlError says what it may not be made of."""
    names = list(nodes)
    members = [_member(name, node, names, catalog) for name, node in nodes.items()]
    for member in members:
        _begin(member)
    _find_types(members)
    first = members[0]
    flat: list[Table] = []
    for member in members:
        flat.extend([*([] if member.start is None else [member.start]), *member.others.values()])

    def body(*given: Table) -> dict[str, Table]:
        so_far = {each.name.lower(): table for each, table in zip(members, given, strict=False)}
        entered = iter(given[len(members) :])
        return {each.name: _next(each, so_far, entered, names) for each in members}

    starts: dict[str, Table | pa.Schema] = {}
    for member in members:
        assert member.schema is not None, "its types were found"
        starts[member.name] = member.schema if member.start is None else member.start
    with placed(first.node):
        return iterate(starts, body, *flat, name=" and ".join(names))


def _member(name: str, node: exp.Expr, names: Sequence[str], catalog: Catalog) -> _Member:
    """Take a query apart: its starts, and the steps that refer to a table of the group."""
    query = (node.expression if isinstance(node, exp.Create) else node.this).unnest()
    made = _Member(name, node, column_names(node))
    for other in names:
        made.catalog = with_own_tables(query, other, catalog)
    for part in _parts(query, name):
        used = [other for other in names if uses(part, other)]
        for other in used:
            check_step(part, other, is_set=True)
        (made.steps if used else made.starts).append(part)
    return made


def _parts(query: exp.Expr, name: str) -> list[exp.Expr]:
    """Return what a query is the UNION of."""
    inner = query.unnest() if isinstance(query, exp.Paren | exp.Subquery) else query
    if not isinstance(inner, exp.Union):
        return [query]
    if not inner.args.get("distinct"):
        raise refused(inner, f"'{name}' needs another recursion, so it cannot be a UNION ALL", "Write UNION.")
    if any(inner.args.get(part) is not None for part in ("order", "limit", "offset")):
        raise refused(
            inner,
            "ORDER BY, LIMIT and OFFSET of a recursion are not supported",
            "Write them in the outer query.",
        )
    return [*_parts(inner.left, name), *_parts(inner.right, name)]


def _begin(member: _Member) -> None:
    """Compile the starts of a table: what it is in round 0."""
    catalog = _catalog(member)
    for part in member.starts:
        found = catalog.compiler.query(part, catalog)
        check_typed(part, found)
        if member.start is None:
            member.start = nullable(_called(member, part, found))
        else:
            member.start = member.start.union(like_start(part, found.table, member.start))
    if member.start is not None:
        member.start = member.start.distinct()
        member.schema = member.start.schema
    for number, part in enumerate(member.steps):
        member.steps[number], catalog = rows_outside(part, catalog)
    member.catalog = catalog


def _called(member: _Member, node: exp.Expr, found: Relation) -> Table:
    """Return a table with the names that were given to the columns."""
    given = member.columns or list(found.columns)
    if len(given) != len(found.columns):
        raise refused(node, f"'{member.name}' has {len(found.columns)} columns, got {len(given)} names")
    if len({each.lower() for each in given}) < len(given):
        raise refused(
            node, f"two columns of '{member.name}' have the same name", "Give one another name with AS."
        )
    return found.table.select(
        *(col(each.at).alias(new) for each, new in zip(found.names, given, strict=True))
    ).named("start")


def _find_types(members: Sequence[_Member]) -> None:
    """Find the columns of tables without a start, each by a step over tables whose columns are known."""
    names = [each.name.lower() for each in members]
    for member in members:
        inside = {each.alias.lower() for step in member.steps for each in step.find_all(exp.CTE)}
        for step in member.steps:
            for each in step.find_all(exp.Table):
                if each.name.lower() not in (*inside, *names):
                    member.others[each.name.lower()] = _catalog(member).find(each)
    while unknown := [each for each in members if each.schema is None]:
        known = {each.name.lower(): each.schema for each in members if each.schema is not None}
        for member in unknown:
            ready = [s for s in member.steps if all(n in known for n in names if uses(s, n))]
            if ready:
                member.schema = _schema_of_step(member, ready[0], known, names)
                break
        else:
            raise refused(
                unknown[0].node,
                f"the column types of '{unknown[0].name}' are unknown",
                "Write a base that does not refer to the recursion, and UNION.",
            )


def _schema_of_step(
    member: _Member, step: exp.Expr, known: Mapping[str, pa.Schema], names: Sequence[str]
) -> pa.Schema:
    """Compile a step in a separate flow, to see which columns it makes."""
    flow = Dataflow("types of a recursion")
    schemas = {name: each.schema for name, each in member.others.items()} | dict(known)
    tables = {name: flow.table(f"table {name}", schema) for name, schema in schemas.items()}
    catalog = _catalog(member).in_loop(tables, *names)
    found = catalog.compiler.query(step.copy(), catalog)
    check_typed(step, found)
    return nullable(_called(member, step, found)).schema


def _next(
    member: _Member, so_far: Mapping[str, Table], tables: Iterator[Table], names: Sequence[str]
) -> Table:
    """Return what a table is in the next round."""
    begun = None if member.start is None else next(tables)
    others = {name: next(tables) for name in member.others}
    catalog = _catalog(member).in_loop({**others, **so_far}, *names)
    made = begun
    like = so_far[member.name.lower()]
    for step in member.steps:
        rows = like_start(step, catalog.compiler.query(step, catalog).table, like)
        made = rows if made is None else made.union(rows)
    assert made is not None, "a table of a group has a step"
    return made.distinct()


def _catalog(member: _Member) -> Catalog:
    assert member.catalog is not None, "a group has names"
    return member.catalog
