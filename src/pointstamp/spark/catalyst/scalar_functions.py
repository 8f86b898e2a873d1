"""Functions of Spark's SQL: classes of Catalyst as functions of the registry.

A class whose children are the arguments of a function of ours stands in a table. Others look at their
arguments: one that must be the same for every row becomes an option, and a type chooses a kernel.
"""

import re
from datetime import datetime, timedelta
from typing import Final

import pyarrow as pa
from pyarrow import types

from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.tree import Call, CastTo, Choice, Expression, Literal
from pointstamp.spark.catalyst.expression_context import ExpressionContext, Handler
from pointstamp.spark.catalyst.rules import walk
from pointstamp.spark.catalyst.scalar_operators import call
from pointstamp.spark.catalyst.trees import TreeNode, sql_name

_UTC_NAMES: Final = frozenset(["UTC", "Etc/UTC", "GMT", "Z", "+00:00"])
_INT_MAX: Final = 2**31 - 1
_DATE_UNITS: Final = frozenset(["week", "month", "mon", "mm", "quarter", "year", "yyyy", "yy"])
_TIME_UNITS: Final = _DATE_UNITS | {"microsecond", "millisecond", "second", "minute", "hour", "day", "dd"}


def _with_options(name: str, *options: str, otherwise: str | None = None) -> Handler:
    """The handler of a class whose later children are options of a function, or arguments of another one."""

    def handler(translator: ExpressionContext, node: TreeNode) -> Expression:
        first, *others = translator.all(node.children)
        found = [translator.constant_of(each) for each in others[: len(options)]]
        if all(each is not None and each[0] is not None for each in found) and not types.is_binary(
            translator.type_of(first)
        ):
            values = [each[0] for each in found if each is not None]
            return Call(name, (first,), dict(zip(options, values, strict=True)))
        if otherwise is None:
            raise translator.rejected(node, f"its arguments {', '.join(options)} must be constants")
        return Call(otherwise, (first, *others))

    return handler


def _instr(translator: ExpressionContext, node: TreeNode) -> Expression:
    text, sought = translator.all(node.children)
    found = translator.constant_of(sought)
    if found is not None and found[0] is not None:
        return Call("instr", (text,), {"text": found[0]})
    return Call("locate", (sought, text, Literal(1, pa.int32())))


def _substring(translator: ExpressionContext, node: TreeNode) -> Expression:
    value, start, length = translator.all(node.children)
    first, count = translator.constant_of(start), translator.constant_of(length)
    if types.is_binary(translator.type_of(value)) or first is None or count is None:
        return Call("substring_by_row", (value, start, length))
    if first[0] is None or count[0] is None:
        return Call("substring_by_row", (value, start, length))
    return Call(
        "substring", (value,), {"start": first[0], "length": None if count[0] == _INT_MAX else count[0]}
    )


def _trim(name: str, side: str) -> Handler:
    def handler(translator: ExpressionContext, node: TreeNode) -> Expression:
        text, *others = translator.all(node.children)
        if not others:
            return Call(name, (text,), {"characters": " "})
        return Call(f"trim_{side}", (text, *others))

    return handler


def _concat(translator: ExpressionContext, node: TreeNode) -> Expression:
    parts = translator.all(node.children)
    if not parts:
        return Literal("", pa.string())
    kinds = [translator.type_of(part) for part in parts]
    if any(map(types.is_list, kinds)):
        return Call("concat_lists", parts)
    if any(map(types.is_binary, kinds)):
        return Call("concat_bytes", parts)
    return Call("concat", parts)


def _concat_ws(translator: ExpressionContext, node: TreeNode) -> Expression:
    separator, *parts = translator.all(node.children)
    found = translator.constant_of(separator)
    has_lists = any(types.is_list(translator.type_of(part)) for part in parts)
    if found is not None and found[0] is not None and parts and not has_lists:
        return Call("concat_ws", tuple(parts), {"separator": found[0]})
    return Call("concat_ws_by_row", (separator, *parts))


