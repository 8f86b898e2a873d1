"""Arithmetic and casts that never raise: ``try_add`` and non-ANSI mode.

A ``try_`` function is null where the plain one raises. Without ANSI mode, integers that overflow wrap around,
a division by zero and a decimal without enough digits are null, and a cast gives what Java gives.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_DOWN, Decimal
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.arrow.ddl import parse_ddl
from pointstamp.expressions.casts import cast_datum, cast_nested, tried_datum
from pointstamp.expressions.decimals import WIDE, decimals_by_row
from pointstamp.expressions.signature import Datum, Kernel, Signature, TypeRule, function_of, register
from pointstamp.expressions.type_rules import LONG, is_number, is_text

_AROUND: Final = "".join(map(chr, range(0x21))) + "\x7f"
_JAVA_INTEGER: Final = re.compile(r"([+-]?)(\d*)(?:\.\d*)?", re.ASCII)


def tolerant(kernel: Kernel, gives: pa.DataType) -> Kernel:
    """A kernel that is null where another raises; rows are halved until those that raise are found."""

    def called(*data: Datum) -> Datum:
        try:
            return kernel(*data)
        except (pa.ArrowException, ArithmeticError, ValueError):
            count = max((len(each) for each in data if not isinstance(each, pa.Scalar)), default=1)
            if count <= 1:
                return pa.nulls(count, gives)
        halves = [(0, count // 2), (count // 2, count - count // 2)]
        return pa.concat_arrays(
            [
                _array(
                    called(*[each if isinstance(each, pa.Scalar) else each.slice(*half) for each in data]),
                    half[1],
                )
                for half in halves
            ]
        )

    return called


def _array(datum: Datum, count: int) -> pa.Array:
    if isinstance(datum, pa.Scalar):
        return pa.repeat(datum, count)
    return datum.combine_chunks() if isinstance(datum, pa.ChunkedArray) else datum


def _rule_of(name: str) -> TypeRule:
    """The rule of a function, with a kernel that is null where that function raises."""

    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        base = function_of(name, len(found))
        signature = base.rule(what, found, options)
        kernel = tolerant(partial(signature.kernel or base.kernel, **options), signature.gives)
        return Signature(
            signature.takes,
            signature.gives,
            lambda *data, **_: kernel(*data),
            can_fail=False,
            uses_zone=signature.uses_zone,
        )

    return rule


def _wrapping_rule(name: str, kernel: Kernel) -> TypeRule:
    """The rule of a function, where integers wrap around."""
    tried = _rule_of(name)

    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        signature = tried(what, found, options)
        if all(map(types.is_integer, (*signature.takes, signature.gives))):
            return Signature(
                signature.takes, signature.gives, lambda *data, **_: kernel(*data), can_fail=False
            )
        return signature

    return rule


def _wrapping_quotient(one: Datum, other: Datum) -> Datum:
    """The quotient; null for a division by zero. The least integer, divided by -1, is itself."""
    divisor = pc.if_else(pc.equal(other, 0), pa.scalar(None, LONG), other)
    safe = pc.if_else(pc.equal(divisor, -1), pa.scalar(1, LONG), divisor)
    return pc.if_else(pc.equal(divisor, -1), pc.negate(one), pc.divide(one, safe))


def _pmod_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    signature = function_of("mod", 2).rule(what, found, {})
    mod = signature.kernel or function_of("mod", 2).kernel
    is_tried = options.get("is_tried", False)
    kernel: Kernel = partial(_pmod, mod, signature.gives)
    if types.is_decimal(signature.gives):
        kernel = partial(_checked_pmod, partial(decimals_by_row, _decimal_pmod, signature.gives))
    if is_tried:
        kernel = tolerant(kernel, signature.gives)
    return Signature(
        signature.takes, signature.gives, lambda one, other, **_: kernel(one, other), can_fail=not is_tried
    )


def _pmod(mod: Kernel, gives: pa.DataType, one: Datum, other: Datum) -> Datum:
    """A remainder that is not negative, if the divisor is not."""
    count = max((len(each) for each in (one, other) if not isinstance(each, pa.Scalar)), default=1)
    left = _array(mod(one, other), count)
    divisor = _array(other, count)
    is_negative = pc.fill_null(pc.less(left, pa.scalar(0, left.type)), False)
    if not pc.any(is_negative).as_py():
        return left
    width = pa.int32() if types.is_integer(gives) and gives.bit_width < 32 else gives
    moved = pc.add(pc.cast(left, width), pc.cast(divisor, width))
    fixed = pc.cast(_array(mod(moved, pc.cast(divisor, width)), count), gives)
    return pc.if_else(is_negative, fixed, left)


def _decimal_pmod(one: Decimal, other: Decimal) -> Decimal:
    left = WIDE.remainder(one, other)
    return WIDE.remainder(WIDE.add(left, other), other) if left < 0 else left


def _checked_pmod(kernel: Kernel, one: Datum, other: Datum) -> Datum:
    is_zero = pc.equal(other, pa.scalar(0, other.type))
    if pc.any(_array(pc.and_(pc.fill_null(is_zero, False), pc.is_valid(one)), 1)).as_py():
        raise ZeroDivisionError("remainder of a division by zero")
    return kernel(one, pc.if_else(is_zero, pa.scalar(None, other.type), other))


# Casts without ANSI mode.


def _cast_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    to = parse_ddl(f"value {options['to']}").field(0).type
    cast_datum(pa.array([], found[0]), to) if not _has_no_ansi_cast(found[0], to) else None
    return Signature(tuple(found), to, lambda datum, **_: legacy_cast(datum, to), can_fail=False)


def _has_no_ansi_cast(found: pa.DataType, to: pa.DataType) -> bool:
    return types.is_date(found) and (is_number(to) or types.is_boolean(to))


def legacy_cast(datum: Datum, to: pa.DataType) -> Datum:
    """A datum as another type, as Spark casts without ANSI mode."""
    found = datum.type
    if found == to:
        return datum
    if isinstance(datum, pa.Scalar):
        return legacy_cast(pa.repeat(datum, 1), to)[0]
    if _has_no_ansi_cast(found, to):
        return pa.nulls(len(datum), to)
    if types.is_integer(to):
        if is_text(found):
            return _by_text(datum, to, lambda text: _java_integer(text, to))
        if types.is_floating(found) or types.is_integer(found) or types.is_decimal(found):
            return _java_integers(datum, to)
    if types.is_nested(found) and types.is_nested(to):
        return cast_nested(datum, to, legacy_cast)
    return tried_datum(datum, to)


def _java_integers(datum: Datum, to: pa.DataType) -> Datum:
    """Numbers as integers: floats are cut to the next one that there is, and others wrap around."""
    found = datum.type
    if types.is_decimal(found):
        bits = 2**64
        whole = [
            None if each is None else int(each.to_integral_value(ROUND_DOWN)) for each in datum.to_pylist()
        ]
        longs = [None if each is None else (each + bits // 2) % bits - bits // 2 for each in whole]
        return _java_integers(pa.array(longs, LONG), to)
    missing = pc.is_null(datum).to_numpy(zero_copy_only=False)
    values = pc.fill_null(datum, 0).to_numpy(zero_copy_only=False)
    if types.is_floating(found):
        width = LONG if to == LONG else pa.int32()
        least, most = -(2.0 ** (width.bit_width - 1)), 2.0 ** (width.bit_width - 1)
        plain = np.where(np.isnan(values), 0, values).astype(np.float64)
        inside = (plain >= least) & (plain < most)
        limits = np.iinfo(width.to_pandas_dtype())
        whole_numbers = np.where(inside, plain, 0).astype(np.int64)
        cut = np.where(inside, whole_numbers, np.where(plain < 0, limits.min, limits.max))
        values = cut.astype(np.int64)
    return pa.array(values.astype(np.dtype(to.to_pandas_dtype())), to, mask=missing)


def _by_text(datum: Datum, to: pa.DataType, read: Any) -> Datum:  # noqa: ANN401 - a function of texts
    different = datum.dictionary_encode()
    values = [None if text is None else read(text) for text in different.dictionary.to_pylist()]
    return pa.array(values, to).take(different.indices)


def _java_integer(text: str, to: pa.DataType) -> int | None:
    """The integer of a text; digits after a point are left out."""
    match = _JAVA_INTEGER.fullmatch(text.strip(_AROUND))
    if match is None or not (match[2] or "." in match[0]):
        return None
    if not match[2] and match[0].strip("+-") == ".":
        return None
    number = int(match[2] or 0) * (-1 if match[1] == "-" else 1)
    return number if -(2 ** (to.bit_width - 1)) <= number < 2 ** (to.bit_width - 1) else None


for _name in ("add", "subtract", "multiply"):
    register(f"try_{_name}", _rule_of(_name), pc.add, least=2, most=2, can_fail=False, uses_zone=True)
for _name, _kernel in (("add", pc.add), ("subtract", pc.subtract), ("multiply", pc.multiply)):
    register(
        f"wrapping_{_name}", _wrapping_rule(_name, _kernel), _kernel, least=2, most=2, can_fail=False,
        uses_zone=True,
    )  # fmt: skip
for _name, _kernel in (("negate", pc.negate), ("abs", pc.abs)):
    register(f"wrapping_{_name}", _wrapping_rule(_name, _kernel), _kernel, can_fail=False)
register(
    "wrapping_whole_quotient",
    _wrapping_rule("whole_quotient", _wrapping_quotient),
    _wrapping_quotient,
    least=2,
    most=2,
    can_fail=False,
)
for _name in ("divide", "mod"):
    register(f"{_name}_or_null", _rule_of(_name), pc.divide, least=2, most=2, can_fail=False)
for _name in ("to_timestamp", "to_unix_timestamp"):
    register(f"{_name}_or_null", _rule_of(_name), pc.round, can_fail=False, uses_zone=True)
register("pmod", _pmod_rule, pc.add, least=2, most=2, order=(1, 0))
register("legacy_cast", _cast_rule, lambda datum, to: datum, can_fail=False, uses_zone=True)
