"""Comparing and deciding: ``== < &``, null, membership, and the choice between values.

Null compares as null; ``and`` and ``or`` know three values. A NaN equals every NaN and is greater than
every other number, as SQL engines have it and Arrow has not: whatever groups or sorts rows here says the
same.
"""

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import SchemaError
from pointstamp.expressions.by_row import by_row
from pointstamp.expressions.casts import cast_datum
from pointstamp.expressions.nested import identity_of, order_of
from pointstamp.expressions.signature import Datum, Kernel, Signature, check, register, takes
from pointstamp.expressions.type_rules import BOOLEAN, common_of_all

_NO = False  # no Arrow scalar: to make one here would load pandas wherever this is imported


def _pair(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    met = common_of_all(found, what)
    return Signature((met,) * len(found), BOOLEAN)


def _ordered(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    signature = _pair(what, found, options)
    met = signature.takes[0]
    if types.is_map(met):
        raise SchemaError(f"{what} needs values of an ordered type, got {met}.")
    return signature


def _has_nan(*data: Datum) -> bool:
    return types.is_floating(data[0].type) and any(
        pc.any(pc.is_nan(datum)).as_py() if isinstance(datum, pa.Array) else datum.as_py() != datum.as_py()
        for datum in data
    )


def _equal(one: Datum, other: Datum) -> Datum:
    if types.is_nested(one.type):
        return _equal_nested(one, other)
    if types.is_null(one.type):
        return pa.nulls(max(len(each) if isinstance(each, pa.Array) else 1 for each in (one, other)), BOOLEAN)
    found = pc.equal(one, other)
    if _has_nan(one, other):
        found = pc.or_(found, pc.and_(pc.is_nan(one), pc.is_nan(other)))
    return found


def _equal_nested(one: Datum, other: Datum) -> Datum:
    """Structs and lists value by value; Arrow has no kernel for them."""
    return by_row(lambda a, b: identity_of(a) == identity_of(b), BOOLEAN, True, one, other)


def _less(one: Datum, other: Datum) -> Datum:
    if types.is_nested(one.type):
        return by_row(lambda a, b: order_of(a) < order_of(b), BOOLEAN, True, one, other)
    found = pc.less(one, other)
    if _has_nan(one, other):
        found = pc.or_(found, pc.and_not(pc.is_nan(other), pc.is_nan(one)))
    return found


def _not(kernel: Kernel) -> Kernel:
    return lambda one, other: pc.invert(kernel(one, other))


def _flipped(kernel: Kernel) -> Kernel:
    return lambda one, other: kernel(other, one)


def _equal_null_safe(one: Datum, other: Datum) -> Datum:
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_(both_null, pc.coalesce(_equal(one, other), _NO))


def _is_in(datum: Datum, *values: Datum) -> Datum:
    """True for an equal value; else null if the value or one of the others is null; else false."""
    if not values:
        return pc.if_else(pc.is_null(datum), pa.scalar(None, BOOLEAN), pa.scalar(_NO))
    if all(isinstance(value, pa.Scalar) for value in values) and not types.is_nested(datum.type):
        known = pa.array([value.as_py() for value in values if value.is_valid], datum.type)
        sought = datum
        if types.is_floating(
            datum.type
        ):  # Arrow tells -0.0 from 0.0, which are equal; their sums with 0.0 are not -0.0
            sought, known = (pc.add(each, pa.scalar(0.0, datum.type)) for each in (datum, known))
        found = pc.is_in(sought, value_set=known)
        if len(known) < len(values):
            found = pc.if_else(found, found, pa.scalar(None, BOOLEAN))
        return pc.if_else(pc.is_null(datum), pa.scalar(None, BOOLEAN), found)
    return reduce(pc.or_kleene, (_equal(datum, value) for value in values))


def _choice(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    met = common_of_all(found, what)
    return Signature((met,) * len(found), met)


def _greatest(*data: Datum) -> Datum:
    """The greatest that is not null; a NaN is greater than all."""
    return reduce(lambda a, b: _prefer(a, b, _less(a, b)), data)


def _least_of(*data: Datum) -> Datum:
    return reduce(lambda a, b: _prefer(a, b, _less(b, a)), data)


def _prefer(one: Datum, other: Datum, takes_other: Datum) -> Datum:
    chosen = pc.if_else(pc.coalesce(takes_other, _NO), other, one)
    return pc.if_else(pc.is_null(one), other, pc.if_else(pc.is_null(other), one, chosen))


def _null_if(one: Datum, other: Datum) -> Datum:
    return pc.if_else(pc.coalesce(_equal(one, other), _NO), pa.scalar(None, one.type), one)


def _anything(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del what, options
    return Signature(tuple(found), BOOLEAN)


def _nan_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    check(bool(types.is_floating(found[0])), what, "a float or a double", found[0])
    return Signature(tuple(found), BOOLEAN)


_LOGIC = takes(types.is_boolean, "booleans", BOOLEAN)


def _combined(kernel: Kernel, one: Datum, other: Datum) -> Datum:
    return kernel(_boolean(one), _boolean(other))


def _coalesce(*data: Datum) -> Datum:
    return pc.coalesce(*data)


def _null_if_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """Values are compared as what both are, and the first is given as it is."""
    del options
    met = common_of_all(found, what)
    one = found[0]
    if types.is_null(one) or one == met:
        return Signature((met, met), met)
    return Signature(tuple(found), one, partial(_null_if_as, met))


def _null_if_as(met: pa.DataType, one: Datum, other: Datum) -> Datum:
    is_equal = _equal(cast_datum(one, met), cast_datum(other, met))
    return pc.if_else(pc.coalesce(is_equal, _NO), pa.scalar(None, one.type), one)


def _boolean(datum: Datum) -> Datum:
    return pc.cast(datum, BOOLEAN) if types.is_null(datum.type) else datum


for _name, _rule, _kernel in (
    ("equal", _pair, _equal),
    ("not_equal", _pair, _not(_equal)),
    ("less", _ordered, _less),
    ("greater", _ordered, _flipped(_less)),
    ("less_equal", _ordered, _not(_flipped(_less))),
    ("greater_equal", _ordered, _not(_less)),
):
    register(_name, _rule, _kernel, least=2, most=2, can_fail=False)
register("equal_null_safe", _pair, _equal_null_safe, least=2, most=2, can_fail=False, is_strict=False)
register("is_in", _pair, _is_in, least=1, most=None, can_fail=False, is_strict=False)
register("is_null", _anything, lambda datum: pc.is_null(datum), can_fail=False)
register("is_nan", _nan_rule, lambda datum: pc.coalesce(pc.is_nan(datum), _NO), can_fail=False)
register("not", _LOGIC, lambda datum: pc.invert(_boolean(datum)), can_fail=False)
for _name, _logic in (("and", pc.and_kleene), ("or", pc.or_kleene)):
    register(_name, _LOGIC, partial(_combined, _logic), least=2, most=2, can_fail=False, is_strict=False)
for _name, _variadic, _least in (
    ("coalesce", _coalesce, 1),
    ("greatest", _greatest, 2),
    ("least", _least_of, 2),
):
    register(_name, _choice, _variadic, least=_least, most=None, can_fail=False, is_strict=False)
register("null_if", _null_if_rule, _null_if, least=2, most=2, can_fail=False, is_strict=False)
