"""Text: Spark's string functions over complete columns.

Positions begin at 1, as SQL counts, and count characters. Regular expressions are RE2's, which Arrow has:
they know no look-around and no back references, and a pattern that they do not know is refused when the
flow is built.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import SchemaError
from pointstamp.expressions.signature import Datum, Kernel, Signature, TypeRule, check, register, takes
from pointstamp.expressions.type_rules import BOOLEAN, STRING, is_text


def _text(gives: pa.DataType) -> TypeRule:
    """Texts; a value of another plain type is taken as its text, as Spark takes it."""

    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del options
        for each in found:
            check(not types.is_nested(each), what, "a string", each)
        return Signature((STRING,) * len(found), gives)

    return rule


def _length_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    if types.is_binary(found[0]):
        return Signature((found[0],), pa.int32(), lambda datum: pc.cast(pc.binary_length(datum), pa.int32()))
    return _text(pa.int32())(what, found, options)


def _pattern(gives: pa.DataType) -> TypeRule:
    """One text and a regular expression, which is tried out."""
    plain = _text(gives)

    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        pattern = options["pattern"]
        _check_classes(what, pattern)
        try:
            pc.match_substring_regex(pa.array([""]), pattern)
            groups = re.compile(pattern).groups if _can_be_empty(pattern) else pattern.count("(")
            if options.get("group", 0) > groups:
                raise SchemaError(f"{what}: {pattern!r} has {groups} groups, got group {options['group']}.")
            if "replacement" in options:
                _rewritten(options["replacement"], pattern, what)
        except (pa.ArrowInvalid, re.error) as error:
            raise SchemaError(
                f"{what}: {pattern!r} is not a supported regular expression: {error}"
            ) from error
        return plain(what, found, options)

    return rule


def _check_classes(what: str, pattern: str) -> None:
    """Refuse what Java and RE2 read differently inside of brackets: other brackets, and ``&&``."""
    position, inside = 0, False
    while position < len(pattern):
        here = pattern[position]
        if here == "\\":
            position += 2
            continue
        if inside and (here == "[" or pattern.startswith("&&", position)):
            raise SchemaError(
                f"{what}: {pattern!r} has {here!r} in brackets, which Java reads as a nested class. "
                f"Write a backslash before it, or another class."
            )
        inside = (inside or here == "[") and here != "]"
        position += 1


def _can_be_empty(pattern: str) -> bool:
    """Whether a regular expression could match no character; Java and RE2 then find different matches."""
    try:
        return "\\b" in pattern or "\\B" in pattern or re.compile(pattern).search("") is not None
    except re.error:
        return False


def _any_text(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """Values of any plain type, each taken as text."""
    del options
    for each in found:
        check(not types.is_nested(each), what, "values that are plain", each)
    return Signature((STRING,) * len(found), STRING)


def _concat(*data: Datum) -> Datum:
    return pc.binary_join_element_wise(*data, "", null_handling="emit_null")


_TEXTS = pa.list_(STRING)


def _join_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """Values of any plain type, and lists of texts."""
    del options
    takes = []
    for each in found:
        is_list = types.is_list(each) and is_text(each.value_type)
        check(is_list or not types.is_nested(each), what, "values that are plain, or lists of strings", each)
        takes.append(each if is_list else STRING)
    return Signature(tuple(takes), STRING)


def _concat_ws(*data: Datum, separator: str) -> Datum:
    """Joined by a separator; nulls are left out."""
    if not any(types.is_list(datum.type) for datum in data):
        return _joined(data, separator)
    count = max(len(datum) for datum in data if not isinstance(datum, pa.Scalar))
    columns = [
        [datum.as_py()] * count if isinstance(datum, pa.Scalar) else datum.to_pylist() for datum in data
    ]
    made = []
    for row in zip(*columns, strict=True):
        texts = [text for each in row for text in (each if isinstance(each, list) else [each])]
        made.append(separator.join(text for text in texts if text is not None))
    return pa.array(made, STRING)


def _joined(data: Sequence[Datum], separator: str) -> Datum:
    # Arrow leaves a row out in which all are null; it is an empty text.
    is_empty = reduce(pc.and_, (pc.is_null(datum) for datum in data))
    first = pc.if_else(is_empty, pa.scalar(""), data[0])
    return pc.binary_join_element_wise(first, *data[1:], separator, null_handling="skip")


def _by_value(function: Callable[[str], Any], datum: Datum, gives: pa.DataType = STRING) -> Datum:
    """A function of texts, called once for each different one."""
    different = pc.dictionary_encode(datum)
    made = [None if text is None else function(text) for text in different.dictionary.to_pylist()]
    return pa.array(made, gives).take(different.indices)


def _cased(kernel: Kernel, function: Callable[[str], str], datum: Datum) -> Datum:
    """Arrow changes one character into one; of other texts than ASCII, some become longer."""
    if pc.all(pc.fill_null(pc.string_is_ascii(datum), True)).as_py():
        return kernel(datum)
    return _by_value(function, datum)


def _titled(text: str) -> str:
    """Each word, between spaces, with a capital at its beginning and small letters behind."""
    return " ".join(map(_titled_word, text.split(" ")))


def _titled_word(word: str) -> str:
    return word[:1].title() + word.lower()[len(word[:1].lower()) :]


def _substring(datum: Datum, *, start: int, length: int | None) -> Datum:
    """From a position on that counts from 1, or from the end where it is negative."""
    if start > 0:
        first = start - 1
    elif start == 0:
        first = 0
    else:
        return _from_end(datum, start, length)
    stop = None if length is None else max(first, first + length)
    return pc.utf8_slice_codeunits(datum, first, stop)


def _from_end(datum: Datum, start: int, length: int | None) -> Datum:
    end = None if length is None or start + length >= 0 else start + length
    if length is None or length >= 0:
        sliced = pc.utf8_slice_codeunits(datum, start, end)
        # A text that is shorter than the position asks for begins later, so less of it is left.
        if length is None:
            return sliced
        missing = pc.subtract(-start, pc.utf8_length(datum))
        is_short = pc.greater(missing, 0)
        if not pc.any(is_short).as_py():
            return sliced
        kept = [
            None
            if text is None
            else text[: max(0, len(text) + start + length)]
            if len(text) < -start
            else text[start:end]
            for text in datum.to_pylist()
        ]
        return pa.array(kept, STRING)
    return pc.utf8_slice_codeunits(datum, 0, 0)


def _trimmed(kernel: Kernel, datum: Datum, *, characters: str) -> Datum:
    return kernel(datum, characters=characters) if characters else datum


def _trim_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    return _text(STRING)(what, found, options)


def _position(datum: Datum, *, text: str, start: int = 1) -> Datum:
    """The first position of a substring at or after a position, counted from 1; 0 if there is none."""
    if start < 1:
        return pc.if_else(pc.is_null(datum), pa.scalar(None, pa.int32()), pa.scalar(0, pa.int32()))
    if start > 1:
        return _by_value(lambda each: each.find(text, start - 1) + 1, datum, pa.int32())
    if pc.all(pc.coalesce(pc.string_is_ascii(datum), pa.scalar(True))).as_py():
        return pc.cast(pc.add(pc.find_substring(datum, text), 1), pa.int32())  # there, a byte is a character
    return pa.array([None if each is None else each.find(text) + 1 for each in _values(datum)], pa.int32())


def _values(datum: Datum) -> list[Any]:
    return [datum.as_py()] if isinstance(datum, pa.Scalar) else datum.to_pylist()


def _extract(datum: Datum, *, pattern: str, group: int) -> Datum:
    """A group of the first match; empty where there is none."""
    named = _with_named_groups(pattern)
    if group == 0:
        named = f"(?P<whole>{named})"
    found = pc.extract_regex(datum, named)
    name = "whole" if group == 0 else f"g{group}"
    made = pc.struct_field(found, name)
    return pc.if_else(pc.is_null(datum), pa.scalar(None, STRING), pc.coalesce(made, pa.scalar("")))


def _with_named_groups(pattern: str) -> str:
    """Plain groups get the names g1, g2, ...: Arrow extracts named groups only."""
    made, number, position, in_class = [], 0, 0, False
    while position < len(pattern):
        here = pattern[position]
        if here == "\\":
            made.append(pattern[position : position + 2])
            position += 2
            continue
        in_class = (in_class or here == "[") and here != "]"
        if here == "(" and not in_class and pattern[position + 1 : position + 2] != "?":
            number += 1
            made.append(f"(?P<g{number}>")
        else:
            made.append(here)
        position += 1
    return "".join(made)


def _replace(datum: Datum, *, old: str, new: str) -> Datum:
    return pc.replace_substring(datum, old, new) if old else datum


def _rewritten(replacement: str, pattern: str, what: str) -> str:
    """A replacement of Java's, with ``$1`` for a group, as RE2 takes it."""
    groups, made, position = re.compile(_python(pattern)).groups, "", 0
    while position < len(replacement):
        here = replacement[position]
        if here == "\\":
            position += 1
            if position == len(replacement):
                raise SchemaError(f"{what}: the replacement {replacement!r} ends with a backslash.")
            made += "\\\\" if replacement[position] == "\\" else replacement[position]
        elif here == "$":
            digits = re.match(r"[0-9]+", replacement[position + 1 :])
            if digits is None:
                raise SchemaError(
                    f"{what}: in the replacement {replacement!r} a number must follow '$'. "
                    "Write \\$ for a dollar."
                )
            number = digits[0]
            while len(number) > 1 and int(number) > groups:
                number = number[:-1]
            if int(number) > min(groups, _GROUPS_MAX):
                raise SchemaError(
                    f"{what}: the replacement {replacement!r} names group {number} of {groups}."
                )
            made += f"\\{number}"
            position += len(number)
        else:
            made += here
        position += 1
    return made


