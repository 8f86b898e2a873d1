"""Windows of event time: tumbling or sliding intervals.

A window begins at a multiple of the slide (of the size, where there is no slide) after the beginning of 1970,
or a full ``offset`` after that, and ends before the next instant: its end is the first that is no
longer in it. That is how Spark counts them. Timestamps with a zone are instants, so their windows begin at
multiples in UTC; windows of days in another zone are asked for with an offset. Dates have windows of
full days, integers windows of integers. A null lies in no window.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.dates import parse_duration
from pointstamp.expressions.signature import Datum, Signature, register
from pointstamp.expressions.type_rules import LONG

Span: TypeAlias = str | timedelta | int
"""A length of event time: "10 minutes" or a timedelta for timestamps and dates, a number for integers."""

_UNITS: Final = {
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
    "ns": timedelta(microseconds=1),
}
_FINER: Final = {"ns": 1000}


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of a column, in its own unit: of this size, one beginning every slide, the first at offset."""

    size: int
    slide: int
    offset: int

    @property
    def count_max(self) -> int:
        """In how many windows an instant lies at most."""
        return -(-self.size // self.slide)

    def since_start(self, instants: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The time from the start of the last window of each instant."""
        # All terms are below the slide, so that nothing can overflow.
        since: npt.NDArray[np.int64] = np.mod(
            np.mod(instants, self.slide) - self.offset % self.slide, self.slide
        )
        return since


def event_time_type(what: str, found: pa.DataType) -> pa.DataType:
    """Return the type of windows and bounds of such a column; SchemaError if it is not event time."""
    if types.is_timestamp(found) or types.is_date32(found):
        return found
    if types.is_integer(found):
        return LONG
    raise SchemaError(f"{what} needs a timestamp, a date or an integer as event time, got {found}.")


def span_of(what: str, found: pa.DataType, given: Span) -> int:
    """A length of event time in the unit of a column; an error where it is none, or no whole number of it.

    >>> span_of("size", pa.timestamp("ms"), "2 seconds")
    2000
    """
    if types.is_integer(found):
        if not isinstance(given, int) or isinstance(given, bool):
            raise FlowError(f"{what} must be an integer, as the column is, got {given!r}.")
        return given
    if not isinstance(given, str | timedelta):
        raise FlowError(f"{what} must be a timedelta or text such as '10 minutes', got {given!r}.")
    length = parse_duration(given, what)
    unit = timedelta(days=1) if types.is_date32(found) else _UNITS[found.unit]
    if length % unit:
        raise SchemaError(f"{what} must be a multiple of the unit of {found}, got {given!r}.")
    return length // unit * _FINER.get(getattr(found, "unit", ""), 1)


def windows_of(
    what: str, found: pa.DataType, size: Span, slide: Span | None = None, offset: Span | None = None
) -> Windows:
    """Windows for a column of this type; an error names an invalid length, or one that does not fit."""
    event_time_type(what, found)
    length = span_of(f"{what}: size", found, size)
    step = length if slide is None else span_of(f"{what}: slide", found, slide)
    shift = 0 if offset is None else span_of(f"{what}: offset", found, offset)
    if length < 1 or step < 1:
        raise FlowError(f"{what}: size and slide of windows must be above 0, got {size!r} and {slide!r}.")
    if step > length:
        raise FlowError(
            f"{what}: the slide {slide!r} is longer than the size {size!r}, so rows between windows would "
            "be dropped. To drop them on purpose, filter them."
        )
    return Windows(length, step, shift)


def integers_of(instants: pa.Array) -> pa.Array:
    """Event times as integers of their own unit; null stays null."""
    if types.is_date32(instants.type):
        return instants.cast(pa.int32()).cast(LONG)
    return instants.cast(LONG)


def instants_of(integers: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Integers as event times of a type."""
    if types.is_date32(data_type):
        return integers.cast(pa.int32()).cast(data_type)
    return integers.cast(data_type)


def window_starts(instants: pa.Array, windows: Windows) -> pa.Array:
    """The start of the last window of each event time, as integers; null for null."""
    numbers = integers_of(instants)
    since = windows.since_start(pc.fill_null(numbers, 0).to_numpy())
    return pc.subtract_checked(numbers, pa.array(since))


def _rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    (time,) = found
    gives = event_time_type(what, time)
    windows = windows_of(what, time, options["size"], None, options.get("offset"))
    return Signature((time,), gives, partial(_tumbling, windows, gives))


def _tumbling(windows: Windows, gives: pa.DataType, datum: Datum, **options: Any) -> Datum:  # noqa: ANN401
    del options  # they are in the windows
    array = pa.repeat(datum, 1) if isinstance(datum, pa.Scalar) else datum
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    made = instants_of(window_starts(array, windows), gives)
    return made[0] if isinstance(datum, pa.Scalar) else made


register("tumbling", _rule, _tumbling)
