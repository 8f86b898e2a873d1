"""Times that are moved by months: the same day of another month, or the last one if it has no such day."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.expressions.function import Datum, Signature, check, register
from pointstamp.expressions.typing import is_time

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
    if isinstance(datum, pa.Scalar):
        return _moved(pa.array([datum.as_py()], datum.type), months=months)[0]
    if types.is_date(datum.type):
        days = pc.fill_null(pc.cast(datum, pa.int32()), 0).to_numpy(zero_copy_only=False)
        return _with_nulls(_days_moved(days.astype(np.int64), months).astype(np.int32), datum)
    zone = datum.type.tz
    local = datum if zone is None else pc.local_timestamp(datum)
    micros = pc.fill_null(pc.cast(local, pa.int64()), 0).to_numpy(zero_copy_only=False)
    days, clock = np.divmod(micros, _MICROS_OF_DAY)
    moved = _with_nulls(_days_moved(days, months) * _MICROS_OF_DAY + clock, local)
    if zone is None:
        return moved
    return pc.assume_timezone(moved, zone, ambiguous="earliest", nonexistent="latest")


def _days_moved(days: "np.ndarray[Any, Any]", months: int) -> "np.ndarray[Any, Any]":
    """Days since 1970 so many months later."""
    dates = days.astype("datetime64[D]")
    begun = dates.astype("datetime64[M]")
    in_month = (dates - begun.astype("datetime64[D]")).astype(np.int64)
    target = begun + np.timedelta64(months, "M")
    first = target.astype("datetime64[D]")
    length = ((target + np.timedelta64(1, "M")).astype("datetime64[D]") - first).astype(np.int64)
    moved: np.ndarray[Any, Any] = first.astype(np.int64) + np.minimum(in_month, length - 1)
    return moved


def _with_nulls(values: "np.ndarray[Any, Any]", like: pa.Array) -> pa.Array:
    missing = pc.is_null(like).to_numpy(zero_copy_only=False)
    return pc.cast(pa.array(values, mask=missing), like.type)


register("add_months", _rule, _moved)