_GROUPS_MAX = 9


def _python(pattern: str) -> str:
    """A pattern of RE2's as Python takes it."""
    return pattern.replace("\\z", "\\Z")


def _regexp_replace(datum: Datum, *, pattern: str, replacement: str) -> Datum:
    rewritten = _rewritten(replacement, pattern, "")
    if not _can_be_empty(pattern):
        return pc.replace_substring_regex(datum, pattern, rewritten)
    compiled = re.compile(_python(pattern), re.ASCII)
    template = re.sub(r"\\([0-9])", r"\\g<\1>", rewritten)
    return _by_value(lambda text: compiled.sub(template, text), datum)


def _split(datum: Datum, *, pattern: str) -> Datum:
    if not pattern:
        return _by_value(lambda text: list(text) or [""], datum, _TEXTS)
    if not _can_be_empty(pattern):
        return pc.split_pattern_regex(datum, pattern)
    compiled = re.compile(_python(pattern), re.ASCII)

    def parts(text: str) -> list[str]:
        made, start = [], 0
        for match in compiled.finditer(text):
            if match.end() == 0:  # Java takes no empty part at the beginning for a match of nothing
                continue
            made.append(text[start : match.start()])
            start = match.end()
        return [*made, text[start:]]

    return _by_value(parts, datum, _TEXTS)


