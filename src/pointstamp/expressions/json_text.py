"""``to_json``: structs, lists and maps as JSON, with the letters that Spark writes.

A field of a struct that is null is left out, unless the option says otherwise; an element of a list and a
value of a map is written as null. Doubles are written as Java prints them, and those that are not numbers as
strings. Times, bytes, intervals and maps with other keys than strings are rejected.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from pointstamp.errors import SchemaError
from pointstamp.expressions.by_row import by_row
from pointstamp.expressions.function import Signature, register
from pointstamp.expressions.printing import printed
from pointstamp.expressions.typing import STRING

_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_SPECIAL: Final = re.compile(r'["\\\x00-\x1f]')


def quoted(text: str) -> str:
    """A text as JSON.

    >>> quoted("a" + chr(10)) == chr(34) + "a" + chr(92) + "n" + chr(34)
    True
    """
    return '"' + _SPECIAL.sub(lambda match: _SHORT.get(match[0], f"\\u{ord(match[0]):04X}"), text) + '"'


def _writer(kind: pa.DataType, keeps_nulls: bool, what: str) -> Callable[[Any], str]:
    """What writes a value of a type that is not null."""
    if types.is_string(kind):
        return quoted
    if types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if types.is_integer(kind) or types.is_decimal(kind):
        return str
    if types.is_floating(kind):
        return _float_writer(kind)
    if types.is_list(kind):
        element = _writer(kind.value_type, keeps_nulls, what)
        return lambda values: (
            "[" + ",".join("null" if each is None else element(each) for each in values) + "]"
        )
    if types.is_map(kind) and types.is_string(kind.key_type):
        item = _writer(kind.item_type, keeps_nulls, what)
        return lambda pairs: (
            "{"
            + ",".join(f"{quoted(key)}:{'null' if one is None else item(one)}" for key, one in pairs)
            + "}"
        )
    if types.is_struct(kind):
        parts = [(field.name, _writer(field.type, keeps_nulls, what)) for field in kind]
        return lambda value: _struct(value, parts, keeps_nulls)
    raise SchemaError(f"{what}: values of the type {kind} are not written as JSON. Cast them to a string.")


def _float_writer(kind: pa.DataType) -> Callable[[float], str]:
    def written(value: float) -> str:
        (text,) = pa.array([value], kind).cast(STRING).to_pylist()
        shown = printed(text)
        return f'"{shown}"' if shown in ("NaN", "Infinity", "-Infinity") else shown

    return written


def _struct(
    value: Mapping[str, Any], parts: Sequence[tuple[str, Callable[[Any], str]]], keeps_nulls: bool
) -> str:
    written = [
        f"{quoted(name)}:{'null' if value[name] is None else write(value[name])}"
        for name, write in parts
        if keeps_nulls or value[name] is not None
    ]
    return "{" + ",".join(written) + "}"


def _rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    (kind,) = found
    if not types.is_nested(kind):
        raise SchemaError(f"{what} needs a struct, a list or a map, and was given {kind}.")
    write = _writer(kind, options["keeps_nulls"], what)
    return Signature((kind,), STRING, lambda datum, **_: by_row(write, STRING, True, datum))


register("to_json", _rule, lambda datum: datum, can_fail=False, is_by_row=True)
