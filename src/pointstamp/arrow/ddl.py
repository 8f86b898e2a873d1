"""Parse and print Spark schema strings without Spark: ``"src long, dst long"``.

The grammar is that of Spark's own parser (a list of ``name type [NOT NULL] [COMMENT '...']``, with an
optional colon after the name, names with odd characters in backquotes), and the Arrow types are those that
``pyspark.sql.pandas.types.to_arrow_schema`` gives with the time zone UTC, so that a batch which Spark hands
to a task fits a schema that was declared as a string, without a cast. A comment is kept as the metadata
``comment`` of its field.

Invariant: ``parse_ddl(to_ddl(schema))`` equals ``schema``, comments included and other metadata left out;
what DDL cannot say (a list whose elements are never null, a large string) is refused, never widened.

Not read: intervals, time of day, variant, geometry, collations. Spark lets two columns have one name; here
columns are found by name, so that is refused.

    >>> parse_ddl("src long not null, tags: array<string>").field("src")
    pyarrow.Field<src: int64 not null>
    >>> to_ddl(parse_ddl("SRC BIGINT, `odd name` DECIMAL(10, 2) COMMENT 'in euros'"))
    "SRC long, `odd name` decimal(10,2) comment 'in euros'"
"""

import re
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pointstamp.errors import SchemaError

# The first name of each type is the one that to_ddl writes.
_PLAIN_TYPES: Final[tuple[tuple[pa.DataType, tuple[str, ...]], ...]] = (
    (pa.bool_(), ("boolean",)),
    (pa.int8(), ("byte", "tinyint")),
    (pa.int16(), ("short", "smallint")),
    (pa.int32(), ("int", "integer")),
    (pa.int64(), ("long", "bigint")),
    (pa.float32(), ("float", "real")),
    (pa.float64(), ("double",)),
    (pa.string(), ("string",)),
    (pa.binary(), ("binary",)),
    (pa.date32(), ("date",)),
    (pa.timestamp("us", tz="UTC"), ("timestamp", "timestamp_ltz")),
    (pa.timestamp("us"), ("timestamp_ntz",)),
    (pa.null(), ("void",)),
)
_TYPE_BY_NAME: Final = {name: plain for plain, names in _PLAIN_TYPES for name in names}
_NAME_BY_TYPE: Final = {plain: names[0] for plain, names in _PLAIN_TYPES}
_DECIMALS: Final = ("decimal", "dec", "numeric")
_SIZED_STRINGS: Final = ("varchar", "char", "character")
_KNOWN: Final = ", ".join(
    [*_TYPE_BY_NAME, "decimal(p,s)", "varchar(n)", "char(n)", "array<t>", "map<k,v>", "struct<name: t, ...>"]
)
_DECIMAL_DIGITS_MAX: Final = 38

