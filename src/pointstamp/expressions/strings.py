"""Text: Spark's string functions over whole columns.

Positions begin at 1, as SQL counts, and count characters. Regular expressions are RE2's, which Arrow has:
they know no look-around and no back references, and a pattern that they do not know is refused when the
flow is built.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import SchemaError
from pointstamp.expressions.function import Datum, Signature, TypeRule, check, register, takes
from pointstamp.expressions.typing import BOOLEAN, STRING, is_text


def _text(gives: pa.DataType) -> TypeRule:
    """One text, taken as a string."""

    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del options
        for each in found:
            check(is_text(each) or types.is_null(each), what, "a string", each)
        return Signature((STRING,) * len(found), gives)

    return rule


def _pattern(gives: pa.DataType) -> TypeRule:
    """One text and a regular expression, which is tried out."""
    plain = _text(gives)

    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        try:
            pc.match_substring_regex(pa.array([""]), options["pattern"])
        except pa.ArrowInvalid as error:
            raise SchemaError(
                f"{what}: {options['pattern']!r} is no regular expression here: {error}"
            ) from error
        return plain(what, found, options)

    return rule


def _any_text(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """Values of any plain type, each taken as text."""
    del options
    for each in found:
        check(not types.is_nested(each), what, "values that are plain", each)
    return Signature((STRING,) * len(found), STRING)


def _concat(*data: Datum) -> Datum:
    return pc.binary_join_element_wise(*data, "", null_handling="emit_null")


def _concat_ws(*data: Datum, separator: str) -> Datum:
    """Joined by a separator; nulls are left out."""
    return pc.binary_join_element_wise(*data, separator, null_handling="skip")


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


def _trim_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    return _text(STRING)(what, found, options)


def _position(datum: Datum, *, text: str) -> Datum:
    """Where a text occurs first, counted from 1; 0 where it does not."""
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


def _split_part(datum: Datum, *, separator: str, number: int) -> Datum:
    """The part with this number, counted from 1, or from the end; empty where there are fewer."""
    parts = pc.split_pattern(datum, separator)
    counts = pc.list_value_length(parts)
    if number > 0:
        has = pc.greater_equal(counts, number)
        index = number - 1
        padded = parts if pc.all(pc.coalesce(has, pa.scalar(True))).as_py() else _padded(parts, number)
        return pc.if_else(pc.coalesce(has, pa.scalar(True)), pc.list_element(padded, index), pa.scalar(""))
    made = [
        None if each is None else each[number] if len(each) >= -number else "" for each in parts.to_pylist()
    ]
    return pa.array(made, STRING)


def _padded(parts: pa.Array, number: int) -> pa.Array:
    made = [None if each is None else each + [""] * (number - len(each)) for each in parts.to_pylist()]
    return pa.array(made, pa.list_(STRING))


def _pad(kernel: Any, datum: Datum, *, width: int, padding: str) -> Datum:  # noqa: ANN401 - an Arrow function
    """To so many characters, longer texts are cut."""
    cut = pc.utf8_slice_codeunits(datum, 0, max(width, 0))
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

register("upper", _TEXT, lambda datum: pc.utf8_upper(datum))
register("lower", _TEXT, lambda datum: pc.utf8_lower(datum))
register("init_cap", _TEXT, lambda datum: pc.utf8_title(datum))
register("length", _text(pa.int32()), lambda datum: pc.cast(pc.utf8_length(datum), pa.int32()))
register("reverse", _TEXT, lambda datum: pc.utf8_reverse(datum))
register("trim", _trim_rule, lambda datum, characters: pc.utf8_trim(datum, characters=characters))
register("ltrim", _trim_rule, lambda datum, characters: pc.utf8_ltrim(datum, characters=characters))
register("rtrim", _trim_rule, lambda datum, characters: pc.utf8_rtrim(datum, characters=characters))
register("concat", _any_text, _concat, most=None)
register("concat_ws", _any_text, _concat_ws, most=None)
register("substring", _TEXT, _substring)
register("like", _TEST, lambda datum, pattern: pc.match_like(datum, pattern))
register("rlike", _pattern(BOOLEAN), lambda datum, pattern: pc.match_substring_regex(datum, pattern))
register("starts_with", _TEST, lambda datum, pattern: pc.starts_with(datum, pattern))
register("ends_with", _TEST, lambda datum, pattern: pc.ends_with(datum, pattern))
register("contains", _TEST, lambda datum, pattern: pc.match_substring(datum, pattern))
register("replace", _TEXT, lambda datum, old, new: pc.replace_substring(datum, old, new))
register(
    "regexp_replace",
    _pattern(STRING),
    lambda datum, pattern, replacement: pc.replace_substring_regex(datum, pattern, replacement),
)
register("regexp_extract", _pattern(STRING), _extract)
register("split", _text(pa.list_(STRING)), lambda datum, pattern: pc.split_pattern_regex(datum, pattern))
register("split_part", _TEXT, _split_part)
register("instr", _text(pa.int32()), _position)
register("repeat", _TEXT, lambda datum, times: pc.binary_repeat(datum, max(times, 0)))
register("lpad", _TEXT, lambda datum, width, padding: _pad(pc.utf8_lpad, datum, width=width, padding=padding))
register("rpad", _TEXT, lambda datum, width, padding: _pad(pc.utf8_rpad, datum, width=width, padding=padding))
register("field", _field_rule, lambda datum, name: pc.struct_field(datum, name))
register(
    "size",
    takes(lambda each: bool(types.is_list(each) or types.is_large_list(each)), "a list", pa.int32()),
    lambda datum: pc.cast(pc.list_value_length(datum), pa.int32()),
)
