"""Date and time patterns of Spark, "yyyy-MM-dd HH:mm": formatting and parsing.

A letter stands for a field, and how often it stands there for its width. Text between quotes stands for
itself, two quotes for one. Fields that a text does not say are those of 1970-01-01 00:00:00. A pattern with a
letter that is not known is rejected when the flow is built.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from pointstamp.errors import SchemaError
from pointstamp.expressions.value_text import MICROS_OF_DAY

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PIECE: Final = re.compile(r"''|'((?:[^']|'')*)'|([a-zA-Z])\2*|[^a-zA-Z']+|'")
_CENTURY: Final = 2000
_SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ClockTime:
    """A time as clocks show it, taken apart."""

    year: int
    month: int
    day: int
    day_of_year: int
    weekday: int
    """0 for Monday."""
    seconds: int
    """Since midnight."""
    micros: int
    offset: int
    """Seconds by which clocks are before UTC."""
    zone: str

    @property
    def hour(self) -> int:
        """The hour, 0 to 23."""
        return self.seconds // 3600


def shown_at(clock: int, offset: int = 0, zone: str = "") -> ClockTime:
    """A clock's time, in microseconds since 1970, taken apart.

    >>> shown_at(0).year, shown_at(-1).month
    (1970, 12)
    """
    days, rest = divmod(clock, MICROS_OF_DAY)
    year, month, day = civil_of(days)
    return ClockTime(
        year,
        month,
        day,
        days - days_of(year, 1, 1) + 1,
        (days + 3) % 7,
        rest // _SECOND,
        rest % _SECOND,
        offset,
        zone,
    )


def civil_of(days: int) -> tuple[int, int, int]:
    """Year, month and day of days since 1970, in the calendar that is used now.

    >>> civil_of(-1)
    (1969, 12, 31)
    """
    shifted = days + 719_468
    era, of_era = divmod(shifted, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year + era * 400 + (month <= 2), month, day


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date.

    >>> days_of(1969, 12, 31)
    -1
    """
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _pieces(pattern: str, what: str) -> list[tuple[str, str]]:
    """The pieces of a pattern: fields by their letters, and text that stands for itself under ''."""
    found = []
    for match in _PIECE.finditer(pattern):
        text = match[0]
        if text == "''":
            found.append(("", "'"))
        elif match[1] is not None:
            found.append(("", match[1].replace("''", "'")))
        elif match[2] is not None:
            found.append((match[2], text))
        elif text == "'" or "#" in text or any(mark in text for mark in "{}[]"):
            raise SchemaError(f"{what}: the pattern {pattern!r} has {text!r}, which is not supported.")
        else:
            found.append(("", text))
    return found


# Writing.


def _number(value: int, width: int) -> str:
    return f"{'-' if value < 0 else ''}{abs(value):0{width}d}"


def _year(shown: ClockTime, width: int) -> str:
    year = shown.year if shown.year > 0 else 1 - shown.year
    if width == 2:
        return f"{year % 100:02d}"
    text = f"{year:0{width}d}"
    return f"+{text}" if width > 3 and len(text) > width else text


def _offset(shown: ClockTime, width: int, *, has_zulu: bool) -> str:
    if has_zulu and not shown.offset:
        return "Z"
    sign, minutes = ("-" if shown.offset < 0 else "+"), abs(shown.offset) // 60
    hours, minutes = divmod(minutes, 60)
    if width == 1:
        return f"{sign}{hours:02d}{minutes:02d}" if minutes else f"{sign}{hours:02d}"
    seconds = abs(shown.offset) % 60
    mark = ":" if width in (3, 5) else ""
    tail = f"{mark}{seconds:02d}" if width > 3 and seconds else ""
    return f"{sign}{hours:02d}{mark}{minutes:02d}{tail}"


def _zone_offset(shown: ClockTime, width: int) -> str:
    if width == 4:
        return _gmt(shown, 4)
    return _offset(shown, 2, has_zulu=False) if width < 4 else _offset(shown, 5, has_zulu=True)


def _gmt(shown: ClockTime, width: int) -> str:
    if not shown.offset:
        return "GMT"
    sign, total = ("-" if shown.offset < 0 else "+"), abs(shown.offset)
    hours, minutes, seconds = total // 3600, total // 60 % 60, total % 60
    if width == 4:
        return f"GMT{sign}{hours:02d}:{minutes:02d}" + (f":{seconds:02d}" if seconds else "")
    tail = f":{minutes:02d}" if minutes or seconds else ""
    return f"GMT{sign}{hours}{tail}" + (f":{seconds:02d}" if seconds else "")


def _named(names: tuple[str, ...], index: int, width: int) -> str:
    return names[index] if width == 4 else names[index][:3]


def _month(shown: ClockTime, width: int) -> str:
    return _number(shown.month, width) if width < 3 else _named(_MONTHS, shown.month - 1, width)


