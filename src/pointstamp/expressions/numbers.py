"""Functions of numbers: trigonometry, number bases, bits, half-even rounding, buckets and ``factorial``."""

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import SchemaError
from pointstamp.expressions.by_row import by_row, register_by_row
from pointstamp.expressions.signature import Datum, Signature, TypeRule, register
from pointstamp.expressions.type_rules import DECIMAL_DIGITS_MAX, DOUBLE, LONG

_M64: Final = 2**64 - 1
_LONG_MAX: Final = 2**63 - 1


def _double_rule(count: int) -> TypeRule:
    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del what, found, options
        return Signature((DOUBLE,) * count, DOUBLE)

    return rule


def _by_numpy(function: Callable[..., Any]) -> Callable[..., Datum]:
    """A function of doubles; null stays null."""

    def kernel(*data: Datum) -> Datum:
        arrays = [pa.repeat(each, 1) if isinstance(each, pa.Scalar) else each for each in data]
        count = max(map(len, arrays))
        missing = np.zeros(count, np.bool_)
        values = []
        for each in arrays:
            missing |= each.is_null().to_numpy(zero_copy_only=False)
            values.append(pc.fill_null(each, 0.0).to_numpy(zero_copy_only=False))
        with np.errstate(all="ignore"):
            found = np.broadcast_to(function(*values), count)
        return pa.array(found.astype(np.float64), DOUBLE, mask=missing)

    return kernel


def _asinh(values: Any) -> Any:  # noqa: ANN401 - an array of doubles
    return np.arcsinh(values)


def _log1p(values: Any) -> Any:  # noqa: ANN401 - an array of doubles
    return np.log1p(values)


def _null_at_most(limit: float, kernel: Callable[..., Datum]) -> Callable[..., Datum]:
    def limited(datum: Datum) -> Datum:
        return kernel(pc.if_else(pc.less_equal(datum, limit), pa.scalar(None, DOUBLE), datum))

    return limited


def _factorial(number: int) -> int | None:
    return math.factorial(number) if 0 <= number <= 20 else None


def _bin(number: int) -> str:
    return f"{number & _M64:b}"


def _conv(text: str, base: int, to: int, *, is_ansi: bool) -> str | None:
    """A number in another base, by way of an unsigned integer of 64 bits."""
    if not 2 <= base <= 36 or not 2 <= abs(to) <= 36:
        return None
    text = text.strip(" ")
    if not text:
        return None
    is_negative = text[0] == "-"
    value = 0
    for letter in text[is_negative:]:
        digit = int(letter, 36) if letter.isascii() and letter.isalnum() else 99
        if digit >= base:
            break
        value = value * base + digit
        if value > _M64:
            if is_ansi:
                raise pa.ArrowInvalid(f"{text!r} has more than 64 bits")
            value = _M64
            break
    is_large = value > _LONG_MAX
    if is_negative and to > 0:
        value = _M64 if is_large else -value & _M64
    sign = ""
    if to < 0 and value > _LONG_MAX:
        value, is_negative = (1 << 64) - value, True
    if is_negative and to < 0:
        sign = "-"
    digits = ""
    while value:
        value, digit = divmod(value, abs(to))
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit] + digits
    return sign + (digits or "0")


def _bucket(value: float, least: float, most: float, count: int) -> int | None:
    if count <= 0 or count == _LONG_MAX or value != value or least == most:
        return None
    if not math.isfinite(least) or not math.isfinite(most):
        return None
    lower, upper = min(least, most), max(least, most)
    if least < most:
        if value < lower:
            return 0
        if value >= upper:
            return count + 1
        return int(float(count) * (value - lower) / (upper - lower)) + 1
    if value > upper:
        return 0
    if value <= lower:
        return count + 1
    return int(float(count) * (upper - value) / (upper - lower)) + 1