def _reverse(translator: ExpressionContext, node: TreeNode) -> Expression:
    value = translator.translate(node.children[0])
    if types.is_string(translator.type_of(value)):
        return Call("reverse", (value,))
    return Call("reverse_by_row", (value,))


def _like(translator: ExpressionContext, node: TreeNode) -> Expression:
    text, pattern = translator.all(node.children)
    escape = node.fields.get("escapeChar")
    if escape is None:
        raise translator.rejected(node, "the plan was not completed, so its escape character is not known")
    return Call("like_by_row", (text, pattern), {"escape": escape})


def _likes(*, is_all: bool, is_not: bool) -> Handler:
    def handler(translator: ExpressionContext, node: TreeNode) -> Expression:
        return Call(
            "likes",
            (translator.translate(node.children[0]),),
            {"patterns": tuple(_patterns(translator, node)), "is_all": is_all, "is_not": is_not},
        )

    return handler


def _patterns(translator: ExpressionContext, node: TreeNode) -> list[str | None]:
    found = node.fields.get("patterns")
    if len(node.children) > 1 or not isinstance(found, list):
        raise translator.rejected(node, "its patterns are not in the plan")
    return found


def _elt(translator: ExpressionContext, node: TreeNode) -> Expression:
    parts = translator.all(node.children)
    if types.is_binary(translator.type_of(parts[1])):
        raise translator.rejected(node, "elt of bytes is not supported")
    return Call("elt" if node.fields["failOnError"] else "elt_or_null", parts)


def _type_of(translator: ExpressionContext, node: TreeNode) -> Expression:
    kind = translator.type_of(translator.translate(node.children[0]))
    if any("collate" in str(each.fields.get("dataType")) or each.kind == "Collate" for each in walk(node)):
        raise translator.rejected(node, "the collation is not kept")
    if types.is_duration(kind):
        raise translator.rejected(node, "the unit of an interval is not stored")
    return Literal(sql_name(kind), pa.string())


# Numbers.


def _bround(translator: ExpressionContext, node: TreeNode) -> Expression:
    digits = translator.constant(node.children[1], "the number of digits")
    return Call("bround", (translator.translate(node.children[0]),), {"digits": digits})


def _conv(translator: ExpressionContext, node: TreeNode) -> Expression:
    return Call("conv", translator.all(node.children), {"is_ansi": node.fields["ansiEnabled"]})


def _unhex(translator: ExpressionContext, node: TreeNode) -> Expression:
    return Call("unhex_checked" if node.fields["failOnError"] else "unhex", translator.all(node.children))


def _unbase64(translator: ExpressionContext, node: TreeNode) -> Expression:
    if node.fields["failOnError"]:
        raise translator.rejected(node, "to_binary of a text in base 64 is not supported")
    return Call("unbase64", translator.all(node.children))


def _rounded_to(rounding: str) -> Handler:
    """``ceil`` and ``floor`` to some digits, which Spark computes with decimals."""

    def handler(translator: ExpressionContext, node: TreeNode) -> Expression:
        value = translator.translate(node.children[0])
        digits = translator.constant(node.children[1], "the number of digits")
        if not types.is_decimal(translator.type_of(value)) or not isinstance(digits, int):
            raise translator.rejected(node, "only decimals are rounded to some digits")
        return Call("bround", (value,), {"digits": digits, "rounding": rounding})

    return handler


def _seeded(name: str) -> Handler:
    def handler(translator: ExpressionContext, node: TreeNode) -> Expression:
        return Call(name, translator.all(node.children), {"seed": int(node.fields["seed"])})

    return handler


# Time.


def _time_plus(name: str) -> Handler:
    """A time and an interval of days and less."""

    def handler(translator: ExpressionContext, node: TreeNode) -> Expression:
        time, length = translator.all(node.children)
        if not types.is_duration(translator.type_of(length)):
            raise translator.rejected(node, "intervals of months and days together are not supported")
        return Call(name, (time, length))

    return handler