# Letters of other alphabets need backquotes, as in Spark.
_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<word>[A-Za-z0-9_]+)
    |`(?P<quoted>(?:[^`]|``)*)`
    |(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<mark>[<>(),:])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPE: Final = re.compile(
    r"""\\(?:u([0-9a-fA-F]{4})|U(00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})|([01][0-7]{2})|(.))|''|\"\"""",
    re.DOTALL,
)
_ESCAPED: Final = {
    "0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_",
}  # fmt: skip


def parse_ddl(text: str) -> pa.Schema:
    """The Arrow schema that Spark would use for the columns which this string declares.

    ``struct<...>`` around all columns is allowed, as ``DataFrame.schema.simpleString()`` writes it.
    """
    parser = _Parser(text, _tokens(text))
    whole = parser.takes_word("struct") and parser.takes_mark("<")
    if not whole:
        parser.at = 0
    fields = parser.fields()
    if whole:
        parser.needs_mark(">", "',' or '>'")
    parser.needs_end()
    return pa.schema(fields)


def to_ddl(schema: pa.Schema) -> str:
    """The string that declares these columns: ``parse_ddl`` of it is the same schema."""
    if not len(schema):
        raise SchemaError("a schema without columns cannot be written as a string. Give it a column.")
    return _fields_to_ddl(list(schema), " ", "")


def type_to_ddl(data_type: pa.DataType, where: str = "a value") -> str:
    """Return the DDL name of a type; SchemaError with ``where`` if there is none."""
    if (name := _NAME_BY_TYPE.get(data_type)) is not None:
        return name
    if pa.types.is_decimal128(data_type) and 0 <= data_type.scale <= data_type.precision:
        return f"decimal({data_type.precision},{data_type.scale})"
    if pa.types.is_list(data_type):
        return f"array<{_nullable_to_ddl(data_type.value_field, where + '.element')}>"
    if pa.types.is_map(data_type):
        key = type_to_ddl(data_type.key_type, where + ".key")
        return f"map<{key}, {_nullable_to_ddl(data_type.item_field, where + '.value')}>"
    if pa.types.is_struct(data_type):
        return f"struct<{_fields_to_ddl(list(data_type), ': ', where + '.')}>"
    raise SchemaError(
        f"'{where}' has the type {data_type}, which a schema string cannot express. Cast it to one of: "
        f"{_KNOWN}."
    )


def _fields_to_ddl(fields: list[pa.Field], between: str, where: str) -> str:
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SchemaError(f"two columns have the name '{where}{twice}'. Rename one of them.")
    return ", ".join(_field_to_ddl(field, between, where + field.name) for field in fields)


def _field_to_ddl(field: pa.Field, between: str, where: str) -> str:
    name: str = field.name if _PLAIN_NAME.fullmatch(field.name) else "`" + field.name.replace("`", "``") + "`"
    declared: str = name + between + type_to_ddl(field.type, where)
    if not field.nullable:
        declared += " not null"
    comment = (field.metadata or {}).get(b"comment")
    if comment is not None:
        declared += " comment '" + comment.decode().replace("\\", "\\\\").replace("'", "\\'") + "'"
    return declared


def _nullable_to_ddl(field: pa.Field, where: str) -> str:
    if not field.nullable:
        raise SchemaError(
            f"'{where}' is not nullable, which a schema string cannot express for elements and map "
            "values. Make it nullable, or use the pyarrow.Schema itself."
        )
    return type_to_ddl(field.type, where)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # a group of _TOKEN, or "end"
    text: str
    position: int


def _tokens(text: str) -> list[_Token]:
    found = [
        _Token(match.lastgroup or "other", match[match.lastgroup or 0], match.start())
        for match in _TOKEN.finditer(text)
        if match.lastgroup != "skip"
    ]
    return [*found, _Token("end", "", len(text))]


