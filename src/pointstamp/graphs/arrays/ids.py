"""Map ids of any key type to slots of the operator's arrays.

Whole numbers are found by a ``VertexTable``, a whole array at a time. Ids of another type, such as text, are
found one by one in a dictionary; this costs a tenth of a microsecond each, when they come and when they are
told to another worker, and nothing while one worker goes round by itself.

Invariant: equal ids have equal slots, different ids different ones; slots are given without gaps and stay.
"""

from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from pointstamp.graphs.arrays.slots import Slots
from pointstamp.graphs.arrays.vertices import VertexTable


class IdSlots(Protocol):
    """Slots of ids; grows with what it is asked for."""

    @property
    def count(self) -> int:
        """The number of ids with a slot."""
        ...

    def slots_of(self, ids: pa.Array) -> Slots:
        """The slot of each id; an id that is seen for the first time gets the next one."""
        ...

    def ids_of(self, slots: Slots) -> pa.Array:
        """The ids of some slots."""
        ...


def id_slots(type_: pa.DataType) -> IdSlots:
    """The slots of ids of this type.

    >>> table = id_slots(pa.string())
    >>> table.slots_of(pa.array(["b", "a", "b"])).tolist(), table.ids_of(np.array([1])).to_pylist()
    ([0, 1, 0], ['a'])
    """
    return _Numbers(type_) if pa.types.is_signed_integer(type_) else _Others(type_)


class _Numbers:
    """Whole numbers, by a table of vertices."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self._table = VertexTable()

    @property
    def count(self) -> int:
        return self._table.count

    def slots_of(self, ids: pa.Array) -> Slots:
        return self._table.slots_of(ids.cast(pa.int64()).to_numpy(zero_copy_only=False))

    def ids_of(self, slots: Slots) -> pa.Array:
        return pa.array(self._table.ids[slots]).cast(self._type)


class _Others:
    """Everything else, by a dictionary."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        # Texts, dates and the like are equal in Python if and only if they are the same id.
        self._needs_keys = pa.types.is_floating(type_) or pa.types.is_nested(type_)
        self._slots: dict[Any, int] = {}
        self._ids: list[Any] = []

    @property
    def count(self) -> int:
        return len(self._ids)

    def slots_of(self, ids: pa.Array) -> Slots:
        values = ids.to_pylist()
        keys = list(map(_hashable, values)) if self._needs_keys else values
        for key, value in zip(keys, values, strict=True):
            if self._slots.setdefault(key, len(self._ids)) == len(self._ids):
                self._ids.append(value)
        return np.fromiter((self._slots[key] for key in keys), np.intp, len(keys))

    def ids_of(self, slots: Slots) -> pa.Array:
        return pa.array([self._ids[slot] for slot in slots.tolist()], self._type)


_NOT_A_NUMBER: Final = object()


def _hashable(value: Any) -> Any:  # noqa: ANN401 - an id of any type
    """A key that is equal for values that are the same id: NaN is, and so are 0.0 and -0.0.

    >>> _hashable(float("nan")) == _hashable(-float("nan")), _hashable({"a": [1, 2]})
    (True, (('a', (1, 2)),))
    """
    if isinstance(value, float):
        return value if value == value else _NOT_A_NUMBER
    if isinstance(value, dict):
        return tuple((name, _hashable(part)) for name, part in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value
