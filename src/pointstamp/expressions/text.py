"""Functions of text that are computed for each different combination of arguments.

Positions begin at 1 and count characters. The arguments that ``strings`` takes from constants are columns
here, so these functions are what a call becomes whose pattern, width or position differs from row to row.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import SchemaError
from pointstamp.expressions.by_row import by_row, register_by_row
from pointstamp.expressions.signature import Datum, Signature, register
from pointstamp.expressions.type_rules import BOOLEAN, STRING

_INT: Final = pa.int32()
_INT_MAX: Final = 2**31 - 1
_TEXT_MAX: Final = 2**24
"""The longest text that a repetition or a padding makes; Spark would need the memory of a batch for more."""


def cut(value: Any, position: int, length: int) -> Any:  # noqa: ANN401 - a text or bytes
    """A part of a text or of bytes, as SQL counts: from 1, or from the end.

    >>> cut("abcdef", -3, 2), cut("abc", 0, 2), cut("abc", -5, 3)
    ('de', 'ab', 'a')
    """
    count = len(value)
    start = position - 1 if position > 0 else count + position if position < 0 else 0
    end = start + length if length < _INT_MAX else count
    start, end = max(start, 0), min(end, count)
    return value[start:end] if start < end else value[:0]


def _same(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> pa.DataType:
    del what, options
    return found[0]


def _locate(part: str | None, text: str | None, start: int | None) -> int | None:
    if start is None:
        return 0
    if part is None or text is None:
        return None
    if start < 1:
        return 0
    return text.find(part, start - 1) + 1 if start - 1 <= len(text) else 0


def _pad(value: Any, width: int, padding: Any, *, is_left: bool) -> Any:  # noqa: ANN401 - a text or bytes
    width = max(width, 0)
    missing = width - len(value)
    if missing <= 0:
        return value[:width]
    if not len(padding):
        return value
    if width > _TEXT_MAX:
        raise pa.ArrowInvalid(f"a text of {width} characters exceeds the maximum")
    filling = (padding * (missing // len(padding) + 1))[:missing]
    return filling + value if is_left else value + filling


def _repeat(text: str, times: int) -> str:
    if len(text) * times > _TEXT_MAX:
        raise pa.ArrowInvalid(f"a text of {len(text) * times} characters exceeds the maximum")
    return text * max(times, 0)


def _translate(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for place, letter in enumerate(old):
        if ord(letter) not in table:
            table[ord(letter)] = new[place] if place < len(new) else None
    return text.translate(table)


def _substring_index(text: str, mark: str, count: int) -> str:
    if not mark or not count or not text:
        return ""
    if count > 0:
        position = -1
        for _ in range(count):
            position = text.find(mark, position + 1)
            if position < 0:
                return text
        return text[:position]
    position = len(text) - len(mark) + 1
    for _ in range(-count):
        position = text.rfind(mark, 0, max(position - 1, 0) + len(mark)) if position > 0 else -1
        if position < 0:
            return text
    return text[position + len(mark) :]


def _overlay(text: Any, new: Any, position: int, length: int) -> Any:  # noqa: ANN401 - a text or bytes
    size = len(new) if length < 0 else length
    return cut(text, 1, position - 1) + new + cut(text, position + size, _INT_MAX)


def _find_in_set(word: str, words: str) -> int:
    if "," in word:
        return 0
    parts = words.split(",")
    return parts.index(word) + 1 if word in parts else 0


def _levenshtein(one: str, other: str, limit: int | None = None) -> int:
    previous = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        current = [row]
        for column, against in enumerate(other, 1):
            cost = previous[column - 1] + (letter != against)
            current.append(min(previous[column] + 1, current[-1] + 1, cost))
        previous = current
    found = previous[-1]
    return -1 if limit is not None and found > limit else found


_SOUNDS: Final = dict(
    zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202", strict=True)
)  # vowels are 0, H and W are 7


def _soundex(text: str) -> str:
    """The sound of a word of ASCII letters; a text that begins otherwise is itself."""
    raw = text.encode()
    if not raw or not chr(raw[0]).upper().isascii() or not chr(raw[0]).isalpha() or raw[0] > 127:
        return text
    found = [chr(raw[0]).upper()]
    last = _SOUNDS[found[0]]
    for byte in raw[1:]:
        letter = chr(byte).upper() if byte < 128 else ""
        if letter not in _SOUNDS:
            last = "0"
            continue
        code = _SOUNDS[letter]
        if code == "7":
            continue
        if code not in ("0", last):
            found.append(code)
            if len(found) == 4:
                break
        last = code
    return "".join(found).ljust(4, "0")


def _split_plain(text: str, mark: str) -> list[str]:
    return text.split(mark) if mark else [text]


def _to_char(number: int) -> str:
    if number < 0:
        return ""
    return chr(number & 0xFF) if number & 0xFF else "\0"


def _ascii(text: str) -> int:
    return ord(text[0]) if text else 0


def _mask(
    text: str | None, upper: str | None, lower: str | None, digit: str | None, other: str | None
) -> str | None:
    if text is None:
        return None

    def letter(each: str) -> str:
        kind = unicodedata.category(each)
        wanted = upper if kind == "Lu" else lower if kind == "Ll" else digit if kind == "Nd" else other
        return each if wanted is None else wanted

    return "".join(map(letter, text))


def _like(text: str, pattern: str, *, escape: str = "\\") -> bool:
    return re.fullmatch(like_pattern(pattern, escape), text, re.DOTALL) is not None


def like_pattern(pattern: str, escape: str) -> str:
    """A pattern of LIKE as a regular expression of Python; ArrowInvalid for one that is malformed.

    >>> like_pattern("a%_!%", "!")
    'a.*.%'
    """
    made, position = "", 0
    while position < len(pattern):
        here = pattern[position]
        if here == escape:
            position += 1
            if position == len(pattern) or pattern[position] not in ("_", "%", escape):
                raise pa.ArrowInvalid(f"the pattern {pattern!r} has {escape!r} before something else")
            made += re.escape(pattern[position])
        else:
            made += {"%": ".*", "_": "."}.get(here, re.escape(here))
        position += 1
    return made


def _likes(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """Return whether all, or any, of several constant patterns match."""
    patterns, is_all, is_not = options["patterns"], options["is_all"], options["is_not"]
    compiled = [each and re.compile(like_pattern(each, "\\"), re.DOTALL) for each in patterns]

    def matches(text: str) -> bool | None:
        results = [
            None
            if each is None
            else (re.fullmatch(each, text) is not None) != is_not
            if each != ""
            else (text == "") != is_not
            for each in compiled
        ]
        decisive = not is_all
        if decisive in results:
            return decisive
        return None if None in results else is_all

    del what
    return Signature((STRING,), BOOLEAN, lambda datum, **_: by_row(matches, BOOLEAN, True, datum))


def _lengths(unit: str) -> Any:  # noqa: ANN401 - a rule
    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del what, options
        taken = found[0] if types.is_binary(found[0]) else STRING
        factor = 8 if unit == "bit" else 1
        return Signature((taken,), _INT, lambda datum: _byte_length(datum, factor))

    return rule


def _byte_length(datum: Datum, factor: int) -> Datum:
    return pc.cast(pc.multiply(pc.binary_length(datum), factor), _INT)


def _reversed_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del what, options
    (given,) = found
    return Signature((given,), given, lambda datum: by_row(lambda value: value[::-1], given, True, datum))


def _joined_bytes_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    if not all(map(types.is_binary, found)):
        raise SchemaError(f"{what} needs bytes, got {found}.")
    return Signature(
        tuple(found),
        pa.binary(),
        lambda *data: pc.binary_join_element_wise(*data, pa.scalar(b""), null_handling="emit_null"),
    )


def _concat_ws_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    for each in found[1:]:
        if types.is_nested(each) and not (types.is_list(each) and types.is_string(each.value_type)):
            raise SchemaError(f"{what} needs strings and lists of strings, got {each}.")

    def joined(separator: str | None, *values: Any) -> str | None:  # noqa: ANN401 - texts and lists
        if separator is None:
            return None
        parts = [part for each in values for part in (each if isinstance(each, list) else [each])]
        return separator.join(part for part in parts if part is not None)

    takes = tuple(each if types.is_list(each) else STRING for each in found)
    return Signature(takes, STRING, lambda *data: by_row(joined, STRING, False, *data))


def _replaced(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def _trimmed(side: str) -> Any:  # noqa: ANN401 - a function of texts
    strip = {"both": str.strip, "left": str.lstrip, "right": str.rstrip}[side]
    return lambda text, characters: strip(text, characters) if characters else text


def _is_luhn(text: str) -> bool:
    """Return whether the last digit of a number of ASCII digits is its checksum."""
    if not text or not (text.isascii() and text.isdigit()):
        return False
    total = 0
    for place, digit in enumerate(reversed(text)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


_SPECIFIER: Final = re.compile(r"%(?:(%)|(-?)(0?)(\d*)([sd]))")


def _formatted_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """``printf`` with ``%s`` of texts and integers, and ``%d`` of integers."""
    pattern = options["pattern"]
    if "%" in _SPECIFIER.sub("", pattern):
        raise SchemaError(f"{what}: only %s, %d and %% are supported, got {pattern!r}.")
    wanted = [match for match in _SPECIFIER.finditer(pattern) if not match[1]]
    if len(wanted) > len(found):
        raise SchemaError(f"{what}: {pattern!r} needs {len(wanted)} values, got {len(found)}.")
    for match, kind in zip(wanted, found, strict=False):
        fits = types.is_integer(kind) or (match[5] == "s" and types.is_string(kind))
        if not fits or (match[3] and (match[5] == "s" or match[2] or not match[4])):
            raise SchemaError(f"{what}: {match[0]} of a value of type {kind} is not supported.")

    def formatted(*values: Any) -> str:  # noqa: ANN401 - texts and integers
        given = iter(values)

        def one(match: re.Match[str]) -> str:
            if match[1]:
                return "%"
            value = next(given)
            width = int(match[4] or 0)
            text = "null" if value is None else str(value)
            if match[3] and value is not None:
                return text.zfill(width)
            return text.ljust(width) if match[2] else text.rjust(width)

        return _SPECIFIER.sub(one, pattern)

    return Signature(tuple(found), STRING, lambda *data, **_: by_row(formatted, STRING, False, *data))


register_by_row("is_luhn", _is_luhn, BOOLEAN, can_fail=False)
register(
    "format_string",
    _formatted_rule,
    lambda *data: data,
    most=None,
    can_fail=False,
    is_strict=False,
    is_by_row=True,
)
register_by_row("substring_by_row", cut, _same, least=3, can_fail=False)
register_by_row("locate", _locate, _INT, least=3, can_fail=False, is_strict=False)
register_by_row("lpad_by_row", lambda v, w, p: _pad(v, w, p, is_left=True), _same, least=3)
register_by_row("rpad_by_row", lambda v, w, p: _pad(v, w, p, is_left=False), _same, least=3)
register_by_row("repeat_by_row", _repeat, least=2)
register_by_row("translate", _translate, least=3, can_fail=False)
register_by_row("substring_index", _substring_index, least=3, can_fail=False)
register_by_row("overlay", _overlay, _same, least=4, can_fail=False)
register_by_row("find_in_set", _find_in_set, _INT, least=2, can_fail=False)
register_by_row("levenshtein", _levenshtein, _INT, least=2, most=3, can_fail=False)
register_by_row("soundex", _soundex, can_fail=False)
register_by_row("split_plain", _split_plain, pa.list_(pa.field("element", STRING)), least=2, can_fail=False)
register_by_row("char_of", _to_char, can_fail=False)
register_by_row("ascii", _ascii, _INT, can_fail=False)
register_by_row("mask", _mask, least=5, can_fail=False, is_strict=False)
register_by_row("space", lambda count: _repeat(" ", count))
register_by_row("like_by_row", _like, BOOLEAN, least=2)
register_by_row(
    "starts_with_by_row", lambda text, part: text.startswith(part), BOOLEAN, least=2, can_fail=False
)
register_by_row("ends_with_by_row", lambda text, part: text.endswith(part), BOOLEAN, least=2, can_fail=False)
register_by_row("contains_by_row", lambda text, part: part in text, BOOLEAN, least=2, can_fail=False)
register_by_row("replace_by_row", _replaced, least=3, can_fail=False)
for _side in ("both", "left", "right"):
    register_by_row(f"trim_{_side}", _trimmed(_side), least=2, can_fail=False)
register("likes", _likes, lambda datum: datum, can_fail=False, is_by_row=True)
register("bit_length", _lengths("bit"), lambda datum: datum, can_fail=False)
register("octet_length", _lengths("octet"), lambda datum: datum, can_fail=False)
register("reverse_by_row", _reversed_rule, lambda datum: datum, can_fail=False, is_by_row=True)
register("concat_bytes", _joined_bytes_rule, lambda *data: data, most=None, can_fail=False)
register(
    "concat_ws_by_row",
    _concat_ws_rule,
    lambda *data: data,
    most=None,
    can_fail=False,
    is_strict=False,
    is_by_row=True,
)
