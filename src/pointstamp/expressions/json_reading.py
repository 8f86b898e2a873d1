"""``from_json``, ``get_json_object`` and the like: texts in JSON, read as Spark's parser (Jackson) does.

Texts may be in single quotes, and what stands after the value is not read. A text that is no JSON gives null,
or a struct of nulls, also where Spark keeps fields that it has read before the mistake. A value of another
type than the schema asks for is null in its struct, and makes a list or a map that holds it fail; a key that
is there twice has its last value. Numbers and nested values that are asked for as texts are written again:
``1.50`` is ``1.5``, without spaces between.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation, Overflow
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa
from pyarrow import types

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.by_row import by_row, register_by_row
from pointstamp.expressions.signature import Signature, register
from pointstamp.expressions.type_rules import STRING
from pointstamp.expressions.value_text import printed, quoted

Kind: TypeAlias = Literal["object", "array", "text", "integer", "float", "boolean", "null"]


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A value of JSON: pairs of an object, nodes of an array, a text, or what a number is written as."""

    kind: Kind
    value: Any


class _NotJsonError(ValueError):
    pass


_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS: Final = {
    "true": JsonValue("boolean", True),
    "false": JsonValue("boolean", False),
    "null": JsonValue("null", None),
}
_NO_NUMBERS: Final = {
    "NaN": "nan", "Infinity": "inf", "+Infinity": "inf", "-Infinity": "-inf", "INF": "inf", "+INF": "inf",
    "-INF": "-inf",
}  # fmt: skip
_WORD: Final = re.compile(r"[+-]?[A-Za-z_$][A-Za-z0-9_$]*")
_ESCAPED: Final = {
    '"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_AFTER: Final = frozenset(" \t\r\n,]}")
_DEPTH_MAX: Final = 1_000
"""Jackson's ``StreamReadConstraints``."""


def parsed(text: str, *, is_lenient: bool) -> JsonValue | None:
    """The value that a text begins with; None if it is empty or no JSON.

    A lenient reader takes control characters in texts, and one that is not takes numbers that are none.

    >>> parsed("{'a': 2.50} rest", is_lenient=True)
    JsonValue(kind='object', value=[('a', JsonValue(kind='float', value='2.50'))])
    """
    try:
        at = _after_space(text, 0)
        if at == len(text):
            return None
        return _Reader(text, is_lenient).value(at, 0)[0]
    except _NotJsonError:
        return None


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


@dataclass(frozen=True, slots=True)
class _Reader:
    text: str
    is_lenient: bool

    def value(self, at: int, depth: int) -> tuple[JsonValue, int]:
        """The value at a place, and where it ends."""
        text = self.text
        if at >= len(text) or depth > _DEPTH_MAX:
            raise _NotJsonError
        letter = text[at]
        if letter in "\"'":
            found, end = self.string(at)
            return JsonValue("text", found), end
        if letter == "{":
            return self.object(at, depth)
        if letter == "[":
            return self.array(at, depth)
        match = _NUMBER.match(text, at)
        if match is not None and (match.end() == len(text) or text[match.end()] in _AFTER):
            is_float = match[1] is not None or match[2] is not None
            return JsonValue("float" if is_float else "integer", match[0]), match.end()
        word = _WORD.match(text, at)
        if word is None:
            raise _NotJsonError
        if word[0] in _WORDS:
            return _WORDS[word[0]], word.end()
        if not self.is_lenient and word[0] in _NO_NUMBERS:
            return JsonValue("float", _NO_NUMBERS[word[0]]), word.end()
        raise _NotJsonError

    def object(self, at: int, depth: int) -> tuple[JsonValue, int]:
        """The object that begins at a place."""
        pairs: list[tuple[str, JsonValue]] = []
        at = _after_space(self.text, at + 1)
        if self._is(at, "}"):
            return JsonValue("object", pairs), at + 1
        while True:
            if not (self._is(at, '"') or self._is(at, "'")):
                raise _NotJsonError
            name, at = self.string(at)
            at = _after_space(self.text, at)
            if not self._is(at, ":"):
                raise _NotJsonError
            found, at = self.value(_after_space(self.text, at + 1), depth + 1)
            pairs.append((name, found))
            at = _after_space(self.text, at)
            if self._is(at, "}"):
                return JsonValue("object", pairs), at + 1
            if not self._is(at, ","):
                raise _NotJsonError
            at = _after_space(self.text, at + 1)

    def array(self, at: int, depth: int) -> tuple[JsonValue, int]:
        """The array that begins at a place."""
        nodes: list[JsonValue] = []
        at = _after_space(self.text, at + 1)
        if self._is(at, "]"):
            return JsonValue("array", nodes), at + 1
        while True:
            found, at = self.value(at, depth + 1)
            nodes.append(found)
            at = _after_space(self.text, at)
            if self._is(at, "]"):
                return JsonValue("array", nodes), at + 1
            if not self._is(at, ","):
                raise _NotJsonError
            at = _after_space(self.text, at + 1)

    def string(self, at: int) -> tuple[str, int]:
        """The text that begins with a quote at a place."""
        text, quote = self.text, self.text[at]
        parts: list[str] = []
        at += 1
        while at < len(text):
            letter = text[at]
            if letter == quote:
                return _with_letters("".join(parts)), at + 1
            if letter == "\\":
                letter, at = self._escaped(at)
            elif letter < " " and not self.is_lenient:
                raise _NotJsonError
            parts.append(letter)
            at += 1
        raise _NotJsonError

    def _escaped(self, at: int) -> tuple[str, int]:
        following = self.text[at + 1 : at + 2]
        if following == "u":
            digits = self.text[at + 2 : at + 6]
            if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                raise _NotJsonError
            return chr(int(digits, 16)), at + 5
        if following not in _ESCAPED:
            raise _NotJsonError
        return _ESCAPED[following], at + 1

    def _is(self, at: int, letter: str) -> bool:
        return self.text[at : at + 1] == letter


_ALONE: Final = re.compile("[\ud800-\udfff]")
_FAR: Final = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")


def _with_letters(text: str) -> str:
    """A text in which two surrogates that belong together are one letter."""
    if _ALONE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _quoted(text: str) -> str:
    """A text as Jackson writes it in UTF-8: letters beyond 16 bits as two surrogates."""

    def escaped(match: re.Match[str]) -> str:
        units = match[0].encode("utf-16-be", "surrogatepass").hex().upper()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

    return _FAR.sub(escaped, quoted(text))


def written(node: JsonValue) -> str:
    """A value as text, in the form that Jackson writes.

    >>> found = parsed('{"a": [1, 2.50, null, "x"]}', is_lenient=True)
    >>> written(found)
    '{"a":[1,2.5,null,"x"]}'
    """
    match node.kind:
        case "object":
            return "{" + ",".join(f"{_quoted(name)}:{written(each)}" for name, each in node.value) + "}"
        case "array":
            return "[" + ",".join(map(written, node.value)) + "]"
        case "text":
            return _quoted(node.value)
        case "integer":
            return str(int(node.value))
        case "float":
            (text,) = pa.array([float(node.value)]).cast(STRING).to_pylist()
            shown = printed(text)
            return f'"{shown}"' if shown in ("NaN", "Infinity", "-Infinity") else shown
        case "boolean":
            return "true" if node.value else "false"
    return "null"


def _as_text(node: JsonValue) -> str | None:
    """A value as text; None for a text that cannot be written in UTF-8."""
    if node.kind != "text":
        return written(node)
    return None if _ALONE.search(node.value) else str(node.value)


# Parts of a text.


_STEP: Final = re.compile(r"\s*(?:\.\s*([^.\[*][^.\[]*)|\[\s*'([^']+)'\s*\]|\[\s*([0-9]+)\s*\])")


def _path(path: str) -> list[str | int] | None:
    """The steps of a path; None if it is none.

    >>> _path("$.a[0]['b c']")
    ['a', 0, 'b c']
    """
    path = path.lstrip()
    if not path.startswith("$"):
        return None
    if "*" in path or ".." in path:
        raise FlowError(
            f"get_json_object: the path '{path}' has a wildcard, which is not supported. Use from_json."
        )
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            return None if path[at:].strip() else steps
        steps.append(int(match[3]) if match[3] is not None else match[1] or match[2])
        at = match.end()
    return steps


def _found(node: JsonValue, steps: Sequence[str | int]) -> JsonValue | None:
    if not steps:
        return node
    first, *others = steps
    if isinstance(first, int):
        if node.kind != "array" or first >= len(node.value):
            return None
        return _found(node.value[first], others)
    if node.kind != "object":
        return None
    for name, each in node.value:
        if name == first and each.kind != "null" and (made := _found(each, others)) is not None:
            return made
    return None


def _json_object(text: str, path: str) -> str | None:
    """The part of a text at a path, as text.

    >>> _json_object('{"a": [{"b": 1.50}]}', "$.a[0]")
    '{"b":1.5}'
    """
    steps = _path(path)
    root = None if steps is None else parsed(text, is_lenient=True)
    if root is None or steps is None:
        return None
    found = _found(root, steps)
    return None if found is None else _as_text(found)


def _json_field(text: str, name: str) -> str | None:
    root = parsed(text, is_lenient=True)
    if root is None or root.kind != "object":
        return None
    values = [each for own, each in root.value if own == name and each.kind != "null"]
    return _as_text(values[-1]) if values else None


def _json_keys(text: str) -> list[str] | None:
    root = parsed(text, is_lenient=True)
    return [name for name, _ in root.value] if root is not None and root.kind == "object" else None


def _json_length(text: str) -> int | None:
    root = parsed(text, is_lenient=True)
    return len(root.value) if root is not None and root.kind == "array" else None


# Values of a schema.


_FAILED: Final = object()
"""The result for a value of another type than the requested one."""

Converter: TypeAlias = Callable[[JsonValue], Any]


def _converter(kind: pa.DataType, what: str) -> Converter:
    """Return the converter from nodes to values of a type; SchemaError for an unsupported type."""
    if types.is_struct(kind):
        fields = {field.name: _converter(field.type, what) for field in kind}
        return lambda node: _struct(node, fields)
    if types.is_list(kind):
        element = _converter(kind.value_type, what)
        return lambda node: _all(node, "array", element)
    if types.is_map(kind) and types.is_string(kind.key_type):
        item = _converter(kind.item_type, what)
        return lambda node: _all(node, "object", item)
    if types.is_decimal(kind):
        return _decimal_of(kind)
    for check, converter in _PLAIN:
        if check(kind):
            return lambda node: None if node.kind == "null" else converter(node, kind)
    raise SchemaError(f"{what}: values of type {kind} cannot be read from JSON. Read a string, and cast it.")


def _struct(node: JsonValue, fields: Mapping[str, Converter]) -> Any:  # noqa: ANN401 - a struct or that it failed
    if node.kind == "null":
        return None
    if node.kind != "object":
        return _FAILED
    made: dict[str, Any] = dict.fromkeys(fields)
    for name, each in node.value:
        if name in fields:
            found = fields[name](each)
            made[name] = made[name] if found is _FAILED else found
    return made


def _all(node: JsonValue, wanted: Kind, part: Converter) -> Any:  # noqa: ANN401 - a list or that it failed
    if node.kind == "null":
        return None
    if node.kind != wanted:
        return _FAILED
    if wanted == "array":
        made = [part(each) for each in node.value]
        return _FAILED if any(each is _FAILED for each in made) else made
    pairs = [(name, part(each)) for name, each in node.value]
    return _FAILED if any(each is _FAILED for _, each in pairs) else pairs


def _integer(node: JsonValue, kind: pa.DataType) -> Any:  # noqa: ANN401
    if node.kind != "integer":
        return _FAILED
    value, half = int(node.value), 1 << (kind.bit_width - 1)
    if kind.bit_width == 8 and half <= value < 2 * half:
        return value - 2 * half  # Jackson reads bytes without a sign, too
    return value if -half <= value < half else _FAILED


_SPELLED: Final = {"NaN", "+INF", "+Infinity", "Infinity", "-INF", "-Infinity"}


def _float(node: JsonValue, kind: pa.DataType) -> Any:  # noqa: ANN401
    del kind
    if node.kind in ("integer", "float"):
        return float(node.value)
    if node.kind == "text" and node.value in _SPELLED:
        return float(_NO_NUMBERS[node.value])
    return _FAILED


def _boolean(node: JsonValue, kind: pa.DataType) -> Any:  # noqa: ANN401
    del kind
    return node.value if node.kind == "boolean" else _FAILED


def _text(node: JsonValue, kind: pa.DataType) -> str:
    del kind
    return _ALONE.sub("?", node.value) if node.kind == "text" else written(node)


def _decimal_of(kind: pa.DataType) -> Converter:
    exponent = Decimal(1).scaleb(-kind.scale)
    context = Context(prec=kind.precision, rounding=ROUND_HALF_UP)

    def converter(node: JsonValue) -> Any:  # noqa: ANN401
        if node.kind == "null":
            return None
        if node.kind not in ("integer", "float", "text") or not node.value:
            return _FAILED
        written_as = node.value.replace(",", "") if node.kind == "text" else node.value
        if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", written_as):
            return _FAILED
        try:
            return Decimal(written_as).quantize(exponent, context=context)
        except (InvalidOperation, Overflow):
            return _FAILED

    return converter


_PLAIN: Final[Sequence[tuple[Callable[[pa.DataType], bool], Callable[[JsonValue, pa.DataType], Any]]]] = (
    (types.is_integer, _integer),
    (types.is_floating, _float),
    (types.is_boolean, _boolean),
    (types.is_string, _text),
)


def _from_json_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    gives: pa.DataType = options["gives"]
    convert = _converter(gives, what)
    nothing = {field.name: None for field in gives} if types.is_struct(gives) else None
    takes_one = types.is_list(gives) and types.is_struct(gives.value_type)

    def read(text: str) -> Any:  # noqa: ANN401 - a struct, a list or a map
        root = parsed(text, is_lenient=False)
        if root is None:
            return nothing if text.strip(" \t\r\n") else None
        if takes_one and root.kind == "object":
            root = JsonValue("array", [root])
        made = convert(root)
        return nothing if made is _FAILED or made is None else made

    return Signature((STRING,), gives, lambda datum, **_: by_row(read, gives, True, datum))


register("from_json", _from_json_rule, lambda datum: datum, can_fail=False, is_by_row=True)
register_by_row("get_json_object", _json_object, least=2)
register_by_row("json_field", _json_field, least=2, can_fail=False)
register_by_row("json_object_keys", _json_keys, pa.list_(pa.field("element", STRING)), can_fail=False)
register_by_row("json_array_length", _json_length, pa.int32(), can_fail=False)
