"""Times that are moved by months: the same day of another month, or the last one if it has no such day."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.expressions.function import Datum, Signature, check, register
from pointstamp.expressions.typing import is_text, is_time
from pointstamp.expressions.zones import clocks_of, instants_near, zone_of

_MICROS_OF_DAY: Final = 86_400_000_000


def _rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    (time,) = found
    check(is_time(time) or types.is_null(time), what, "a date or a timestamp", time)
    if types.is_timestamp(time):
        taken = pa.timestamp("us", time.tz)
        return Signature((taken,), taken)
    return Signature((pa.date32(),), pa.date32())


def _moved(datum: Datum, *, months: int) -> Datum:
    if types.is_date(datum.type):
        days = pc.fill_null(pc.cast(datum, pa.int32()), 0).to_numpy(zero_copy_only=False)
        return _with_nulls(_days_moved(days.astype(np.int64), months), datum)
    is_instant = datum.type.tz is not None
    local = clocks_of(datum, zone_of(datum.type)) if is_instant else datum
    micros = pc.fill_null(pc.cast(local, pa.int64()), 0).to_numpy(zero_copy_only=False)
    days, clock = np.divmod(micros, _MICROS_OF_DAY)
    moved = _with_nulls(_days_moved(days, months) * _MICROS_OF_DAY + clock, local)
    if not is_instant:
        return moved
    return pc.cast(instants_near(moved, zone_of(datum.type), datum), datum.type)


def _days_moved(days: "np.ndarray[Any, Any]", months: "int | np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Days since 1970 so many months later."""
    dates = days.astype("datetime64[D]")
    begun = dates.astype("datetime64[M]")
    in_month = (dates - begun.astype("datetime64[D]")).astype(np.int64)
    target = begun + np.asarray(months).astype("timedelta64[M]")
    first = target.astype("datetime64[D]")
    length = ((target + np.timedelta64(1, "M")).astype("datetime64[D]") - first).astype(np.int64)
    moved: np.ndarray[Any, Any] = first.astype(np.int64) + np.minimum(in_month, length - 1)
    return moved


def _with_nulls(values: "np.ndarray[Any, Any]", like: pa.Array) -> pa.Array:
    missing = pc.is_null(like).to_numpy(zero_copy_only=False)
    made = pa.array(values, mask=missing)
    return pc.cast(pc.cast(made, pa.int32()) if types.is_date(like.type) else made, like.type)


def _date_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """The date some months later, of a date or of the day of a timestamp; the months may be a column."""
    del options
    time, months = found
    check(is_time(time) or types.is_null(time) or is_text(time), what, "a date", time)
    check(bool(types.is_integer(months)), what, "a number of months", months)
    return Signature((pa.date32(), pa.int32()), pa.date32())


def _dates_moved(date: Datum, months: Datum) -> Datum:
    if isinstance(months, pa.Scalar) and months.is_valid:
        return _moved(date, months=months.as_py())
    days = pc.fill_null(pc.cast(date, pa.int32()), 0)
    count = len(days) if isinstance(days, pa.Array) else len(months)
    starts = np.broadcast_to(np.asarray(days), count).astype(np.int64)
    is_null = pc.or_(pc.is_null(date), pc.is_null(months))
    known = pc.if_else(is_null, pa.scalar(0, pa.int32()), months)
    numbers = np.broadcast_to(np.asarray(known), count).astype(np.int64)
    moved = pc.cast(pc.cast(pa.array(_days_moved(starts, numbers)), pa.int32()), pa.date32())
    return pc.if_else(is_null, pa.scalar(None, pa.date32()), moved)


register("move_months", _rule, _moved, uses_zone=True)
register("add_months", _date_rule, _dates_moved, least=2, most=2, uses_zone=True)