def _months(translator: ExpressionContext, node: TreeNode) -> int | None:
    """The months of a constant interval of years and months."""
    if node.kind == "UnaryMinus":
        found = _months(translator, node.children[0])
        return None if found is None else -found
    if node.kind == "Literal" and str(node.fields["dataType"]).startswith("interval"):
        value = node.fields["value"]
        return None if value is None else int(value)
    if node.kind == "MakeYMInterval":
        years, months = translator.child_constants(node, 0, "the months of an interval")
        return None if years is None or months is None else int(years) * 12 + int(months)
    raise translator.rejected(node, "an interval of months must be a constant")


def _months_later(translator: ExpressionContext, node: TreeNode) -> Expression:
    time = translator.translate(node.children[0])
    months = _months(translator, node.children[1])
    if months is None:
        return Literal(None, translator.type_of(time))
    return Call("move_months", (time,), {"months": months})


def _difference(translator: ExpressionContext, node: TreeNode) -> Expression:
    if node.fields.get("legacyInterval"):
        raise translator.rejected(node, "spark.sql.legacy.interval.enabled is not supported")
    return Call("subtract", translator.all(node.children))


def _format(translator: ExpressionContext, node: TreeNode) -> Expression:
    time, pattern = node.children
    return Call("date_format", (translator.translate(time),), {"format": _pattern(translator, pattern)})


def _pattern(translator: ExpressionContext, node: TreeNode) -> str:
    translator.check_time_parser(node)
    found = translator.constant(node, "the pattern of a time")
    if not isinstance(found, str):
        raise translator.rejected(node, "the pattern of a time is null")
    return found


def _parsed(translator: ExpressionContext, node: TreeNode) -> Expression:
    """``to_timestamp`` with a pattern, and ``to_date``, which is a cast of it."""
    text = translator.translate(node.children[0])
    if not types.is_string(translator.type_of(text)):
        raise translator.rejected(node, "only texts are read by a pattern")
    if node.fields["dataType"] != "timestamp":
        raise translator.rejected(node, "a timestamp without a zone is not read by a pattern")
    name = "to_timestamp" if node.fields["failOnError"] else "to_timestamp_or_null"
    return Call(name, (text,), {"format": _pattern(translator, node.children[1])})


def _unix_time(translator: ExpressionContext, node: TreeNode) -> Expression:
    time = translator.translate(node.children[0])
    kind = translator.type_of(time)
    if types.is_string(kind):
        name = "to_unix_timestamp" if node.fields["failOnError"] else "to_unix_timestamp_or_null"
        return Call(name, (time,), {"format": _pattern(translator, node.children[1])})
    if not types.is_timestamp(kind):
        time = CastTo(time, pa.timestamp("us", "UTC"), is_tried=False)
    return Call("unix_timestamp", (time,))


def _from_unix_time(translator: ExpressionContext, node: TreeNode) -> Expression:
    seconds, pattern = node.children
    micros = Call("wrapping_multiply", (translator.translate(seconds), Literal(1_000_000, pa.int64())))
    instant = Call("timestamp_micros", (micros,))
    return Call("date_format", (instant,), {"format": _pattern(translator, pattern)})


def _truncated(name: str, place: int, units: frozenset[str]) -> Handler:
    """A time cut to a unit; null for a unit that is not known."""

    def handler(translator: ExpressionContext, node: TreeNode) -> Expression:
        unit = translator.constant(node.children[place], "the unit")
        time = translator.translate(node.children[1 - place])
        if not isinstance(unit, str) or unit.lower() not in units:
            return Literal(None, pa.date32() if place else pa.timestamp("us", "UTC"))
        return Call(name, (time,), {"unit": unit})

    return handler


def _in_zone(name: str) -> Handler:
    def handler(translator: ExpressionContext, node: TreeNode) -> Expression:
        zone = translator.constant(node.children[1], "the time zone")
        if not isinstance(zone, str):
            raise translator.rejected(node, "the time zone is null")
        return Call(name, (translator.translate(node.children[0]),), {"zone": zone})

    return handler