def _split_part_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    if not options["number"]:
        raise SchemaError(f"{what}: the part number must not be 0; 1 is the first part, -1 the last.")
    return _text(STRING)(what, found, options)


def _split_part(datum: Datum, *, separator: str, number: int) -> Datum:
    """The part with this number, counted from 1, or from the end; empty where there are fewer."""
    index = number - 1 if number > 0 else number

    def part(text: str) -> str:
        parts = text.split(separator) if separator else [text]
        return parts[index] if -len(parts) <= index < len(parts) else ""

    return _by_value(part, datum)


def _pad(kernel: Any, datum: Datum, *, width: int, padding: str) -> Datum:  # noqa: ANN401 - an Arrow function
    """To so many characters, longer texts are cut."""
    width = max(width, 0)
    cut = pc.utf8_slice_codeunits(datum, 0, width)
    if len(padding) == 1:
        return kernel(cut, width=width, padding=padding)
    is_left = kernel is pc.utf8_lpad
    made = []
    for each in _values(cut):
        if each is None or not padding:
            made.append(each)
            continue
        missing = width - len(each)
        filling = (padding * (missing // len(padding) + 1))[: max(missing, 0)]
        made.append(filling + each if is_left else each + filling)
    return pa.array(made, STRING)


def _field_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    (struct,) = found
    check(bool(types.is_struct(struct)), what, "a struct", struct)
    index = struct.get_field_index(options["name"])
    if index < 0:
        names = ", ".join(f"'{field.name}'" for field in struct)
        raise SchemaError(f"{what}: the struct has no field '{options['name']}'; it has {names}.")
    return Signature((struct,), struct.field(index).type)


_TEXT = _text(STRING)
_TEST = _text(BOOLEAN)

register("upper", _TEXT, partial(_cased, pc.utf8_upper, str.upper), can_fail=False)
register("lower", _TEXT, partial(_cased, pc.utf8_lower, str.lower), can_fail=False)
register("init_cap", _TEXT, partial(_by_value, _titled), can_fail=False)
register("length", _length_rule, lambda datum: pc.cast(pc.utf8_length(datum), pa.int32()), can_fail=False)
register("reverse", _TEXT, lambda datum: pc.utf8_reverse(datum), can_fail=False)
for _name, _trim in (("trim", pc.utf8_trim), ("ltrim", pc.utf8_ltrim), ("rtrim", pc.utf8_rtrim)):
    register(_name, _trim_rule, partial(_trimmed, _trim), can_fail=False)
register("concat", _any_text, _concat, most=None, can_fail=False, is_strict=False)
register("concat_ws", _join_rule, _concat_ws, most=None, can_fail=False, is_strict=False)
register("substring", _TEXT, _substring, can_fail=False)
register("like", _TEST, lambda datum, pattern: pc.match_like(datum, pattern), can_fail=False)
register(
    "rlike",
    _pattern(BOOLEAN),
    lambda datum, pattern: pc.match_substring_regex(datum, pattern),
    can_fail=False,
)
register("starts_with", _TEST, lambda datum, pattern: pc.starts_with(datum, pattern), can_fail=False)
register("ends_with", _TEST, lambda datum, pattern: pc.ends_with(datum, pattern), can_fail=False)
register("contains", _TEST, lambda datum, pattern: pc.match_substring(datum, pattern), can_fail=False)
register("replace", _TEXT, _replace, can_fail=False)
register("regexp_replace", _pattern(STRING), _regexp_replace, can_fail=False)
register("regexp_extract", _pattern(STRING), _extract, can_fail=False)
register("split", _pattern(_TEXTS), _split, can_fail=False)
register("split_part", _split_part_rule, _split_part, can_fail=False)
register("instr", _text(pa.int32()), _position, can_fail=False)
register("repeat", _TEXT, lambda datum, times: pc.binary_repeat(datum, max(times, 0)))
register("lpad", _TEXT, lambda datum, width, padding: _pad(pc.utf8_lpad, datum, width=width, padding=padding))
register("rpad", _TEXT, lambda datum, width, padding: _pad(pc.utf8_rpad, datum, width=width, padding=padding))
register("field", _field_rule, lambda datum, name: pc.struct_field(datum, name), can_fail=False)
register(
    "size",
    takes(lambda each: bool(types.is_list(each) or types.is_large_list(each)), "a list", pa.int32()),
    lambda datum: pc.cast(pc.list_value_length(datum), pa.int32()),
    can_fail=False,
)
