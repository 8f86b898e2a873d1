"""Functions of lists, maps and structs.

Elements are compared as Spark does: a NaN equals a NaN and is greater than every number, 0.0 equals -0.0, and
a null is before all values where values inside of lists and structs are compared. A map has each key once;
building one of a key twice, or of a key that is null, is an error.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import SchemaError
from pointstamp.expressions.by_row import by_row, register_by_row
from pointstamp.expressions.signature import Datum, Kernel, Signature, TypeRule, check, register
from pointstamp.expressions.type_rules import BOOLEAN, LONG, STRING

_INT: Final = pa.int32()
_SIZE_MAX: Final = 2**24
"""The longest list that a function makes; Spark would need the memory of a batch for more."""


def list_of(element: pa.DataType) -> pa.DataType:
    """The type of a list."""
    return pa.list_(pa.field("element", element))


def identity_of(value: Any) -> Any:  # noqa: ANN401 - any value
    """A hashable identity, which equal values share."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, list | tuple):
        return tuple(map(identity_of, value))
    if isinstance(value, dict):
        return tuple(map(identity_of, value.values()))
    return value


def order_of(value: Any) -> Any:  # noqa: ANN401 - any value
    """A sort key of values, null first.

    >>> sorted([2.0, float("nan"), None, 1.0], key=order_of)
    [None, 1.0, 2.0, nan]
    """
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, value != value, 0.0 if value != value else value + 0.0)
    if isinstance(value, list | tuple):
        return (1, tuple(map(order_of, value)))
    if isinstance(value, dict):
        return (1, tuple(map(order_of, value.values())))
    return (1, value)


# Building and taking apart.


def _list_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    element = found[0] if found else pa.null()
    for each in found:
        check(each == element, what, f"elements of the type {element}", each)
    return Signature(tuple(found), list_of(element))


def _made_list(*data: Datum) -> Datum:
    count = max((len(each) for each in data if not isinstance(each, pa.Scalar)), default=1)
    arrays = [pa.repeat(each, count) if isinstance(each, pa.Scalar) else each for each in data]
    width = len(arrays)
    if not width:
        return pa.repeat(pa.scalar([], list_of(pa.null())), count)
    rows = np.arange(count)[:, None] + np.arange(width)[None, :] * count
    values = pa.concat_arrays(
        [each.combine_chunks() if isinstance(each, pa.ChunkedArray) else each for each in arrays]
    )
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * width)
    return pa.ListArray.from_arrays(offsets, values.take(pa.array(rows.ravel())), list_of(values.type))


def _struct_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del what
    names = options["names"]
    fields = [pa.field(name, each) for name, each in zip(names, found, strict=True)]
    return Signature(tuple(found), pa.struct(fields), lambda *data, **_: _made_struct(fields, *data))


def _made_struct(fields: list[pa.Field], *data: Datum) -> Datum:
    count = max((len(each) for each in data if not isinstance(each, pa.Scalar)), default=1)
    arrays = [pa.repeat(each, count) if isinstance(each, pa.Scalar) else each for each in data]
    whole = [each.combine_chunks() if isinstance(each, pa.ChunkedArray) else each for each in arrays]
    return pa.StructArray.from_arrays(whole, fields=fields)