def _convert_zone(translator: ExpressionContext, node: TreeNode) -> Expression:
    source = (
        translator.session.time_zone
        if node.children[0].kind == "CurrentTimeZone"
        else translator.constant(node.children[0], "the time zone")
    )
    target = translator.constant(node.children[1], "the time zone")
    if not isinstance(source, str) or not isinstance(target, str):
        raise translator.rejected(node, "the time zone is null")
    time = translator.translate(node.children[2])
    return Call("convert_timezone", (time,), {"source": source, "target": target})


def _made_timestamp(translator: ExpressionContext, node: TreeNode) -> Expression:
    options = {"is_clock": node.fields["dataType"] == "timestamp_ntz"}
    made = Call("make_timestamp", translator.all(node.children), options)
    return made if node.fields["failOnError"] else _own_failure(translator, node, made)


def _own_failure(translator: ExpressionContext, node: TreeNode, made: Expression) -> Expression:
    """Null where a function fails; its arguments must not be able to fail themselves."""
    schema = pa.schema(list(translator.types.items()))
    for argument in made.arguments if isinstance(made, Call) else ():
        if compile_expression(argument, schema, "argument").can_fail:
            raise translator.rejected(node, "an argument can fail, which is not null in Spark")
    return Call("try_eval", (made,))


def _time_difference(translator: ExpressionContext, node: TreeNode) -> Expression:
    return Call("timestamp_difference", translator.all(node.children), {"unit": node.fields["unit"]})


def _interval_part(part: str) -> Handler:
    return lambda translator, node: Call("interval_part", translator.all(node.children), {"part": part})


def _whole_units(size: int) -> Handler:
    return lambda translator, node: Call("whole_units", translator.all(node.children), {"size": size})


# Methods of Spark's that a function is replaced by.


def _method(translator: ExpressionContext, node: TreeNode) -> Expression:
    owner = str(node.fields.get("staticObject", "")).removesuffix("$").rsplit(".", 1)[-1]
    name = node.fields["functionName"]
    found = METHODS.get((owner, name))
    if found is None:
        raise translator.rejected(node, "it is not supported in an incremental view")
    return found(translator, node)


def _first_child(translator: ExpressionContext, node: TreeNode) -> Expression:
    return translator.translate(node.children[0])


def _is_valid(translator: ExpressionContext, node: TreeNode) -> Expression:
    (text,) = translator.all(node.children)
    return Call("equal", (text, text))


def _char_padding(translator: ExpressionContext, node: TreeNode) -> Expression:
    """A text of the type CHAR(n), which has n characters or more."""
    text, length = translator.all(node.children)
    is_short = Call("less", (Call("length", (text,)), length))
    return Choice(((is_short, Call("rpad_by_row", (text, length, Literal(" ", pa.string())))),), text)


_JSON_WRITER: Final = re.compile(r"StructsToJsonEvaluator\(Map\((?:ignoreNullFields -> (true|false))?\),")


def _evaluated(translator: ExpressionContext, node: TreeNode) -> Expression:
    """``to_json``, whose options are in the text of an object."""
    writer, *values = node.children
    match = _JSON_WRITER.match(str(writer.fields.get("value"))) if writer.kind == "Literal" else None
    if match is None or len(values) != 1:
        raise translator.rejected(node, "it is not supported in an incremental view")
    return Call("to_json", translator.all(values), {"keeps_nulls": match[1] == "false"})


def _from_json(translator: ExpressionContext, node: TreeNode) -> Expression:
    options = node.fields.get("options")
    if options is None:
        raise translator.rejected(node, "the plan was not completed, so its options are not known")
    if options != "Map()":
        raise translator.rejected(node, f"options are not supported, and it has {options}")
    gives = translator.type(node.fields["schema"], node)
    return Call("from_json", translator.all(node.children), {"gives": gives})


def _json_object(translator: ExpressionContext, node: TreeNode) -> Expression:
    text, path = translator.all(node.children)
    found = translator.constant_of(path)
    if found is not None and isinstance(found[0], str) and ("*" in found[0] or ".." in found[0]):
        raise translator.rejected(node, "a path with a wildcard is not supported")
    return Call("get_json_object", (text, path))


