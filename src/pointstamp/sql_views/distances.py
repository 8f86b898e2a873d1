"""How far a frame of a window reaches: so many rows, or so far in the value that its rows are ordered by."""

from datetime import timedelta
from math import inf
from typing import Final

import pyarrow as pa
from pyarrow import types
from sqlglot import exp

from pointstamp.errors import SqlError
from pointstamp.sql_views.literals import interval_length
from pointstamp.sql_views.refusing import refused

_OUTWARDS: Final = {"start": "PRECEDING", "end": "FOLLOWING"}
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def distance(node: exp.Window, spec: exp.WindowSpec, end: str, order: pa.DataType | None) -> float:
    """How far away a frame ends, below 0 on the other side, without end if it has none there.

    With the type of an order it is a distance of its values, in their unit; without one, so many rows.
    """
    said, side = spec.args.get(end), str(spec.args.get(f"{end}_side") or "").upper()
    if said in ("CURRENT ROW", None):
        return 0
    if said == "UNBOUNDED":
        if side != _OUTWARDS[end]:
            raise refused(node, "this frame ends before it begins", "Write the earlier row first.")
        return inf
    is_rows = str(spec.args.get("kind")).upper() == "ROWS"
    found = _rows(said) if is_rows else _in_unit(said, order)
    if found is None:
        raise _refused(node, spec, order, is_rows=is_rows)
    return found if side == _OUTWARDS[end] else -found


def check_has_distances(node: exp.Window, spec: exp.WindowSpec, order: pa.DataType | None) -> None:
    """Refuse a frame by a distance where the values of the order have none."""
    if order is None or not (
        types.is_signed_integer(order) or types.is_date32(order) or types.is_timestamp(order)
    ):
        raise _refused(node, spec, order, is_rows=False)


def _rows(said: exp.Expr) -> int | None:
    is_number = isinstance(said, exp.Literal) and not said.is_string and said.name.isdigit()
    return int(said.name) if is_number else None


def _in_unit(said: exp.Expr, order: pa.DataType | None) -> int | None:
    """A distance of values of a type: a number, of dates so many days, or an interval of times."""
    if order is None:
        return None
    if types.is_signed_integer(order):
        return _rows(said)
    length = interval_length(said) if isinstance(said, exp.Interval) else None
    if types.is_date32(order):
        is_whole = length is not None and not length % timedelta(days=1)
        return length.days if is_whole and length is not None else _rows(said)
    if types.is_timestamp(order) and length is not None:
        micros = length // timedelta(microseconds=1)
        return micros * _PER_SECOND[order.unit] // 10**6
    return None


def _refused(node: exp.Window, spec: exp.WindowSpec, order: pa.DataType | None, *, is_rows: bool) -> SqlError:
    words = f"the frame {spec.sql(dialect='spark').upper()}"
    if is_rows:
        return refused(node, f"{words} needs a number of rows that stands in the text")
    if order is None:
        return refused(
            node,
            f"{words} goes by a distance, and needs one value in ORDER BY",
            "Write it, or a frame of ROWS.",
        )
    return refused(
        node,
        f"{words} does not fit the order by a {order}; a distance is a number for integers, days for dates, "
        "and an interval for timestamps, and stands in the text",
        "Cast what is ordered by, or write a frame of ROWS.",
    )
