"""One row of each key, the first in an order: SQL's ``row_number() = 1``, here ``distinct`` with keys."""

from collections.abc import Iterable

from pointstamp.errors import FlowError
from pointstamp.expressions.selecting import check_columns
from pointstamp.flow.stream import Stream
from pointstamp.tables import deltas
from pointstamp.tables.kept.ordering import Ordered, ordering
from pointstamp.tables.top import First


def one_of_each(
    changes: Stream, keys: tuple[str, ...], by: str | Iterable[str], name: str, who: str
) -> Stream:
    """The first row of each key; what the order leaves open is decided by all columns from left to right."""
    schema = deltas.rows_schema(changes)
    check_columns(who, schema, keys)
    wanted = (by,) if isinstance(by, str) else tuple(by)
    if not keys:
        raise FlowError(f"{who}: by= chooses a row of a key, but no key was given. Name one.")
    # All rows of a key are equal in the key, so that the other columns alone put them in order.
    others = tuple(Ordered(column) for column in schema.names if column not in keys)
    order = ordering(who, schema, wanted) if wanted else others
    if not order:
        return deltas.once(changes, name)
    function = First(1, order, ties=False, rank=None, result=changes.schema)
    return deltas.on_top(changes, name, keys, function, schema)