def _bround_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    (given,), digits = found, options["digits"]
    gives = given
    if types.is_decimal(given):
        scale = min(given.scale, max(digits, 0))
        whole = given.precision - given.scale + 1
        precision = whole + scale if digits >= 0 else max(whole, 1 - digits)
        gives = pa.decimal128(min(DECIMAL_DIGITS_MAX, precision), scale)
    last = Decimal((0, (1,), -digits))
    rounding = options.get("rounding", ROUND_HALF_EVEN)
    context = Context(prec=400, rounding=rounding)

    def rounded(value: Any) -> Any:  # noqa: ANN401 - a number
        if isinstance(value, float):
            if not math.isfinite(value):
                return value
            text = repr(np.float32(value).item()) if given == pa.float32() else repr(value)
            digits_of = Decimal(str(np.float32(value))) if given == pa.float32() else Decimal(text)
            return float(digits_of.quantize(last, context=context)) + 0.0
        if isinstance(value, int):
            return value if digits >= 0 else int(Decimal(value).quantize(last, context=context))
        found = value.quantize(last, context=context) if value.as_tuple().exponent < -digits else value
        return found if found else abs(found)

    return Signature((given,), gives, lambda datum, **_: by_row(rounded, gives, True, datum))


# Bits.


def _integers_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    for each in found:
        if not types.is_integer(each):
            raise SchemaError(f"{what} needs integers, got {each}.")
    return Signature(tuple(found), found[0])


def _shift_rule(kind: str) -> TypeRule:
    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        signature = _integers_rule(what, found, options)
        bits = signature.gives.bit_width

        def shifted(value: int, count: int) -> int:
            count &= bits - 1  # as Java has it
            if kind == "left":
                wide = value << count
            else:
                wide = (value if kind == "right" else value & ((1 << bits) - 1)) >> count
            wide &= (1 << bits) - 1
            return int(wide - (1 << bits) if wide >> (bits - 1) else wide)

        gives = signature.gives
        return Signature(signature.takes, gives, lambda one, other: by_row(shifted, gives, True, one, other))

    return rule


def _bit_count_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del what, options
    gives = pa.int32()
    return Signature(
        tuple(found),
        gives,
        lambda datum: by_row(lambda value: (int(value) & _M64).bit_count(), gives, True, datum),
    )


def _bit_get_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    bits = _integers_rule(what, found, options).gives.bit_width

    def bit(value: int, place: int) -> int:
        if not 0 <= place < bits:
            raise pa.ArrowInvalid(f"an integer of {bits} bits has no bit {place}")
        return (value >> place) & 1

    return Signature(tuple(found), pa.int8(), lambda one, other: by_row(bit, pa.int8(), True, one, other))


_DOUBLE_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": _asinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "cbrt": np.cbrt, "expm1": np.expm1, "rint": np.rint,
    "cot": lambda values: 1 / np.tan(values), "sec": lambda values: 1 / np.cos(values),
    "csc": lambda values: 1 / np.sin(values),
    "degrees": lambda values: values * (180.0 / math.pi), "radians": lambda values: values / 180.0 * math.pi,
}  # fmt: skip
for _name, _function in _DOUBLE_FUNCTIONS.items():
    register(_name, _double_rule(1), _by_numpy(_function), can_fail=False)
register("log1p", _double_rule(1), _null_at_most(-1.0, _by_numpy(_log1p)), can_fail=False)
register(
    "atan2",
    _double_rule(2),
    _by_numpy(lambda y, x: np.arctan2(y + 0.0, x + 0.0)),
    least=2,
    most=2,
    can_fail=False,
)
register("hypot", _double_rule(2), _by_numpy(np.hypot), least=2, most=2, can_fail=False)
register_by_row("factorial", _factorial, LONG, can_fail=False)
register_by_row("bin", _bin, can_fail=False)
register_by_row("conv", _conv, least=3)
register_by_row("width_bucket", _bucket, LONG, least=4, can_fail=False)
register("bround", _bround_rule, lambda datum: datum, is_by_row=True)
for _name, _bitwise in (("and", pc.bit_wise_and), ("or", pc.bit_wise_or), ("xor", pc.bit_wise_xor)):
    register(f"bit_{_name}", _integers_rule, _bitwise, least=2, most=2, can_fail=False)
register("bit_not", _integers_rule, lambda datum: pc.bit_wise_not(datum), can_fail=False)
for _name in ("left", "right", "right_unsigned"):
    register(
        f"shift_{_name}",
        _shift_rule(_name),
        lambda *data: data,
        least=2,
        most=2,
        can_fail=False,
        is_by_row=True,
    )
register("bit_count", _bit_count_rule, lambda datum: datum, can_fail=False, is_by_row=True)
register("bit_get", _bit_get_rule, lambda *data: data, least=2, most=2, is_by_row=True)
