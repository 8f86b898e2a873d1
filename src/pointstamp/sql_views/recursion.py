"""WITH RECURSIVE as a loop: the start, and what a step adds to it, until nothing changes.

With UNION the table is a set. Its value is the least one that holds the start and, with rows, what the step
makes of them: the fixpoint of Datalog. SQL says it by giving the step only the rows that are new, which is
the same for a step in which the table stands once. With UNION ALL every way to a row counts, so a cycle would
never end, and the rounds are limited.

A step must not make less of more rows. So the table may not stand in NOT EXISTS, NOT IN, behind EXCEPT, on
the far side of an outer join or in a subquery. Aggregates other than min and max are refused; with these the
value of a round is worked out of the round before it alone, as shortest paths need it.
"""

from sqlglot import exp

from pointstamp.dataflow.table import Table
from pointstamp.expressions.tree import col
from pointstamp.sql_views.catalog import Catalog
from pointstamp.sql_views.grouping import aggregates_in
from pointstamp.sql_views.refusing import placed, refused
from pointstamp.sql_views.scope import check_typed


def is_recursive(common: exp.CTE) -> bool:
    """Whether a common table speaks of itself."""
    return bool(uses(common.this, common.alias))


def recursive(common: exp.CTE, names: list[str], catalog: Catalog) -> Table:
    """The table of a recursion; SqlError says what it may not be made of."""
    name, union = common.alias, common.this.unnest()
    if not isinstance(union, exp.Union):
        raise refused(common, f"'{name}' speaks of itself, so it must be a start UNION [ALL] a step")
    catalog = with_own_tables(union, name, catalog)
    start: exp.Expr = union.left
    step: exp.Expr = union.right
    if uses(start, name):
        raise refused(
            start, f"the start of '{name}' speaks of it already", "Write the start first, and then the step."
        )
    if any(union.args.get(part) is not None for part in ("order", "limit", "offset")):
        raise refused(
            union, "ORDER BY, LIMIT and OFFSET of a recursion are not supported", "Write them behind it."
        )
    is_set = bool(union.args.get("distinct"))
    check_step(step, name, is_set=is_set)
    begun = catalog.compiler.query(start, catalog)
    check_typed(start, begun)
    initial = begun.table
    if names:
        if len(names) != len(initial.schema):
            raise refused(
                common, f"'{name}' has {len(initial.schema)} columns, and {len(names)} names are given"
            )
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
    """What WITH inside of a recursion declares; it cannot speak of the recursion, which is made of it."""
    with_ = union.args.get("with_")
    if with_ is None:
        return catalog
    for common in with_.expressions:
        for used in uses(common.this, name):
            raise refused(
                used, f"'{name}' cannot stand in a WITH before its own start", "Write WITH in the step."
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
    """What the step makes, with the columns of the start and as their types."""
    if len(made.schema) != len(start.schema):
        raise refused(step, f"the step has {len(made.schema)} columns and the start {len(start.schema)}")
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
    """Return where a query speaks of a table."""
    return [each for each in node.find_all(exp.Table) if each.name.lower() == name.lower()]


def check_step(step: exp.Expr, name: str, *, is_set: bool) -> None:
    """Refuse steps that make less of more rows, or that count ways twice."""
    used = uses(step, name)
    if not is_set and len(used) > 1:
        raise refused(used[1], f"'{name}' stands twice in the step of a UNION ALL", "Write UNION.")
    if any(
        each.args.get("limit") or each.args.get("order") or each.args.get("offset")
        for each in step.find_all(exp.Query)
    ):
        raise refused(step, "LIMIT in a recursion is not supported", "Write it behind the recursion.")
    for window in step.find_all(exp.Window):
        raise refused(window, "functions over windows in a recursion are not supported")
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
                        f"{kind} in a recursion may not come to an end",
                        "Only min and max with GROUP BY in a UNION can stand there.",
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
            raise refused(node, f"'{name}' cannot stand in a subquery of its own step", "Join it.")
        if isinstance(parent, exp.Except):
            raise refused(node, f"'{name}' cannot stand in EXCEPT of its own step")
        if isinstance(parent, exp.Join) and (parent.text("side") or parent.text("kind") in ("SEMI", "ANTI")):
            raise refused(
                node,
                f"'{name}' cannot stand on the far side of an outer join of its own step",
                "Write an inner join.",
            )
        if isinstance(parent, exp.Select) and any(
            join.text("side").upper() in ("RIGHT", "FULL") for join in parent.args.get("joins") or []
        ):
            raise refused(node, f"'{name}' cannot stand beside a right or full join in its own step")
        child, parent = parent, parent.parent