def _map_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    keys, items = found[0::2], found[1::2]
    if not keys:
        raise SchemaError(f"{what}: an empty map has no type. Cast it, or use map_from_arrays.")
    key, item = keys[0], items[0]
    check(all(each == key for each in keys) and all(each == item for each in items), what, "one type", key)
    gives = pa.map_(key, item)

    def made(*values: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401 - any value
        return entries_of(zip(values[0::2], values[1::2], strict=True))

    return Signature(tuple(found), gives, lambda *data: by_row(made, gives, False, *data))


def entries_of(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The entries of a map; ArrowInvalid for a key that is null or is there twice."""
    found: dict[Any, tuple[Any, Any]] = {}
    for key, value in pairs:
        if key is None:
            raise pa.ArrowInvalid("a map key cannot be null")
        identity = identity_of(key)
        if identity in found:
            raise pa.ArrowInvalid(f"duplicate map key {key!r}")
        found[identity] = (key + 0.0 if isinstance(key, float) else key, value)
    return list(found.values())


def _rule(
    gives: Callable[[Sequence[pa.DataType]], pa.DataType], *kinds: Callable[[pa.DataType], bool]
) -> Callable[[Callable[..., Any], bool], TypeRule]:
    """The rule of a function of rows whose first arguments are of these kinds."""

    def of(function: Callable[..., Any], is_strict: bool) -> TypeRule:
        def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
            for each, is_kind in zip(found, kinds, strict=False):
                check(is_kind(each), what, "lists or maps", each)
            result = gives(found)

            def called(*row: Any) -> Any:  # noqa: ANN401 - any value
                return function(*row, **options)

            return Signature(
                tuple(found), result, lambda *data, **_: by_row(called, result, is_strict, *data)
            )

        return rule

    return of


def _register(
    name: str,
    function: Callable[..., Any],
    gives: Callable[[Sequence[pa.DataType]], pa.DataType],
    *kinds: Callable[[pa.DataType], bool],
    count: int | None = None,
    most: int | None = None,
    can_fail: bool = False,
    is_strict: bool = True,
) -> None:
    register(
        name,
        _rule(gives, *kinds)(function, is_strict),
        _no_kernel,
        least=len(kinds) if count is None else count,
        most=(len(kinds) if count is None else count) if most is None else (None if most < 0 else most),
        can_fail=can_fail,
        is_strict=is_strict,
        is_by_row=True,
    )


def _no_kernel(*data: Datum) -> Datum:
    raise AssertionError("the rule gives the kernel")


_LIST: Final = types.is_list
_MAP: Final = types.is_map


def _first(found: Sequence[pa.DataType]) -> pa.DataType:
    return found[0]


def _element(found: Sequence[pa.DataType]) -> pa.DataType:
    return found[0].value_type


def _always(kind: pa.DataType) -> Callable[[Sequence[pa.DataType]], pa.DataType]:
    return lambda found: kind


def _contains(values: list[Any], sought: Any) -> bool | None:  # noqa: ANN401 - any value
    wanted = identity_of(sought)
    if any(each is not None and identity_of(each) == wanted for each in values):
        return True
    return None if None in values else False


def _position(values: list[Any], sought: Any) -> int:  # noqa: ANN401 - any value
    wanted = identity_of(sought)
    places = (at for at, each in enumerate(values, 1) if each is not None and identity_of(each) == wanted)
    return next(places, 0)


def _removed(values: list[Any], sought: Any) -> list[Any]:  # noqa: ANN401 - any value
    wanted = identity_of(sought)
    return [each for each in values if each is None or identity_of(each) != wanted]


def _distinct(values: Iterable[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for each in values:
        found.setdefault(identity_of(each), each)
    return list(found.values())


def _intersect(one: list[Any], other: list[Any]) -> list[Any]:
    known = set(map(identity_of, other))
    return [each for each in _distinct(one) if identity_of(each) in known]


def _except(one: list[Any], other: list[Any]) -> list[Any]:
    known = set(map(identity_of, other))
    return [each for each in _distinct(one) if identity_of(each) not in known]


def _overlap(one: list[Any], other: list[Any]) -> bool | None:
    known = {identity_of(each) for each in other if each is not None}
    if any(each is not None and identity_of(each) in known for each in one):
        return True
    return None if one and other and (None in one or None in other) else False


def _extreme(values: list[Any], *, largest: bool) -> Any:  # noqa: ANN401 - any value
    known = [each for each in values if each is not None]
    if not known:
        return None
    return (max if largest else min)(known, key=order_of)


def _join(values: list[Any], mark: str, null: str | None = None) -> str:
    parts = (null if each is None else each for each in values)
    return mark.join(each for each in parts if each is not None)


def _sorted(values: list[Any], ascends: bool) -> list[Any]:
    return sorted(values, key=order_of, reverse=not ascends)


def _sorted_nulls_last(values: list[Any]) -> list[Any]:
    known = sorted((each for each in values if each is not None), key=order_of)
    return known + [None] * (len(values) - len(known))


def _slice(values: list[Any], start: int, length: int) -> list[Any]:
    if not start:
        raise pa.ArrowInvalid("slice: positions begin at 1, got 0")
    if length < 0:
        raise pa.ArrowInvalid(f"slice: the length must be 0 or more, got {length}")
    first = start - 1 if start > 0 else len(values) + start
    return values[first : first + length] if 0 <= first < len(values) else []


def _flatten(values: list[Any]) -> list[Any] | None:
    return None if None in values else [each for part in values for each in part]


def _repeated(value: Any, count: int | None) -> list[Any] | None:  # noqa: ANN401 - any value
    if count is None:
        return None
    if count > _SIZE_MAX:
        raise pa.ArrowInvalid(f"a list of {count} elements is too long")
    return [value] * max(count, 0)


def _inserted(values: list[Any] | None, position: int | None, value: Any) -> list[Any] | None:  # noqa: ANN401
    if values is None or position is None:
        return None
    if not position:
        raise pa.ArrowInvalid("array_insert: positions begin at 1, got 0")
    if abs(position) > _SIZE_MAX:
        raise pa.ArrowInvalid(f"a list of {abs(position)} elements is too long")
    if position > 0:
        filled = values + [None] * (position - 1 - len(values))
        return [*filled[: position - 1], value, *filled[position - 1 :]]
    if -position > len(values):
        return [value, *([None] * (-position - len(values) - 1)), *values]
    at = len(values) + position + 1
    return [*values[:at], value, *values[at:]]


def _sequence(start: int, stop: int, step: int | None = None) -> list[int]:
    by = (1 if start <= stop else -1) if step is None else step
    if (by > 0 and start > stop) or (by < 0 and start < stop) or (not by and start != stop):
        raise pa.ArrowInvalid(f"sequence: {start} does not reach {stop} by steps of {by}")
    if not by:
        return [start]
    count = (stop - start) // by + 1
    if count > _SIZE_MAX:
        raise pa.ArrowInvalid(f"a list of {count} elements is too long")
    return [start + at * by for at in range(count)]


def _at(values: list[Any], position: int, *, fails: bool, default: Any = None) -> Any:  # noqa: ANN401
    """An element by its position from 1, or from the end."""
    if not position:
        raise pa.ArrowInvalid("element_at: positions begin at 1, got 0")
    if abs(position) > len(values):
        if fails:
            raise pa.ArrowInvalid(f"a list of {len(values)} elements has no position {position}")
        return default
    return values[position - 1] if position > 0 else values[position]


def _item(values: list[Any], index: int, *, fails: bool) -> Any:  # noqa: ANN401 - any value
    if not 0 <= index < len(values):
        if fails:
            raise pa.ArrowInvalid(f"a list of {len(values)} elements has no index {index}")
        return None
    return values[index]


def _value(entries: list[tuple[Any, Any]], key: Any) -> Any:  # noqa: ANN401 - any value
    wanted = identity_of(key)
    return next((value for known, value in entries if identity_of(known) == wanted), None)


def _zipped_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    names = options["names"]
    for each in found:
        check(types.is_list(each), what, "lists", each)
    fields = [pa.field(name, each.value_type) for name, each in zip(names, found, strict=True)]
    if len(set(names)) < len(names):
        raise SchemaError(f"{what}: a struct has two fields with the same name.")
    gives = list_of(pa.struct(fields))

    def zipped(*lists: list[Any]) -> list[dict[str, Any]]:
        longest = max(map(len, lists), default=0)
        padded = [each + [None] * (longest - len(each)) for each in lists]
        return [dict(zip(names, row, strict=True)) for row in zip(*padded, strict=True)]

    return Signature(tuple(found), gives, lambda *data, **_: by_row(zipped, gives, True, *data))


def _size_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    (given,) = found
    check(types.is_list(given) or types.is_map(given), what, "a list or a map", given)
    of_null = -1 if options["of_null"] else None

    def kernel(datum: Datum, **_: Any) -> Datum:  # noqa: ANN401 - the options
        array = pa.repeat(datum, 1) if isinstance(datum, pa.Scalar) else datum
        plain = array.cast(list_of(pa.struct([given.key_field, given.item_field]))) if _MAP(given) else array
        lengths = pc.cast(pc.list_value_length(plain), _INT)
        return lengths if of_null is None else pc.fill_null(lengths, of_null)

    return Signature((given,), _INT, kernel)


def _part_rule(place: str) -> TypeRule:
    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del options
        (given,) = found
        check(types.is_map(given), what, "a map", given)
        if place == "entries":
            struct = pa.struct([pa.field("key", given.key_type), pa.field("value", given.item_type)])
            gives = list_of(struct)

            def made(entries: list[tuple[Any, Any]]) -> list[Any]:
                return [{"key": key, "value": value} for key, value in entries]

            return Signature((given,), gives, lambda datum: by_row(made, gives, True, datum))
        at = 0 if place == "keys" else 1
        gives = list_of(given.key_type if not at else given.item_type)
        return Signature(
            (given,),
            gives,
            lambda datum: by_row(lambda entries: [each[at] for each in entries], gives, True, datum),
        )

    return rule


def _map_of(found: Sequence[pa.DataType]) -> pa.DataType:
    return pa.map_(found[0].value_type, found[1].value_type)


def _map_of_entries(found: Sequence[pa.DataType]) -> pa.DataType:
    struct = found[0].value_type
    return pa.map_(struct.field(0).type, struct.field(1).type)


def _from_arrays(keys: list[Any], values: list[Any]) -> list[tuple[Any, Any]]:
    if len(keys) != len(values):
        raise pa.ArrowInvalid(f"a map needs as many keys as values, got {len(keys)} and {len(values)}")
    return entries_of(zip(keys, values, strict=True))


def _from_entries(entries: list[Any]) -> list[tuple[Any, Any]] | None:
    if None in entries:
        return None
    return entries_of(tuple(each.values()) for each in entries)


def _map_concat(*maps: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    return entries_of(each for part in maps for each in part)


def _text_to_map(text: str, between: str, inside: str) -> list[tuple[Any, Any]]:
    pairs = []
    for part in text.split(between):
        key, mark, value = part.partition(inside)
        pairs.append((key, value if mark else None))
    return entries_of(pairs)


def _fields_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    (given,) = found
    check(types.is_list(given) and types.is_struct(given.value_type), what, "a list of structs", given)
    name = options["name"]
    gives = list_of(given.value_type.field(name).type)

    def taken(values: list[Any]) -> list[Any]:
        return [None if each is None else each[name] for each in values]

    return Signature((given,), gives, lambda datum, **_: by_row(taken, gives, True, datum))


def _concat_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    gives = found[0]
    for each in found:
        check(each == gives and types.is_list(each), what, "lists of one type", each)

    def joined(*lists: list[Any]) -> list[Any]:
        return [each for part in lists for each in part]

    return Signature(tuple(found), gives, lambda *data: by_row(joined, gives, True, *data))


def _chosen_rule(fails: bool) -> TypeRule:
    """``elt``: the argument with a number."""

    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del what, options

        def chosen(number: int | None, *texts: str | None) -> str | None:
            if number is None:
                return None
            if not 1 <= number <= len(texts):
                if fails:
                    raise pa.ArrowInvalid(f"elt: there are {len(texts)} values, got the number {number}")
                return None
            return texts[number - 1]

        takes = (_INT, *[STRING] * (len(found) - 1))
        return Signature(takes, STRING, lambda *data: by_row(chosen, STRING, False, *data))

    return rule


_kernel: Kernel = _made_list
register("list", _list_rule, _kernel, least=0, most=None, can_fail=False, is_strict=False)
register("struct", _struct_rule, _no_kernel, least=0, most=None, can_fail=False, is_strict=False)
register("map", _map_rule, _no_kernel, least=0, most=None, is_strict=False, is_by_row=True)
_register("list_contains", _contains, _always(BOOLEAN), _LIST, count=2)
_register("list_position", _position, _always(LONG), _LIST, count=2)
_register("list_remove", _removed, _first, _LIST, count=2)
_register("list_distinct", _distinct, _first, _LIST)
_register("list_union", lambda one, other: _distinct([*one, *other]), _first, _LIST, _LIST)
_register("list_intersect", _intersect, _first, _LIST, _LIST)
_register("list_except", _except, _first, _LIST, _LIST)
_register("list_overlap", _overlap, _always(BOOLEAN), _LIST, _LIST)
_register("list_max", lambda values: _extreme(values, largest=True), _element, _LIST)
_register("list_min", lambda values: _extreme(values, largest=False), _element, _LIST)
_register("list_join", _join, _always(STRING), _LIST, count=2, most=3)
_register("sort_list", _sorted, _first, _LIST, count=2)
_register("sort_list_nulls_last", _sorted_nulls_last, _first, _LIST)
_register("list_slice", _slice, _first, _LIST, count=3, can_fail=True)
_register("flatten", _flatten, _element, _LIST)
_register("list_repeat", _repeated, lambda found: list_of(found[0]), count=2, can_fail=True, is_strict=False)
_register("list_insert", _inserted, _first, _LIST, count=3, can_fail=True, is_strict=False)
_register("sequence", _sequence, lambda found: list_of(found[0]), count=2, most=3, can_fail=True)
_register("element_at", _at, _element, _LIST, count=2, can_fail=True)
_register("list_item", _item, _element, _LIST, count=2, can_fail=True)
_register("map_value", _value, lambda found: found[0].item_type, _MAP, count=2)
register("lists_zip", _zipped_rule, _no_kernel, least=0, most=None, can_fail=False, is_by_row=True)
register("size_of", _size_rule, _no_kernel, can_fail=False, is_strict=False)
for _place in ("keys", "values", "entries"):
    register(f"map_{_place}", _part_rule(_place), _no_kernel, can_fail=False, is_by_row=True)
_register("map_from_lists", _from_arrays, _map_of, _LIST, _LIST, can_fail=True)
_register("map_from_entries", _from_entries, _map_of_entries, _LIST, can_fail=True)
_register("map_concat", _map_concat, _first, _MAP, count=1, most=-1, can_fail=True)
register_by_row("text_to_map", _text_to_map, pa.map_(STRING, STRING), least=3)
register("fields_of_list", _fields_rule, _no_kernel, can_fail=False, is_by_row=True)
register("concat_lists", _concat_rule, _no_kernel, most=None, can_fail=False, is_by_row=True)
register("elt", _chosen_rule(fails=True), _no_kernel, least=2, most=None, is_strict=False, is_by_row=True)
register(
    "elt_or_null",
    _chosen_rule(fails=False),
    _no_kernel,
    least=2,
    most=None,
    can_fail=False,
    is_strict=False,
    is_by_row=True,
)
