"""A single value of a subquery that is joined by more than equalities, as one that is joined by these alone.

What such a subquery gives depends on those columns of a row around it of which its conditions speak. So the
different values of these columns are joined with the subquery's rows, by the equalities that there are and by
the other conditions; what comes out belongs to the row around it by equal values, null being equal to null.
A change costs the pairs that it makes. At least one equality must be there: else all rows would meet all.
"""

from dataclasses import replace

from pointstamp.expressions.tree import col, columns_of
from pointstamp.sql_views.catalog import Begun
from pointstamp.sql_views.conditions import KeyPair, all_of, null_safe_keys
from pointstamp.sql_views.outer_joins import inner
from pointstamp.sql_views.refusing import refused
from pointstamp.sql_views.scope import Relation, replaced


def by_equalities(relation: Relation, begun: Begun) -> Begun:
    """A subquery whose rows belong to those of a relation by equal values alone."""
    if not begun.pairs:
        return begun
    if not begun.keys:
        raise refused(
            begun.node,
            "a value of a subquery needs an equality between a column of it and one of the query around it",
            "Add one, such as u.id = t.id; where its conditions speak of the query around it alone, write "
            "CASE WHEN ... THEN (the subquery without them) END.",
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
                f"a value of a subquery cannot be joined by a condition on a {field.type}",
                "Join by an equality of it, or by another column.",
            )
        equal.extend(keys)
    return replace(begun, relation=pairs, keys=equal, pairs=[])
