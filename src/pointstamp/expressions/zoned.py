"""Functions between time zones: ``from_utc_timestamp``, ``to_utc_timestamp``, ``convert_timezone``.

``from_utc_timestamp(t, zone)`` takes what a clock in UTC shows and gives what a clock in the zone shows then;
``to_utc_timestamp`` is the way back. Both give instants, as Spark does. ``convert_timezone`` takes clocks.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import SchemaError
from pointstamp.expressions.function import Datum, Signature, check, register
from pointstamp.expressions.typing import is_text, is_time
from pointstamp.expressions.zones import CLOCK, INSTANT, clocks_of, fixed_offset, instants_at, time_zone


def _check_zone(what: str, zone: str) -> None:
    try:
        fixed_offset(zone)
    except ValueError as error:
        raise SchemaError(
            f"{what}: {zone!r} is not a time zone. Write a region such as 'Europe/Berlin', or '+02:00'."
        ) from error


def _instant_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    (time,) = found
    check(is_time(time) or types.is_null(time) or is_text(time), what, "a timestamp", time)
    _check_zone(what, options["zone"])
    return Signature((INSTANT,), INSTANT)


def _from_utc(datum: Datum, *, zone: str) -> Datum:
    return pc.cast(pc.cast(clocks_of(datum, zone), pa.int64()), INSTANT)


def _to_utc(datum: Datum, *, zone: str) -> Datum:
    return instants_at(pc.cast(pc.cast(datum, pa.int64()), CLOCK), zone)


def _clock_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    (time,) = found
    check(is_time(time) or types.is_null(time) or is_text(time), what, "a timestamp", time)
    _check_zone(what, options["target"])
    if options["source"] is not None:
        _check_zone(what, options["source"])
    return Signature((CLOCK,), CLOCK, uses_zone=options["source"] is None)


def _convert(datum: Datum, *, source: str | None, target: str) -> Datum:
    return clocks_of(instants_at(datum, source or time_zone()), target)


def _at_zone_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    (time,) = found
    check(bool(types.is_timestamp(time) or types.is_null(time)), what, "a timestamp", time)
    _check_zone(what, options["zone"])
    is_clock = types.is_timestamp(time) and time.tz is None
    return Signature((CLOCK,), INSTANT) if is_clock else Signature((INSTANT,), CLOCK)


def _at_zone(datum: Datum, *, zone: str) -> Datum:
    return instants_at(datum, zone) if datum.type.tz is None else clocks_of(datum, zone)


register("at_time_zone", _at_zone_rule, _at_zone, can_fail=False)
register("from_utc_timestamp", _instant_rule, _from_utc, can_fail=False)
register("to_utc_timestamp", _instant_rule, _to_utc, can_fail=False)
register("convert_timezone", _clock_rule, _convert, can_fail=False, uses_zone=True)
