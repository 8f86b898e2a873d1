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
def found_rows(
    keys: _Words, hashes: _Words, buckets: _Buckets | None, shift: int
) -> tuple[_Positions, _Positions]: ...
def expanded(begins: _Positions, ends: _Positions) -> tuple[_Positions, _Positions]: ...
def add_at(totals: _Integers, which: _Positions, values: _Integers, at: _Positions) -> None: ...
def first_places(
    keys: _Words,
    prefixes: _Words,
    hashes: _Words,
    buckets: _Buckets | None,
    shift: int,
    most: int,
    bounds: _Words,
    is_all: npt.NDArray[np.bool_],
) -> tuple[_Positions, _Positions]: ...
def decided(
    bounds: _Words,
    is_all: npt.NDArray[np.bool_],
    wanted: int,
    group: _Positions,
    prefixes: _Words,
    weights: _Integers,
    of: _Positions,
    of_prefixes: _Words,
    of_weights: _Integers,
) -> tuple[_Positions, _Positions, _Positions]: ...
def first_of_groups(
    group: _Positions, is_new: npt.NDArray[np.bool_] | None, weights: _Integers, wanted: int
) -> tuple[_Integers, _Integers]: ...
def ties(one: _Words, other: _Words) -> _Positions: ...
def groups(words: _Words) -> tuple[_Positions, _Positions, _Positions]: ...
def group_sums(values: _Integers, firsts: _Positions) -> _Integers: ...
def by_number(numbers: _Positions, count: int) -> tuple[_Positions, _Positions]: ...