def _quarter(shown: ClockTime, width: int) -> str:
    quarter = (shown.month + 2) // 3
    if width < 3:
        return _number(quarter, width)
    return f"Q{quarter}" if width == 3 else f"{('1st', '2nd', '3rd', '4th')[quarter - 1]} quarter"


_Write = Callable[[ClockTime, int], str]
_WRITERS: Final[dict[str, tuple[_Write, int]]] = {
    "y": (_year, 6),
    "M": (_month, 4),
    "L": (_month, 4),
    "d": (lambda shown, width: _number(shown.day, width), 2),
    "D": (lambda shown, width: _number(shown.day_of_year, width), 3),
    "E": (lambda shown, width: _named(_DAYS, shown.weekday, width), 4),
    "F": (lambda shown, width: _number((shown.day - 1) % 7 + 1, width), 1),
    "Q": (_quarter, 4),
    "q": (_quarter, 4),
    "G": (lambda shown, width: ("AD" if shown.year > 0 else "BC") if width < 4 else
                               ("Anno Domini" if shown.year > 0 else "Before Christ"), 4),
    "H": (lambda shown, width: _number(shown.hour, width), 2),
    "k": (lambda shown, width: _number(shown.hour or 24, width), 2),
    "K": (lambda shown, width: _number(shown.hour % 12, width), 2),
    "h": (lambda shown, width: _number(shown.hour % 12 or 12, width), 2),
    "m": (lambda shown, width: _number(shown.seconds // 60 % 60, width), 2),
    "s": (lambda shown, width: _number(shown.seconds % 60, width), 2),
    "S": (lambda shown, width: f"{shown.micros:06d}000"[:width], 9),
    "a": (lambda shown, width: "AM" if shown.hour < 12 else "PM", 1),
    "V": (lambda shown, width: shown.zone, 2),
    "X": (lambda shown, width: _offset(shown, width, has_zulu=True), 5),
    "x": (lambda shown, width: _offset(shown, width, has_zulu=False), 5),
    "Z": (_zone_offset, 5),
    "O": (_gmt, 4),
}  # fmt: skip
"""The text of each field, and its maximum width."""


@cache
def writer(pattern: str, what: str) -> Callable[[ClockTime], str]:
    """A function that writes times by a pattern; SchemaError names what of it is not supported.

    >>> writer("d MMM yyyy, HH:mm", "date_format")(shown_at(0))
    '1 Jan 1970, 00:00'
    """
    steps: list[Callable[[ClockTime], str]] = []
    for letter, text in _pieces(pattern, what):
        steps.append(
            _literal(text) if not letter else _written(_known(_WRITERS, letter, text, pattern, what), text)
        )
    return lambda shown: "".join(step(shown) for step in steps)


def _literal(text: str) -> Callable[[ClockTime], str]:
    return lambda shown: text


def _written(write: _Write, text: str) -> Callable[[ClockTime], str]:
    return lambda shown: write(shown, len(text))


def _known(writers: dict[str, tuple[_Write, int]], letter: str, text: str, pattern: str, what: str) -> _Write:
    found = writers.get(letter)
    if found is None or len(text) > found[1] or (letter, len(text)) in (("V", 1), ("O", 2), ("O", 3)):
        known = ", ".join(sorted(writers))
        raise SchemaError(
            f"{what}: the pattern {pattern!r} has {text!r}, which is not supported. "
            f"Supported letters are {known}."
        )
    return found[0]


def finest(pattern: str) -> str:
    """The finest unit that a pattern shows.

    >>> finest("yyyy-MM-dd HH:mm")
    'minute'
    """
    letters = {letter for letter, _ in _pieces(pattern, "")}
    if "S" in letters:
        return "microsecond"
    return "second" if "s" in letters else "minute"


# Reading.


@dataclass(frozen=True, slots=True)
class ReadTime:
    """A time that a text says: microseconds since 1970 on a clock, and seconds before UTC if it says them."""

    clock: int
    offset: int | None


_FIELDS: Final = {
    "y": {1: r"\d{1,6}", 2: r"\d{2}", 3: r"\d{3}", 4: r"(?:\d{4}|\+\d{5,6})"},
    "M": {1: r"\d{1,2}", 2: r"\d{2}", 3: "|".join(name[:3] for name in _MONTHS), 4: "|".join(_MONTHS)},
    "L": {1: r"\d{1,2}", 2: r"\d{2}", 3: "|".join(name[:3] for name in _MONTHS), 4: "|".join(_MONTHS)},
    "d": {1: r"\d{1,2}", 2: r"\d{2}"},
    "D": {1: r"\d{1,3}", 2: r"\d{2,3}", 3: r"\d{3}"},
    "H": {1: r"\d{1,2}", 2: r"\d{2}"},
    "k": {1: r"\d{1,2}", 2: r"\d{2}"},
    "K": {1: r"\d{1,2}", 2: r"\d{2}"},
    "h": {1: r"\d{1,2}", 2: r"\d{2}"},
    "m": {1: r"\d{1,2}", 2: r"\d{2}"},
    "s": {1: r"\d{1,2}", 2: r"\d{2}"},
    "S": {width: rf"\d{{1,{width}}}" for width in range(1, 10)},
    "a": {1: "am|pm"},
    "X": {1: r"Z|[+-]\d{2}(?:\d{2})?", 2: r"Z|[+-]\d{4}", 3: r"Z|[+-]\d{2}:\d{2}"},
    "x": {1: r"[+-]\d{2}(?:\d{2})?", 2: r"[+-]\d{4}", 3: r"[+-]\d{2}:\d{2}"},
    "Z": {1: r"[+-]\d{4}", 2: r"[+-]\d{4}", 3: r"[+-]\d{4}"},
}
"""The regular expression of a field, by its letter and width."""


@cache
def reader(pattern: str, what: str) -> Callable[[str], ReadTime | None]:
    """A function that reads texts by a pattern, None for those that do not fit; SchemaError as ``writer``.

    >>> reader("d.M.yy", "to_date")("2.1.70").clock // MICROS_OF_DAY == days_of(2070, 1, 2)
    True
    """
    parts: list[str] = []
    letters: list[tuple[str, int]] = []
    for letter, text in _pieces(pattern, what):
        if not letter:
            parts.append(re.escape(text))
            continue
        found = _FIELDS.get(letter, {}).get(len(text))
        if found is None or letter in (each[0] for each in letters):
            known = ", ".join(sorted(_FIELDS))
            raise SchemaError(
                f"{what}: the pattern {pattern!r} has {text!r}, which cannot be read. "
                f"Letters that can be read, each once, are {known}."
            )
        letters.append((letter, len(text)))
        parts.append(f"({found})")
    compiled = re.compile("".join(parts), re.ASCII | re.IGNORECASE)
    return lambda text: _read(compiled, letters, text)


def _read(compiled: re.Pattern[str], letters: list[tuple[str, int]], text: str) -> ReadTime | None:
    match = compiled.fullmatch(text)
    if match is None:
        return None
    said = {letter: (width, value) for (letter, width), value in zip(letters, match.groups(), strict=True)}
    fields = {letter: _value(letter, width, value) for letter, (width, value) in said.items()}
    days = _days_said(fields)
    seconds = _seconds_said(fields)
    if days is None or seconds is None:
        return None
    offset = next((fields[letter] for letter in "XxZ" if letter in fields), None)
    return ReadTime(days * MICROS_OF_DAY + seconds * _SECOND + fields.get("S", 0), offset)


def _value(letter: str, width: int, text: str) -> int:
    if letter in "ML" and width > 2:
        return next(n for n, name in enumerate(_MONTHS, 1) if name[:3].lower() == text[:3].lower())
    if letter == "a":
        return int(text.lower() == "pm")
    if letter in "XxZ":
        if text in "Zz":
            return 0
        digits = text[1:].replace(":", "")
        total = int(digits[:2]) * 3600 + int(digits[2:4] or 0) * 60
        return -total if text[0] == "-" else total
    if letter == "S":
        return int(f"{text[:6]:0<6}")
    return int(text) + (_CENTURY if letter == "y" and width == 2 else 0)


def _days_said(fields: dict[str, int]) -> int | None:
    year = fields.get("y", 1970)
    start = days_of(year, 1, 1)
    month = fields.get("M", fields.get("L"))
    if "D" in fields:
        length = days_of(year + 1, 1, 1) - start
        return start + fields["D"] - 1 if 1 <= fields["D"] <= length and month is None else None
    month, day = 1 if month is None else month, fields.get("d", 1)
    if not 1 <= month <= 12:
        return None
    length = days_of(year + month // 12, month % 12 + 1, 1) - days_of(year, month, 1)
    return days_of(year, month, day) if 1 <= day <= length and year > 0 else None


def _seconds_said(fields: dict[str, int]) -> int | None:
    minute, second, half = fields.get("m", 0), fields.get("s", 0), fields.get("a")
    hour = fields.get("H", 0)
    if "k" in fields:
        hour = fields["k"] % 24 if 1 <= fields["k"] <= 24 else 24
    elif "K" in fields:
        hour = fields["K"] + 12 * (half or 0) if fields["K"] < 12 else 24
    elif "h" in fields:
        hour = fields["h"] % 12 + 12 * (half or 0) if 1 <= fields["h"] <= 12 else 24
    if hour > 23 or minute > 59 or second > 59:
        return None
    return hour * 3600 + minute * 60 + second