@dataclass(slots=True)
class _Parser:
    """Recursive descent over the tokens of one schema string; ``at`` is the token that comes next."""

    text: str
    tokens: list[_Token]
    at: int = 0

    def fields(self) -> list[pa.Field]:
        """One or more fields, with commas between them."""
        fields: list[pa.Field] = []
        names: set[str] = set()
        while True:
            name = self.tokens[self.at]
            fields.append(self.field())
            if fields[-1].name in names:
                raise self.error(f"a name other than '{fields[-1].name}', which is taken,", name)
            names.add(fields[-1].name)
            if not self.takes_mark(","):
                return fields

    def field(self) -> pa.Field:
        """A name, a type, and perhaps NOT NULL and a comment."""
        token = self.tokens[self.at]
        # A number is not a name, yet a name may start with a digit.
        if token.kind not in ("word", "quoted") or (token.kind == "word" and token.text.isdigit()):
            raise self.error("a column name", token)
        self.at += 1
        self.takes_mark(":")
        type_token = self.tokens[self.at]
        data_type = self.data_type()
        nullable = True
        if self.takes_word("not"):
            if not self.takes_word("null"):
                raise self.error("NULL after NOT", self.tokens[self.at])
            nullable = False
            if pa.types.is_null(data_type):
                raise self.error("a type other than void, which is always null, before NOT NULL", type_token)
        metadata = {b"comment": self.string().encode()} if self.takes_word("comment") else None
        name = token.text.replace("``", "`") if token.kind == "quoted" else token.text
        return pa.field(name, data_type, nullable, metadata)

    def data_type(self) -> pa.DataType:
        """A type, with its parameters."""
        token = self.tokens[self.at]
        name = token.text.lower() if token.kind == "word" else ""
        self.at += 1
        if name in _TYPE_BY_NAME:
            return _TYPE_BY_NAME[name]
        if name in _DECIMALS:
            return self.decimal_type()
        if name in _SIZED_STRINGS:
            self.needs_mark("(", f"'(' with the length of {name}")
            self.number(f"the length of {name}")
            self.needs_mark(")", "')'")
            return pa.string()
        nested = {"array": self.array_type, "map": self.map_type, "struct": self.struct_type}
        if name in nested:
            self.needs_mark("<", f"'<' after {name}")
            return nested[name]()
        raise self.error("a type", token, f" Known types: {_KNOWN}.")

    def array_type(self) -> pa.DataType:
        """Parse the rest after ``array<``; the element has Spark's name."""
        element = self.data_type()
        self.needs_mark(">", "'>' after the type of the elements")
        return pa.list_(pa.field("element", element))

    def map_type(self) -> pa.DataType:
        """Parse the rest after ``map<``; keys are not nullable."""
        token = self.tokens[self.at]
        key = self.data_type()
        if pa.types.is_null(key):
            raise self.error("a type other than void, which is always null, for the keys", token)
        self.needs_mark(",", "',' after the type of the keys")
        value = self.data_type()
        self.needs_mark(">", "'>' after the type of the values")
        return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value))

    def struct_type(self) -> pa.DataType:
        """Parse the rest after ``struct<``, which may have no fields."""
        if self.takes_mark(">"):
            return pa.struct([])
        fields = self.fields()
        self.needs_mark(">", "',' or '>'")
        return pa.struct(fields)

    def decimal_type(self) -> pa.DataType:
        """Parse precision and scale after ``decimal``; default: (10,0)."""
        precision, scale = 10, 0
        if self.takes_mark("("):
            token = self.tokens[self.at]
            precision = self.number("the number of digits")
            if not 1 <= precision <= _DECIMAL_DIGITS_MAX:
                raise self.error(f"a number of digits between 1 and {_DECIMAL_DIGITS_MAX}", token)
            if self.takes_mark(","):
                token = self.tokens[self.at]
                scale = self.number("the number of digits after the point")
                if scale > precision:
                    raise self.error(f"a number of at most {precision} digits after the point", token)
            self.needs_mark(")", "',' or ')'")
        return pa.decimal128(precision, scale)

    def number(self, expected: str) -> int:
        """The number that comes next."""
        token = self.tokens[self.at]
        if token.kind != "word" or not token.text.isdigit():
            raise self.error(expected, token)
        self.at += 1
        return int(token.text)

    def string(self) -> str:
        """The quoted text that comes next, without its quotes and escapes."""
        token = self.tokens[self.at]
        if token.kind != "string":
            raise self.error("a comment in quotes", token)
        self.at += 1
        quote = token.text[0]
        text = _ESCAPE.sub(lambda match: _unescaped(match, quote), token.text[1:-1])
        # Two \u escapes can make up one character, as in Java.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def takes_word(self, word: str) -> bool:
        """Take this keyword if it comes next."""
        token = self.tokens[self.at]
        taken = token.kind == "word" and token.text.lower() == word
        self.at += taken
        return taken

    def takes_mark(self, mark: str) -> bool:
        """Take this mark if it comes next."""
        token = self.tokens[self.at]
        taken = token.kind == "mark" and token.text == mark
        self.at += taken
        return taken

    def needs_mark(self, mark: str, expected: str) -> None:
        """Take this mark, which must come next."""
        if not self.takes_mark(mark):
            raise self.error(expected, self.tokens[self.at])

    def needs_end(self) -> None:
        """Nothing more may come."""
        if self.tokens[self.at].kind != "end":
            raise self.error("',' or the end", self.tokens[self.at])

    def error(self, expected: str, token: _Token, hint: str = "") -> SchemaError:
        """The error that says what was expected in the place of this token."""
        found = "ends" if token.kind == "end" else f"has {token.text!r}"
        if token.kind == "other":
            hint = f" Put a name with characters other than a-z, 0-9 and _ in `backquotes`.{hint}"
        return SchemaError(
            f"the schema {self.text!r} {found} at position {token.position}, where {expected} was "
            f"expected.{hint}"
        )


def _unescaped(match: re.Match[str], quote: str) -> str:
    short, long, octal, single = match.groups()
    if short or long:
        return chr(int(short or long, 16))
    if octal:
        return chr(int(octal, 8))
    if single:
        return _ESCAPED.get(single, single)
    return quote if match[0] == quote * 2 else match[0]
