import numpy as np
import numpy.typing as npt

_Words = npt.NDArray[np.uint64]
_Integers = npt.NDArray[np.int64]
_Positions = npt.NDArray[np.intp]
_Buckets = npt.NDArray[np.int32]

def in_order(words: tuple[_Words, ...]) -> tuple[_Positions, _Positions]: ...
def merge_order(one: tuple[_Words, ...], other: tuple[_Words, ...]) -> tuple[_Positions, _Positions]: ...
def added_up(
    order: _Positions, same: _Positions, weights: list[_Integers], others: list[_Integers] | None = None
) -> tuple[_Positions, list[_Integers]]: ...
def ranges(
    keys: _Words, hashes: _Words, buckets: _Buckets | None, shift: int
) -> tuple[_Positions, _Positions, _Positions]: ...
def found_rows(
    keys: _Words, hashes: _Words, buckets: _Buckets | None, shift: int
) -> tuple[_Positions, _Positions]: ...
def expanded(begins: _Positions, ends: _Positions) -> tuple[_Positions, _Positions]: ...