def _format_string(translator: ExpressionContext, node: TreeNode) -> Expression:
    pattern = translator.constant(node.children[0], "the format")
    if not isinstance(pattern, str) or len(node.children) < 2:
        raise translator.rejected(node, "a format without values is not supported")
    return Call("format_string", translator.all(node.children[1:]), {"pattern": pattern})


def _interval_times(translator: ExpressionContext, node: TreeNode) -> Expression:
    interval, number = translator.all(node.children)
    if not types.is_integer(translator.type_of(number)):
        raise translator.rejected(node, "an interval is multiplied by integers only")
    return Call("multiply", (interval, number))


_UNIT_MICROS: Final = {
    "MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000, "WEEK": 604_800_000_000,
}  # fmt: skip


def _timestamp_plus(translator: ExpressionContext, node: TreeNode) -> Expression:
    """``timestampadd``: units up to a week as an interval, and a constant number of longer ones."""
    quantity, time = node.children
    unit = str(node.fields["unit"]).upper()
    instant = translator.translate(time)
    if unit in ("MONTH", "QUARTER", "YEAR"):
        number = translator.constant(quantity, "the number of months")
        if not isinstance(number, int):
            raise translator.rejected(node, "the number of months is null")
        months = number * {"MONTH": 1, "QUARTER": 3, "YEAR": 12}[unit]
        return Call("move_months", (instant,), {"months": months})
    if unit not in _UNIT_MICROS:
        raise translator.rejected(node, f"the unit {unit} is not supported")
    length = Literal(timedelta(microseconds=_UNIT_MICROS[unit]), pa.duration("us"))
    return Call("add", (instant, Call("multiply", (length, translator.translate(quantity)))))


def _time_bucket(translator: ExpressionContext, node: TreeNode) -> Expression:
    """``time_bucket``: a tumbling window that is moved to an origin."""
    size, time, origin = node.children
    length = translator.constant(size, "the size of a bucket")
    start = translator.constant(origin, "the origin of buckets")
    if not isinstance(length, timedelta) or not isinstance(start, datetime):
        raise translator.rejected(node, "buckets of months are not supported")
    instant = translator.translate(time)
    is_clock = translator.type_of(instant).tz is None
    if length >= timedelta(days=1) and not is_clock and translator.session.time_zone not in _UTC_NAMES:
        raise translator.rejected(node, "buckets of days are supported in UTC and for TIMESTAMP_NTZ")
    offset = (start.replace(tzinfo=None) - datetime(1970, 1, 1)) % length  # noqa: DTZ001 - of a clock
    return Call("tumbling", (instant,), {"size": length, "offset": offset})


def _base64(translator: ExpressionContext, node: TreeNode) -> Expression:
    return Call("base64", translator.all(node.children))


def _failing_own(name: str, tried: str | None = None) -> Handler:
    """A class with a flag that says whether it fails; else it is null where it would."""

    def handler(translator: ExpressionContext, node: TreeNode) -> Expression:
        made = Call(name, translator.all(node.children))
        if node.fields["failOnError"]:
            return made
        if tried is not None:
            return Call(tried, made.arguments)
        return _own_failure(translator, node, made)

    return handler


