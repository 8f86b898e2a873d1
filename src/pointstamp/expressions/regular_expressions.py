"""Java's regular expressions: ``rlike``, ``regexp_extract``, ``regexp_replace``, ``split``.

A pattern is a constant. It is translated to one of Python that matches the same, and a pattern for which this
is not known is rejected when the view is defined. A function is called once for each different text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from pointstamp.errors import SchemaError
from pointstamp.expressions.by_row import by_row
from pointstamp.expressions.signature import Signature, TypeRule, register
from pointstamp.expressions.type_rules import BOOLEAN, STRING

_NOT_LINE_END: Final = "[^\n\r\u0085\u2028\u2029]"
_END: Final = "(?=(?:\r\n|[\n\r\u0085\u2028\u2029])?\\Z)(?!(?<=\r)\n\\Z)"
"""Java's ``$``: the end, or before the last line terminator, which is not inside of one."""
_SAME_ESCAPES: Final = frozenset("wWdDtnrf.\\+*?()[]{}|^$/-'\"=<>!:#%&@~`,;_ ")
_SPACE: Final = " \\t\\n\\x0b\\f\\r"
_POSIX: Final = {
    "Lower": "a-z", "Upper": "A-Z", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
    "Punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"), "Space": _SPACE, "Blank": " \\t",
    "XDigit": "0-9a-fA-F",
}  # fmt: skip
_FLAGS: Final = re.compile(r"\(\?([is]+)\)")


def java_pattern(pattern: str, what: str) -> re.Pattern[str]:
    """Return a pattern of Java's as one of Python's; SchemaError if it is not known to match the same.

    >>> java_pattern("a.c$", "rlike").search("xabc" + chr(10)) is not None
    True
    """
    flags, position = re.ASCII, 0
    if (match := _FLAGS.match(pattern)) is not None:
        position = match.end()
        flags |= re.IGNORECASE if "i" in match[1] else 0
        dot = "(?s:.)" if "s" in match[1] else _NOT_LINE_END
    else:
        dot = _NOT_LINE_END
    if flags & re.IGNORECASE and not pattern.isascii():
        raise _rejected(what, pattern, "case-insensitive letters that are not ASCII")
    made: list[str] = []
    in_class = False
    while position < len(pattern):
        here = pattern[position]
        step = 1
        if here == "\\":
            text, step = _escape(pattern, position, in_class, what)
            made.append(text)
        elif in_class:
            if here == "[" or pattern.startswith("&&", position):
                raise _rejected(what, pattern, "a nested character class")
            in_class = here != "]"
            made.append(here)
        elif here == "[":
            in_class = True
            negated = pattern.startswith("[^", position)
            step = 2 if negated else 1
            made.append("[^" if negated else "[")
            if pattern.startswith("]", position + step):
                raise _rejected(what, pattern, "a character class that begins with a bracket")
        elif here == ".":
            made.append(dot)
        elif here == "$":
            made.append(_END)
        elif here == "(" and pattern.startswith("(?", position):
            if pattern[position + 2 : position + 3] not in (":", "=", "!"):
                raise _rejected(what, pattern, "a group of this kind")
            step = 3
            made.append(pattern[position : position + 3])
        elif here == "{" and re.match(r"\{\d+(,\d*)?\}", pattern[position:]) is None:
            raise _rejected(what, pattern, "a brace that is not a repetition")
        else:
            made.append(here)
        position += step
    try:
        return re.compile("".join(made), flags)
    except re.error as error:
        raise _rejected(what, pattern, str(error)) from error


def _rejected(what: str, pattern: str, why: str) -> SchemaError:
    return SchemaError(f"{what}: the regular expression {pattern!r} is not supported: {why}.")


def _escape(pattern: str, position: int, in_class: bool, what: str) -> tuple[str, int]:
    """The meaning of an escape, and its length."""
    letter = pattern[position + 1 : position + 2]
    if not letter:
        raise _rejected(what, pattern, "a backslash at its end")
    if letter == "s":
        return (_SPACE if in_class else f"[{_SPACE}]"), 2
    if letter == "S" and not in_class:
        return f"[^{_SPACE}]", 2
    if letter == "Q" and not in_class:
        end = pattern.find("\\E", position)
        text = pattern[position + 2 : end if end >= 0 else len(pattern)]
        return f"(?:{re.escape(text)})" if len(text) == 1 else re.escape(text), len(text) + (
            4 if end >= 0 else 2
        )
    if letter == "p" and (match := re.match(r"\\p\{(\w+)\}", pattern[position:])) and match[1] in _POSIX:
        inner = _POSIX[match[1]]
        return (inner if in_class else f"[{inner}]"), match.end()
    if letter in "bB" and not in_class and pattern.isascii():
        return f"\\{letter}", 2
    if letter.isdigit() and letter != "0" and not in_class:
        if pattern[position + 2 : position + 3].isdigit():
            raise _rejected(what, pattern, "a reference with two digits")
        return f"(?:\\{letter})", 2
    if letter in "zA" and not in_class:
        return "\\Z" if letter == "z" else "\\A", 2
    if letter in _SAME_ESCAPES:
        return (re.escape(letter) if letter in "/-'\"=<>!:#%&@~`,;_ " else f"\\{letter}"), 2
    raise _rejected(what, pattern, f"the escape '\\{letter}'")


