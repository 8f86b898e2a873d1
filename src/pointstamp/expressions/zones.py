"""Time zones of expressions, and conversion between instants and local times.

A timestamp is an instant; its year, its day and its text depend on a time zone. The zone is a parameter of
the plan (``pointstamp.flow.plan.Plan.time_zone``). A worker evaluates expressions inside ``in_time_zone`` of
its plan's zone, so that one process can run flows with different zones. Outside of it the zone is UTC.

Where clocks are set forward, a time that no clock shows is read with the offset before the change; where they
are set back, a time that clocks show twice is the earlier instant. Java and Spark read them so.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from functools import cache
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.signature import Datum, Signature, check, register
from pointstamp.expressions.type_rules import is_text, is_time

UTC: Final = "UTC"
INSTANT: Final = pa.timestamp("us", UTC)
CLOCK: Final = pa.timestamp("us")
_ZONE: Final[ContextVar[str]] = ContextVar("time_zone", default=UTC)
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?")
_MICROS_OF_DAY: Final = 86_400_000_000


def time_zone() -> str:
    """Return the time zone in which expressions are evaluated now."""
    return _ZONE.get()


def enter_time_zone(zone: str) -> Token[str]:
    """Evaluate expressions in this time zone until ``leave_time_zone``."""
    return _ZONE.set(zone)


def leave_time_zone(token: Token[str]) -> None:
    """Evaluate expressions in the time zone from before ``enter_time_zone``."""
    _ZONE.reset(token)


@contextmanager
def in_time_zone(zone: str) -> Iterator[None]:
    """Evaluate expressions in this time zone.

    >>> with in_time_zone("Europe/Berlin"):
    ...     time_zone()
    'Europe/Berlin'
    """
    token = enter_time_zone(zone)
    try:
        yield
    finally:
        leave_time_zone(token)


@cache
def fixed_offset(zone: str) -> int | None:
    """Return the microseconds by which clocks of a zone differ from UTC if that never changes, else None.

    Raises ValueError if there is no such zone.

    >>> fixed_offset("+05:30"), fixed_offset("Europe/Berlin")
    (19800000000, None)
    """
    if zone in ("UTC", "Z", "GMT", "UT", "Etc/UTC"):
        return 0
    if (match := _OFFSET.fullmatch(zone)) is not None:
        hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
        total = hours * 3600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or total > 18 * 3600:
            raise ValueError(f"'{zone}' is not a time zone")
        return (-total if match[1] == "-" else total) * 1_000_000
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(f"'{zone}' is not a time zone") from error
    return None


def check_time_zone(zone: object, where: str) -> str:
    """Return a time zone as it is given; FlowError if there is no such zone."""
    try:
        if isinstance(zone, str):
            fixed_offset(zone)
            return zone
    except ValueError:
        pass
    raise FlowError(
        f"{where}: the time zone must be a region such as 'Europe/Berlin', or an offset such as '+02:00', "
        f"got {zone!r}. Correct time_zone=."
    )


def zone_of(timestamp: pa.DataType) -> str:
    """Return the zone in which a timestamp is shown: the type's, or the plan's where the type has UTC."""
    return time_zone() if timestamp.tz in (UTC, "Z", "+00:00") else str(timestamp.tz)


def clocks_of(instants: Datum, zone: str) -> Datum:
    """The local times of instants in a zone, as timestamps without a zone."""
    offset = fixed_offset(zone)
    micros = pc.cast(pc.cast(instants, pa.timestamp("us", instants.type.tz), safe=False), pa.int64())
    if offset is not None:
        return pc.cast(micros if not offset else pc.add_checked(micros, offset), CLOCK)
    return pc.local_timestamp(pc.cast(micros, pa.timestamp("us", zone)))


def instants_at(clocks: Datum, zone: str) -> Datum:
    """The instants, in UTC, at which clocks in a zone show these times."""
    offset = fixed_offset(zone)
    clocks = pc.cast(clocks, CLOCK)
    if offset is not None:
        micros = pc.cast(clocks, pa.int64())
        return pc.cast(micros if not offset else pc.subtract_checked(micros, offset), INSTANT)
    found = pc.assume_timezone(clocks, zone, ambiguous="earliest", nonexistent="latest")
    shown = pc.local_timestamp(found)
    instants = pc.cast(found, INSTANT)
    if pc.all(pc.fill_null(pc.equal(shown, clocks), True)).as_py():
        return instants
    # In a gap: as if clocks had not been set forward.
    before = pc.subtract(found, pa.scalar(1, pa.duration("us")))
    offset_before = pc.subtract(pc.cast(pc.local_timestamp(before), pa.int64()), pc.cast(before, pa.int64()))
    moved = pc.cast(pc.subtract(pc.cast(clocks, pa.int64()), offset_before), INSTANT)
    return pc.if_else(pc.equal(shown, clocks), instants, moved)


def instants_near(clocks: Datum, zone: str, offset_of: Datum) -> Datum:
    """Like ``instants_at``, but an ambiguous local time keeps the offset of other instants."""
    found = instants_at(clocks, zone)
    if fixed_offset(zone) is not None:
        return found
    offset = pc.subtract(pc.cast(clocks_of(offset_of, zone), pa.int64()), pc.cast(offset_of, pa.int64()))
    kept = pc.cast(pc.subtract(pc.cast(clocks, pa.int64()), offset), INSTANT)
    return pc.if_else(pc.equal(clocks_of(kept, zone), pc.cast(clocks, CLOCK)), kept, found)


# Functions between time zones: ``from_utc_timestamp``, ``to_utc_timestamp``, ``convert_timezone``.
#
# ``from_utc_timestamp(t, zone)`` takes what a clock in UTC shows and gives what a clock in the zone shows
# then; ``to_utc_timestamp`` is the way back. Both give instants, as Spark does. ``convert_timezone`` takes
# clocks.


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