METHODS: Final[dict[tuple[str, str], Handler]] = {
    ("Base64", "encode"): _base64,
    ("Encode", "encode"): call("encode"),
    ("StringDecode", "decode"): call("decode"),
    ("UrlCodec", "encode"): call("url_encode"),
    ("UrlCodec", "decode"): call("url_decode"),
    ("ExpressionImplUtils", "hmac"): call("hmac"),
    ("ByteArrayMethods", "contains"): call("contains_by_row"),
    ("ByteArrayMethods", "startsWith"): call("starts_with_by_row"),
    ("ByteArrayMethods", "endsWith"): call("ends_with_by_row"),
    ("ExpressionImplUtils", "isLuhnNumber"): call("is_luhn"),
    # A string here is valid: bytes that are not cannot be cast to one.
    ("ExpressionImplUtils", "validateUTF8String"): _first_child,
    ("ExpressionImplUtils", "tryValidateUTF8String"): _first_child,
    ("", "makeValid"): _first_child,
    ("", "isValid"): _is_valid,
    ("", "evaluate"): _evaluated,
    ("JsonExpressionUtils", "jsonObjectKeys"): call("json_object_keys"),
    ("JsonExpressionUtils", "lengthOfJsonArray"): call("json_array_length"),
    ("ByteArray", "lpad"): call("lpad_by_row"),
    ("ByteArray", "rpad"): call("rpad_by_row"),
    ("CharVarcharCodegenUtils", "readSidePadding"): _char_padding,
}