def replacement_of(text: str, pattern: re.Pattern[str], what: str) -> list[str | int]:
    """Return the parts of a replacement of Java's: texts, and numbers of groups."""
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        here = text[position]
        if here == "\\":
            position += 1
            if position == len(text):
                raise SchemaError(f"{what}: the replacement {text!r} ends with a backslash.")
            parts.append(text[position])
        elif here == "$":
            digits = re.match(r"[0-9]+", text[position + 1 :])
            if digits is None:
                raise SchemaError(f"{what}: in the replacement {text!r} a number must follow '$'.")
            number = digits[0][0]
            for digit in digits[0][1:]:
                if int(number + digit) > pattern.groups:
                    break
                number += digit
            if int(number) > pattern.groups:
                raise SchemaError(
                    f"{what}: the replacement {text!r} names group {number} of {pattern.groups}."
                )
            parts.append(int(number))
            position += len(number)
        else:
            parts.append(here)
        position += 1
    return parts


def _matches(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """All matches as Java finds them: after one that is not empty, an empty one may follow at its end."""
    return list(pattern.finditer(text))


def _replace(pattern: re.Pattern[str], parts: Sequence[str | int], text: str, first: int) -> str:
    made, position = [text[:first]], first
    for match in pattern.finditer(text, first):
        made.append(text[position : match.start()])
        made.extend(each if isinstance(each, str) else match[each] or "" for each in parts)
        position = match.end()
    return "".join([*made, text[position:]])


def _split(pattern: re.Pattern[str], is_empty: bool, text: str, limit: int) -> list[str]:
    if is_empty:
        letters = list(text) or [""]
        return letters if limit <= 0 or len(letters) <= limit else [*letters[: limit - 1], text[limit - 1 :]]
    parts: list[str] = []
    start = 0
    for match in pattern.finditer(text):
        if limit > 0 and len(parts) == limit - 1:
            break
        if match.end() == 0:  # Java takes no empty part at the beginning for a match of nothing
            continue
        parts.append(text[start : match.start()])
        start = match.end()
    if not parts:
        return [text]
    return [*parts, text[start:]]


def _rule(
    gives: pa.DataType, function: Callable[[re.Pattern[str], Mapping[str, Any], str], Callable[[str], Any]]
) -> TypeRule:
    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del found
        pattern = java_pattern(options["pattern"], what)
        group = options.get("group", 0)
        if not 0 <= group <= pattern.groups:
            raise SchemaError(f"{what}: the pattern has {pattern.groups} groups, got group {group}.")
        of_text = function(pattern, options, what)
        if function in _REPEATED and options["pattern"]:
            of_text = _guarded(pattern, of_text)
        return Signature((STRING,), gives, lambda datum, **_: by_row(of_text, gives, True, datum))

    return rule


def _guarded(pattern: re.Pattern[str], function: Callable[[str], Any]) -> Callable[[str], Any]:
    """A function that rejects texts with letters of two code units if a match can be empty inside of one."""
    if pattern.search("") is None and not any(each in pattern.pattern for each in ("\\b", "\\B")):
        return function

    def guarded(text: str) -> Any:  # noqa: ANN401 - what the function gives
        if any(letter > "\uffff" for letter in text):
            raise pa.ArrowInvalid(
                f"{text!r} has letters of two code units, and the pattern can match between"
            )
        return function(text)

    return guarded


def _search(pattern: re.Pattern[str], options: Mapping[str, Any], what: str) -> Callable[[str], Any]:
    del options, what
    return lambda text: pattern.search(text) is not None


def _extract(pattern: re.Pattern[str], options: Mapping[str, Any], what: str) -> Callable[[str], Any]:
    del what
    group = options["group"]

    def extracted(text: str) -> str:
        match = pattern.search(text)
        return "" if match is None else match[group] or ""

    return extracted


def _extract_all(pattern: re.Pattern[str], options: Mapping[str, Any], what: str) -> Callable[[str], Any]:
    del what
    group = options["group"]
    return lambda text: [match[group] or "" for match in _matches(pattern, text)]


def _in_string(pattern: re.Pattern[str], options: Mapping[str, Any], what: str) -> Callable[[str], Any]:
    del options, what

    def place(text: str) -> int:
        match = pattern.search(text)
        return 0 if match is None else match.start() + 1

    return place


def _replaced(pattern: re.Pattern[str], options: Mapping[str, Any], what: str) -> Callable[[str], Any]:
    parts = replacement_of(options["replacement"], pattern, what)
    first = options["first"] - 1
    if first < 0:
        raise SchemaError(f"{what}: positions begin at 1, got {first + 1}.")

    def replaced(text: str) -> str:
        return text if first and first >= len(text) else _replace(pattern, parts, text, first)

    return replaced


def _parts(pattern: re.Pattern[str], options: Mapping[str, Any], what: str) -> Callable[[str], Any]:
    del what
    limit, is_empty = options["limit"], not options["pattern"]
    return lambda text: _split(pattern, is_empty, text, limit)


_REPEATED: Final = (_extract_all, _replaced, _parts)
"""Functions that look for a match after a match."""

_TEXTS: Final = pa.list_(pa.field("element", STRING))

for _name, _gives, _function in (
    ("java_rlike", BOOLEAN, _search),
    ("java_extract", STRING, _extract),
    ("java_extract_all", _TEXTS, _extract_all),
    ("java_position", pa.int32(), _in_string),
    ("java_replace", STRING, _replaced),
    ("java_split", _TEXTS, _parts),
):
    register(_name, _rule(_gives, _function), lambda datum: datum, can_fail=False, is_by_row=True)
