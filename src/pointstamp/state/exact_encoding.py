"""Exact MessagePack encodings of row values that it does not know.

Rows of a batch are Python values, ``batch.to_pylist()``: besides numbers and text there are times, dates,
durations and decimals in them, and maps are lists of tuples. MessagePack would write a decimal as text and a
tuple as a list, and the reader could not distinguish them. So each such value is written as an extension with
a code of its own. What was written without any, by an earlier version, reads as before.

Invariant: ``encodable`` of a value, written and read with ``from_extension``, gives a value of the same type
that is equal, with the same zone and the same digits; for what cannot be written so it raises TypeError.
"""

import datetime as dt
import sys
from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
from msgspec.msgpack import Ext

PLAIN: Final = (type(None), bool, int, float, str, bytes)
"""The types that MessagePack restores exactly."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_BEGIN: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - on the wall, in whatever zone
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_PYTZ: Final = "pytz"
_DATETIME, _DATE, _TIME, _TIMEDELTA, _DECIMAL, _UUID, _TUPLE, _DICT, _NANOTIME, _NANODELTA = range(1, 11)


def encodable(value: Any) -> Any:  # noqa: ANN401 - any value of a row
    """Return the value with an extension for each type that MessagePack lacks."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind is list:
        return [encodable(each) for each in value]
    if kind is dict:
        if all(type(key) in PLAIN for key in value):
            return {key: encodable(each) for key, each in value.items()}
        return _extension(_DICT, [[encodable(key), encodable(each)] for key, each in value.items()])
    write = _WRITERS.get(kind)
    if write is None:
        write = _pandas_writers().get(kind)
    if write is None:
        raise TypeError(f"a value of type {kind.__module__}.{kind.__qualname__} cannot be saved")
    return write(value)


def from_extension(code: int, data: memoryview) -> Any:  # noqa: ANN401 - any value of a row
    """The value of an extension, for a decoder's ``ext_hook``."""
    reader = _READERS.get(code)
    if reader is None:
        raise msgspec.ValidationError(f"extension {code} is unknown")
    return reader(_DECODER.decode(data))


def is_exact(value: Any, back: Any) -> bool:  # noqa: ANN401 - any value
    """Return whether two values are exactly the same: type, digits and zone, all the way down."""
    if type(value) is not type(back):
        return False
    if isinstance(value, list | tuple):
        return len(value) == len(back) and all(map(is_exact, value, back))
    if isinstance(value, dict):
        return len(value) == len(back) and all(
            is_exact(one, other) and is_exact(value[one], back[other])
            for one, other in zip(value, back, strict=True)
        )
    if isinstance(value, Decimal):
        return bool(value.as_tuple() == back.as_tuple())
    if isinstance(value, dt.datetime):  # equal in whatever zone, and shown with it
        return bool(value == back and repr(value) == repr(back))
    # A NaN is not equal to itself, but shown alike.
    return bool(value == back or repr(value) == repr(back))


def _extension(code: int, content: Any) -> Ext:  # noqa: ANN401 - what MessagePack can write
    return Ext(code, _ENCODER.encode(content))


