"""Higher-order functions: ``transform``, ``filter``, ``exists``, ``aggregate`` and their relatives.

The elements of all lists of a batch become rows of one batch, for which the function is evaluated at once;
its results are cut into lists again. ``aggregate`` evaluates its function once for each place in the longest
list.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import SchemaError
from pointstamp.expressions.nested import entries_of, identity_of, list_of
from pointstamp.expressions.signature import Datum, Evaluate, HigherOrderFunction, register_higher_order
from pointstamp.expressions.type_rules import BOOLEAN

_INT: Final = pa.int32()
_Places = npt.NDArray[np.int64]
_Types = Sequence[pa.DataType]


class _Elements:
    """The elements of lists, or the entries of maps, one after the other."""

    def __init__(self, array: Datum) -> None:
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        self.rows = array.take(pa.array(np.arange(len(array))))  # without values that no row has
        offsets = self.rows.offsets.to_numpy()
        self.is_null = self.rows.is_null().to_numpy(zero_copy_only=False)
        self.lengths: _Places = np.where(self.is_null, 0, np.diff(offsets)).astype(np.int64)
        self.starts: _Places = offsets[:-1].astype(np.int64)
        self.owners: _Places = np.repeat(np.arange(len(array)), self.lengths)
        firsts = np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)
        self.indexes: _Places = np.arange(len(self.owners)) - firsts
        self.places: _Places = np.repeat(self.starts, self.lengths) + self.indexes

    def of(self, values: pa.Array) -> pa.Array:
        """The values of the elements."""
        return values.take(pa.array(self.places))

    @property
    def values(self) -> pa.Array:
        """The elements of lists."""
        return self.of(self.rows.values)


def _one_array(datum: Datum) -> pa.Array:
    return datum.combine_chunks() if isinstance(datum, pa.ChunkedArray) else datum


def _lists(
    values: pa.Array, lengths: _Places, is_null: npt.NDArray[np.bool_], gives: pa.DataType
) -> pa.Array:
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    mask = pa.array(is_null) if is_null.any() else None
    return pa.ListArray.from_arrays(offsets, values.cast(gives.value_type), gives, mask=mask)


def _maps(
    keys: pa.Array, items: pa.Array, lengths: _Places, is_null: npt.NDArray[np.bool_], gives: pa.DataType
) -> pa.Array:
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    mask = pa.array(is_null) if is_null.any() else None
    return pa.MapArray.from_arrays(offsets, keys, items, gives, mask=mask)


def _of_element(what: str, found: _Types, place: int, count: int) -> _Types:
    del place
    if not types.is_list(found[0]):
        raise SchemaError(f"{what} needs a list, got {found[0]}.")
    return [found[0].value_type, _INT][:count]


def _of_entry(what: str, found: _Types, place: int, count: int) -> _Types:
    del place, count
    if not types.is_map(found[0]):
        raise SchemaError(f"{what} needs a map, got {found[0]}.")
    return [found[0].key_type, found[0].item_type]


def _arguments(elements: _Elements) -> list[pa.Array]:
    return [elements.values, pa.array(elements.indexes, _INT)]


def _transform(data: Sequence[pa.Array], functions: Sequence[Evaluate], gives: pa.DataType) -> Datum:
    elements = _Elements(data[0])
    made = _one_array(functions[0](elements.owners, _arguments(elements)))
    return _lists(made, elements.lengths, elements.is_null, gives)


def _true(datum: Datum) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.fill_null(_one_array(datum), False).to_numpy(zero_copy_only=False)
    return found


def _counts(owners: _Places, holds: npt.NDArray[np.bool_], rows: int) -> _Places:
    found: _Places = np.bincount(owners[holds], minlength=rows).astype(np.int64)
    return found


def _filter(data: Sequence[pa.Array], functions: Sequence[Evaluate], gives: pa.DataType) -> Datum:
    elements = _Elements(data[0])
    holds = _true(functions[0](elements.owners, _arguments(elements)))
    kept = elements.values.filter(pa.array(holds))
    return _lists(kept, _counts(elements.owners, holds, len(data[0])), elements.is_null, gives)


def _quantified(*, decides: bool) -> Any:  # noqa: ANN401 - a kernel
    """Return whether one element, or no element, decides; null if none does and the answer of one is null."""

    def kernel(data: Sequence[pa.Array], functions: Sequence[Evaluate], gives: pa.DataType) -> Datum:
        elements = _Elements(data[0])
        answers = _one_array(functions[0](elements.owners, _arguments(elements)))
        count = len(data[0])
        decided = _counts(elements.owners, _true(answers if decides else pc.invert(answers)), count) > 0
        unknown = _counts(elements.owners, answers.is_null().to_numpy(zero_copy_only=False), count) > 0
        missing = elements.is_null | (unknown & ~decided)
        return pa.array(np.where(decided, decides, not decides), BOOLEAN, mask=missing)

    return kernel


def _accumulators(what: str, found: _Types, place: int, count: int) -> _Types:
    del count
    if not types.is_list(found[0]):
        raise SchemaError(f"{what} needs a list, got {found[0]}.")
    return [found[1]] if place else [found[1], found[0].value_type]


def _aggregate(data: Sequence[pa.Array], functions: Sequence[Evaluate], gives: pa.DataType) -> Datum:
    elements = _Elements(data[0])
    state = _one_array(data[1])
    values = elements.rows.values
    for step in range(int(elements.lengths.max(initial=0))):
        owners = np.flatnonzero(elements.lengths > step)
        taken = values.take(pa.array(elements.starts[owners] + step))
        made = _one_array(functions[0](owners, [state.take(pa.array(owners)), taken]))
        places = np.arange(len(state))
        places[owners] = len(state) + np.arange(len(owners))
        state = pa.concat_arrays([state, made]).take(pa.array(places))
    known = np.flatnonzero(~elements.is_null)
    finished = _one_array(functions[1](known, [state.take(pa.array(known))]))
    places = np.full(len(state), len(known))
    places[known] = np.arange(len(known))
    return pa.concat_arrays([finished, pa.nulls(1, gives)]).take(pa.array(places))


def _of_both(what: str, found: _Types, place: int, count: int) -> _Types:
    del place, count
    if not all(map(types.is_list, found)):
        raise SchemaError(f"{what} needs two lists, got {found}.")
    return [found[0].value_type, found[1].value_type]


def _zip_with(data: Sequence[pa.Array], functions: Sequence[Evaluate], gives: pa.DataType) -> Datum:
    one, other = _Elements(data[0]), _Elements(data[1])
    is_null = one.is_null | other.is_null
    lengths = np.where(is_null, 0, np.maximum(one.lengths, other.lengths)).astype(np.int64)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    indexes = np.arange(len(owners)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    taken = []
    for each in (one, other):
        inside = indexes < each.lengths[owners]
        places = np.where(inside, each.starts[owners] + indexes, 0)
        taken.append(each.rows.values.take(pa.array(places, mask=~inside)))
    made = _one_array(functions[0](owners, taken))
    return _lists(made, lengths, is_null, gives)


def _entries(elements: _Elements) -> list[pa.Array]:
    return [elements.of(elements.rows.keys), elements.of(elements.rows.items)]


def _map_filter(data: Sequence[pa.Array], functions: Sequence[Evaluate], gives: pa.DataType) -> Datum:
    elements = _Elements(data[0])
    keys, items = _entries(elements)
    holds = _true(functions[0](elements.owners, [keys, items]))
    kept = pa.array(holds)
    lengths = _counts(elements.owners, holds, len(data[0]))
    return _maps(keys.filter(kept), items.filter(kept), lengths, elements.is_null, gives)


def _transform_values(data: Sequence[pa.Array], functions: Sequence[Evaluate], gives: pa.DataType) -> Datum:
    elements = _Elements(data[0])
    keys, items = _entries(elements)
    made = _one_array(functions[0](elements.owners, [keys, items]))
    return _maps(keys, made, elements.lengths, elements.is_null, gives)


def _transform_keys(data: Sequence[pa.Array], functions: Sequence[Evaluate], gives: pa.DataType) -> Datum:
    elements = _Elements(data[0])
    keys, items = _entries(elements)
    made = _one_array(functions[0](elements.owners, [keys, items]))
    if made.null_count:
        raise pa.ArrowInvalid("a map key cannot be null")
    start = 0
    names = made.to_pylist()
    for length in elements.lengths:
        entries_of((key, None) for key in names[start : start + length])
        start += length
    return _maps(made, items, elements.lengths, elements.is_null, gives)


def _of_two_maps(what: str, found: _Types, place: int, count: int) -> _Types:
    del place, count
    if not all(map(types.is_map, found)) or found[0].key_type != found[1].key_type:
        raise SchemaError(f"{what} needs two maps with keys of one type, got {found}.")
    return [found[0].key_type, found[0].item_type, found[1].item_type]


def _map_zip_with(data: Sequence[pa.Array], functions: Sequence[Evaluate], gives: pa.DataType) -> Datum:
    one, other = _Elements(data[0]), _Elements(data[1])
    is_null = one.is_null | other.is_null
    keys = [each.rows.keys.to_pylist() for each in (one, other)]
    owners, key_places, item_places = [], [], ([], [])  # type: ignore[var-annotated]
    lengths = np.zeros(len(is_null), np.int64)
    for row in np.flatnonzero(~is_null):
        found: dict[Any, list[int | None]] = {}
        for side, each in enumerate((one, other)):
            for place in range(each.starts[row], each.starts[row] + each.lengths[row]):
                found.setdefault(identity_of(keys[side][place]), [None, None])[side] = int(place)
        lengths[row] = len(found)
        for left, right in found.values():
            owners.append(row)
            key_places.append(left if left is not None else len(keys[0]) + int(right or 0))
            item_places[0].append(left)
            item_places[1].append(right)
    both = pa.concat_arrays([one.rows.keys, other.rows.keys])
    taken = both.take(pa.array(key_places, pa.int64()))
    items = [
        each.rows.items.take(pa.array(places, pa.int64()))
        for each, places in zip((one, other), item_places, strict=True)
    ]
    made = _one_array(functions[0](np.array(owners, np.int64), [taken, *items]))
    return _maps(taken, made, lengths, is_null, gives)


for _function in (
    HigherOrderFunction(
        "transform", _of_element, lambda what, found, bodies: list_of(bodies[0]), _transform
    ),
    HigherOrderFunction(
        "filter", _of_element, lambda what, found, bodies: found[0], _filter, lambda found: [BOOLEAN]
    ),
    HigherOrderFunction(
        "exists", _of_element, lambda what, found, bodies: BOOLEAN, _quantified(decides=True),
        lambda found: [BOOLEAN],
    ),
    HigherOrderFunction(
        "forall", _of_element, lambda what, found, bodies: BOOLEAN, _quantified(decides=False),
        lambda found: [BOOLEAN],
    ),
    HigherOrderFunction(
        "aggregate", _accumulators, lambda what, found, bodies: bodies[1], _aggregate,
        lambda found: [found[1], None],
    ),
    HigherOrderFunction(
        "zip_with", _of_both, lambda what, found, bodies: list_of(bodies[0]), _zip_with
    ),
    HigherOrderFunction(
        "map_filter", _of_entry, lambda what, found, bodies: found[0], _map_filter, lambda found: [BOOLEAN]
    ),
    HigherOrderFunction(
        "transform_values", _of_entry, lambda what, found, bodies: pa.map_(found[0].key_type, bodies[0]),
        _transform_values,
    ),
    HigherOrderFunction(
        "transform_keys", _of_entry, lambda what, found, bodies: pa.map_(bodies[0], found[0].item_type),
        _transform_keys,
    ),
    HigherOrderFunction(
        "map_zip_with", _of_two_maps, lambda what, found, bodies: pa.map_(found[0].key_type, bodies[0]),
        _map_zip_with,
    ),
):  # fmt: skip
    register_higher_order(_function)