FUNCTIONS: Final[dict[str, Handler]] = {
    "TypeOf": _type_of,
    "StaticInvoke": _method,
    "Invoke": _method,
    # Text.
    "Upper": call("upper"),
    "Lower": call("lower"),
    "InitCap": call("init_cap"),
    "Length": call("length"),
    "BitLength": call("bit_length"),
    "OctetLength": call("octet_length"),
    "Reverse": _reverse,
    "Concat": _concat,
    "ConcatWs": _concat_ws,
    "Substring": _substring,
    "StringTrim": _trim("trim", "both"),
    "StringTrimLeft": _trim("ltrim", "left"),
    "StringTrimRight": _trim("rtrim", "right"),
    "StartsWith": _with_options("starts_with", "pattern", otherwise="starts_with_by_row"),
    "EndsWith": _with_options("ends_with", "pattern", otherwise="ends_with_by_row"),
    "Contains": _with_options("contains", "pattern", otherwise="contains_by_row"),
    "Like": _like,
    "LikeAll": _likes(is_all=True, is_not=False),
    "LikeAny": _likes(is_all=False, is_not=False),
    "NotLikeAll": _likes(is_all=True, is_not=True),
    "NotLikeAny": _likes(is_all=False, is_not=True),
    "StringReplace": _with_options("replace", "old", "new", otherwise="replace_by_row"),
    "StringInstr": _instr,
    "StringLocate": call("locate"),
    "StringLPad": call("lpad_by_row"),
    "StringRPad": call("rpad_by_row"),
    "StringRepeat": call("repeat_by_row"),
    "StringTranslate": call("translate"),
    "SubstringIndex": call("substring_index"),
    "Overlay": call("overlay"),
    "FindInSet": call("find_in_set"),
    "Levenshtein": call("levenshtein"),
    "SoundEx": call("soundex"),
    "StringSplitSQL": call("split_plain"),
    "Chr": call("char_of"),
    "Ascii": call("ascii"),
    "Mask": call("mask"),
    "StringSpace": call("space"),
    "Elt": _elt,
    "FormatString": _format_string,
    "JsonToStructs": _from_json,
    "GetJsonObject": _json_object,
    # Numbers.
    **{
        kind: call(name)
        for kind, name in {
            "Sin": "sin",
            "Cos": "cos",
            "Tan": "tan",
            "Asin": "asin",
            "Acos": "acos",
            "Atan": "atan",
            "Sinh": "sinh",
            "Cosh": "cosh",
            "Tanh": "tanh",
            "Asinh": "asinh",
            "Acosh": "acosh",
            "Atanh": "atanh",
            "Atan2": "atan2",
            "Cot": "cot",
            "Sec": "sec",
            "Csc": "csc",
            "Cbrt": "cbrt",
            "Expm1": "expm1",
            "Log1p": "log1p",
            "Rint": "rint",
            "ToDegrees": "degrees",
            "ToRadians": "radians",
            "Hypot": "hypot",
            "Sqrt": "sqrt",
            "Exp": "exp",
            "Log": "ln",
            "Logarithm": "log",
            "Log10": "log10",
            "Log2": "log2",
            "Pow": "power",
            "Signum": "sign",
            "Factorial": "factorial",
            "Bin": "bin",
            "WidthBucket": "width_bucket",
            "BitwiseAnd": "bit_and",
            "BitwiseOr": "bit_or",
            "BitwiseXor": "bit_xor",
            "BitwiseNot": "bit_not",
            "BitwiseCount": "bit_count",
            "BitwiseGet": "bit_get",
            "ShiftLeft": "shift_left",
            "ShiftRight": "shift_right",
            "ShiftRightUnsigned": "shift_right_unsigned",
        }.items()
    },
    "EulerNumber": lambda translator, node: Literal(2.718281828459045, pa.float64()),
    "Pi": lambda translator, node: Literal(3.141592653589793, pa.float64()),
    "BRound": _bround,
    "RoundCeil": _rounded_to("ROUND_CEILING"),
    "RoundFloor": _rounded_to("ROUND_FLOOR"),
    "Conv": _conv,
    # Hashes and encodings.
    "Murmur3Hash": _seeded("hash"),
    "XxHash64": _seeded("xxhash64"),
    "Md5": call("md5"),
    "Sha1": call("sha1"),
    "Sha2": call("sha2"),
    "Crc32": call("crc32"),
    "Hex": call("hex"),
    "Unhex": _unhex,
    "UnBase64": _unbase64,
    # Time.
    **{
        kind: call(name)
        for kind, name in {
            "Year": "year",
            "Quarter": "quarter",
            "Month": "month",
            "DayOfMonth": "day",
            "DayOfWeek": "day_of_week",
            "DayOfYear": "day_of_year",
            "WeekOfYear": "week_of_year",
            "WeekDay": "weekday",
            "DayName": "day_name",
            "MonthName": "month_name",
            "Hour": "hour",
            "Minute": "minute",
            "Second": "second",
            "SecondWithFraction": "second_with_fraction",
            "DateAdd": "date_add",
            "DateSub": "date_sub",
            "DateDiff": "date_diff",
            "AddMonths": "add_months",
            "LastDay": "last_day",
            "MonthsBetween": "months_between",
            "UnixDate": "unix_date",
            "DateFromUnixDate": "date_of_days",
            "SecondsToTimestamp": "timestamp_seconds",
            "MillisToTimestamp": "timestamp_millis",
            "MicrosToTimestamp": "timestamp_micros",
            "UnixMicros": "unix_micros",
            "MakeDTInterval": "make_interval",
        }.items()
    },
    "ExtractANSIIntervalDays": _interval_part("days"),
    "ExtractANSIIntervalHours": _interval_part("hours"),
    "ExtractANSIIntervalMinutes": _interval_part("minutes"),
    "ExtractANSIIntervalSeconds": _interval_part("seconds"),
    "UnixSeconds": _whole_units(1_000_000),
    "UnixMillis": _whole_units(1_000),
    "NextDay": _failing_own("next_day"),
    "MakeDate": _failing_own("make_date"),
    "MakeTimestamp": _made_timestamp,
    "TruncDate": _truncated("trunc", 1, _DATE_UNITS),
    "TruncTimestamp": _truncated("date_trunc_instant", 0, _TIME_UNITS),
    "DateFormatClass": _format,
    "GetTimestamp": _parsed,
    "UnixTimestamp": _unix_time,
    "ToUnixTimestamp": _unix_time,
    "FromUnixTime": _from_unix_time,
    "FromUTCTimestamp": _in_zone("from_utc_timestamp"),
    "ToUTCTimestamp": _in_zone("to_utc_timestamp"),
    "ConvertTimezone": _convert_zone,
    "TimestampDiff": _time_difference,
    "TimestampAddInterval": _time_plus("add"),
    "TimeAdd": _time_plus("add"),
    "DateAddYMInterval": _months_later,
    "TimestampAddYMInterval": _months_later,
    "SubtractTimestamps": _difference,
    "SubtractDates": _difference,
    "MultiplyDTInterval": _interval_times,
    "TimestampAdd": _timestamp_plus,
    "TimeBucket": _time_bucket,
}