def _write_datetime(value: dt.datetime) -> Ext:
    zone = None if value.tzinfo is None else _zone(value.tzinfo)
    # What the clock on the wall shows, and which of the two moments where it shows them twice.
    shown = value.replace(tzinfo=None)
    if zone is not None and zone[0] == _PYTZ:
        shown = value.astimezone(dt.UTC).replace(tzinfo=None)  # its zones are an offset each
    return _extension(_DATETIME, [(shown - _BEGIN) // _MICROSECOND, value.fold, zone])


def _read_datetime(content: list[Any]) -> dt.datetime:
    microseconds, fold, zone = content
    shown: dt.datetime = _BEGIN + microseconds * _MICROSECOND
    if zone is not None and zone[0] == _PYTZ:
        return shown.replace(tzinfo=dt.UTC).astimezone(_zone_of(zone))
    return shown.replace(tzinfo=None if zone is None else _zone_of(zone), fold=fold)


def _zone(zone: dt.tzinfo) -> list[Any]:
    """A zone by its kind and name, so that the same kind comes back."""
    if zone is dt.UTC:
        return ["utc"]
    if type(zone) is dt.timezone:
        offset = zone.utcoffset(None)
        name = zone.tzname(None)
        return ["offset", offset // _MICROSECOND, None if name == dt.timezone(offset).tzname(None) else name]
    if isinstance(zone, ZoneInfo) and zone.key is not None:
        return ["zone", zone.key]
    if type(zone).__module__.startswith("pytz") and getattr(zone, "zone", None) is not None:
        return [_PYTZ, zone.zone]  # type: ignore[attr-defined]
    raise TypeError(f"the time zone {zone!r} cannot be saved")


def _zone_of(words: list[Any]) -> dt.tzinfo:
    match words:
        case ["utc"]:
            return dt.UTC
        case ["offset", offset, None]:
            return dt.timezone(offset * _MICROSECOND)
        case ["offset", offset, name]:
            return dt.timezone(offset * _MICROSECOND, name)
        case ["zone", name]:
            return ZoneInfo(name)
    zone: dt.tzinfo = import_module(_PYTZ).timezone(words[1])  # whoever has written this had it
    return zone


def _write_time(value: dt.time) -> Ext:
    if value.tzinfo is not None:
        raise TypeError("a time of day with a zone cannot be saved")
    return _extension(_TIME, [value.hour, value.minute, value.second, value.microsecond, value.fold])


def _write_nanotime(value: Any) -> Ext:  # noqa: ANN401 - a pandas.Timestamp
    zone = None if value.tzinfo is None else _zone(value.tzinfo)
    return _extension(_NANOTIME, [value.asm8.astype("int64").item(), value.unit, value.fold, zone])


def _read_nanotime(content: list[Any]) -> Any:  # noqa: ANN401 - a pandas.Timestamp
    pd = import_module("pandas")  # whoever has written this had it
    number, unit, fold, zone = content
    moment = pd.Timestamp(number, unit=unit).as_unit(unit)
    if zone is None:
        return moment.replace(fold=fold) if fold else moment
    return moment.tz_localize("UTC").tz_convert(_zone_of(zone))


def _read_nanodelta(content: list[Any]) -> Any:  # noqa: ANN401 - a pandas.Timedelta
    number, unit = content
    pd = import_module("pandas")  # as above
    return pd.Timedelta(number, unit=unit).as_unit(unit)


def _pandas_writers() -> dict[type, Callable[[Any], Ext]]:
    # Nanoseconds come as pandas' own values, where it is installed; who has one has imported it.
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return {}
    return {
        pandas.Timestamp: _write_nanotime,
        pandas.Timedelta: lambda value: _extension(
            _NANODELTA, [value.asm8.astype("int64").item(), value.unit]
        ),
    }


_WRITERS: Final[dict[type, Callable[[Any], Ext]]] = {
    dt.datetime: _write_datetime,
    dt.date: lambda value: _extension(_DATE, value.toordinal()),
    dt.time: _write_time,
    dt.timedelta: lambda value: _extension(_TIMEDELTA, [value.days, value.seconds, value.microseconds]),
    Decimal: lambda value: _extension(_DECIMAL, str(value)),
    UUID: lambda value: _extension(_UUID, value.bytes),
    tuple: lambda value: _extension(_TUPLE, [encodable(each) for each in value]),
}
_READERS: Final[dict[int, Callable[[Any], Any]]] = {
    _DATETIME: _read_datetime,
    _DATE: dt.date.fromordinal,
    _TIME: lambda content: dt.time(*content[:4], fold=content[4]),
    _TIMEDELTA: lambda content: dt.timedelta(*content),
    _DECIMAL: Decimal,
    _UUID: lambda content: UUID(bytes=content),
    _TUPLE: tuple,
    _DICT: dict,
    _NANOTIME: _read_nanotime,
    _NANODELTA: _read_nanodelta,
}
_DECODER: Final = msgspec.msgpack.Decoder(ext_hook=from_extension)
