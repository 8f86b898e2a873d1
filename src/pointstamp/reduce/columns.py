"""Convert the state of an aggregate to Arrow arrays and back, exactly.

Numbers are Arrow numbers. What numpy has and Arrow has not (long doubles, complex numbers) is stored as the
bytes of each value. Python objects need more care: an accumulator may say in ``state_types`` what they are,
by an Arrow type or by a type that msgspec knows; an object about which it says nothing must be plain, because
it has to come back exactly as it was. An object that cannot is refused when it is first saved.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.state.saved import ObjectCodec

Column = npt.NDArray[Any]


class ColumnCodec(Protocol):
    """One column of state as an Arrow array; errors name ``who``, an aggregate and its column."""

    @property
    def kind(self) -> pa.DataType:
        """The type of the arrays."""
        ...

    def to_arrow(self, who: str, column: Column) -> pa.Array:
        """The values of a column that does not change any more."""
        ...

    def from_arrow(self, who: str, array: pa.Array) -> Column:
        """The column again."""
        ...


def codecs_of(accumulator: Any, columns: Mapping[str, Column]) -> dict[str, ColumnCodec]:  # noqa: ANN401
    """Return how each column of an accumulator's state is saved."""
    types_of = getattr(accumulator, "state_types", None)
    declared = {} if types_of is None else types_of()
    return {name: _codec_of(column.dtype, declared.get(name, Any)) for name, column in columns.items()}


def _codec_of(dtype: "np.dtype[Any]", declared: Any) -> ColumnCodec:  # noqa: ANN401 - a type of some kind
    if dtype.kind == "O":
        return _ArrowObjects(declared) if isinstance(declared, pa.DataType) else _Objects(declared)
    if dtype.kind in "biuf" and dtype.isnative:
        try:
            return _Numbers(dtype, pa.from_numpy_dtype(dtype))
        except pa.ArrowNotImplementedError:  # a long double
            pass
    return _Bits(dtype)


class _Numbers:
    """Values that Arrow has too."""

    def __init__(self, dtype: "np.dtype[Any]", kind: pa.DataType) -> None:
        self.kind = kind
        self._dtype = dtype

    def to_arrow(self, who: str, column: Column) -> pa.Array:
        return pa.array(column, self.kind)

    def from_arrow(self, who: str, array: pa.Array) -> Column:
        return np.asarray(array.to_numpy(zero_copy_only=False), self._dtype)


class _Bits:
    """Values of which numpy alone knows what their bytes mean."""

    def __init__(self, dtype: "np.dtype[Any]") -> None:
        self.kind = pa.binary(dtype.itemsize)
        self._dtype = dtype

    def to_arrow(self, who: str, column: Column) -> pa.Array:
        data = pa.py_buffer(np.ascontiguousarray(column, self._dtype).view(np.uint8))
        return pa.Array.from_buffers(self.kind, len(column), [None, data])

    def from_arrow(self, who: str, array: pa.Array) -> Column:
        if not len(array):
            return np.empty(0, self._dtype)
        return np.frombuffer(array.buffers()[1], self._dtype, len(array), array.offset * self._dtype.itemsize)


class _ArrowObjects:
    """Python objects that are values of an Arrow type, or None."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind

    def to_arrow(self, who: str, column: Column) -> pa.Array:
        try:
            return pa.array(column, self.kind)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise FlowError(
                f"{who} is declared in state_types() as {self.kind}, but holds another type: {error}. "
                "Declare the type of its value."
            ) from error

    def from_arrow(self, who: str, array: pa.Array) -> Column:
        return np.fromiter(array.to_pylist(), object, len(array))


class _Objects:
    """Python objects of a type that msgspec knows."""

    kind = pa.large_binary()

    def __init__(self, declared: Any) -> None:  # noqa: ANN401 - a type as msgspec takes it
        self._codec = ObjectCodec(declared)

    def to_arrow(self, who: str, column: Column) -> pa.Array:
        return pa.array([self._codec.encoded(who, value) for value in column], self.kind)

    def from_arrow(self, who: str, array: pa.Array) -> Column:
        values = (self._codec.decoded(who, data) for data in array.to_pylist())
        return np.fromiter(values, object, len(array))
