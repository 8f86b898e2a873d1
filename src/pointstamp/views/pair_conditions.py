"""A single value of a subquery that is joined by more than equalities, as one that is joined by these alone.

What such a subquery gives depends on those columns of a row around it of which its conditions speak. So the
different values of these columns are joined with the subquery's rows, by the equalities that there are and by
the other conditions; what comes out belongs to the row around it by equal values, null being equal to null.
A change costs the pairs that it makes. At least one equality must be there: else all rows would meet all.
"""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types

from pointstamp.expressions import functions as F  # noqa: N812 - as PySpark's users call it
from pointstamp.expressions.tree import Literal, col, columns_of
from pointstamp.views.catalog import Begun
from pointstamp.views.conditions import all_of
from pointstamp.views.outer_joins import KeyPair, inner
from pointstamp.views.refusing import refused
from pointstamp.views.scope import Relation, replaced


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
    around = relation.table.select(*(col(name).alias(to) for name, to in names.items()), name="around")
    keys = [(replaced(mine, names), theirs) for mine, theirs in begun.keys]
    where = all_of(replaced(each, names) for each in begun.pairs)
    pairs, _ = inner(Relation(around.distinct(), ()), begun.relation, keys, where)
    never_null = {name for mine, _ in begun.keys for name in columns_of(mine)}
    equal: list[KeyPair] = []
    for name, to in names.items():
        field = schema.field(name)
        if name in never_null or not field.nullable:
            equal.append((col(name), col(to)))
        else:
            nothing = Literal(pa.scalar(_some_value(begun, field), field.type))
            equal.append((col(name).is_null(), col(to).is_null()))
            equal.append((F.coalesce(col(name), nothing), F.coalesce(col(to), nothing)))
    return replace(begun, relation=pairs, keys=equal, pairs=[])


def _some_value(begun: Begun, field: pa.Field) -> Any:  # noqa: ANN401 - of any type
    """A value to stand where a null is, beside a mark that says so."""
    for is_kind, value in (
        (types.is_boolean, False),
        (types.is_integer, 0),
        (types.is_floating, 0.0),
        (types.is_decimal, Decimal(0)),
        (types.is_string, ""),
        (types.is_date, date(1970, 1, 1)),
        (types.is_timestamp, datetime(1970, 1, 1, tzinfo=UTC if getattr(field.type, "tz", None) else None)),
    ):
        if is_kind(field.type):
            return value
    raise refused(
        begun.node,
        f"a value of a subquery cannot be joined by a condition on a {field.type}",
        "Join by an equality of it, or by another column.",
    )
