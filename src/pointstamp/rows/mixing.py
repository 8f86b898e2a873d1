"""The splitmix64 hash of words and arrays, and its inverse."""

from typing import Final

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]

WORD: Final = (1 << 64) - 1
"""All bits of a word."""
BLOCK_ROWS: Final = 8_192
"""Working block by block keeps what lies between the passes in the nearest caches."""

_G, _F1, _F2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_GAMMA, _FACTOR_1, _FACTOR_2 = map(np.uint64, (_G, _F1, _F2))
# What undoes a factor, modulo 2^64.
_UNDOES_1, _UNDOES_2 = (np.uint64(pow(each, -1, 1 << 64)) for each in (_F1, _F2))
_SHIFT_30, _SHIFT_27, _SHIFT_31 = map(np.uint64, (30, 27, 31))
_SHIFT_60, _SHIFT_54, _SHIFT_62 = map(np.uint64, (60, 54, 62))
# So few words are mixed sooner one by one, in Python, than by calls for all of them.
_FEW_WORDS_MAX: Final = 10


def mixed(word: int) -> int:
    """Splitmix64 of one word."""
    word = (word + _G) & WORD
    word = ((word ^ word >> 30) * _F1) & WORD
    word = ((word ^ word >> 27) * _F2) & WORD
    return word ^ word >> 31


def mix(words: Hashes) -> Hashes:
    """Splitmix64 of every word, in place."""
    if len(words) <= _FEW_WORDS_MAX:
        words[:] = [mixed(word) for word in words.tolist()]
        return words
    scratch = np.empty(min(len(words), BLOCK_ROWS), np.uint64)
    for start in range(0, len(words), BLOCK_ROWS):
        block = words[start : start + BLOCK_ROWS]
        shifted = scratch[: len(block)]
        np.add(block, _GAMMA, out=block)
        np.right_shift(block, _SHIFT_30, out=shifted)
        np.bitwise_xor(block, shifted, out=block)
        np.multiply(block, _FACTOR_1, out=block)
        np.right_shift(block, _SHIFT_27, out=shifted)
        np.bitwise_xor(block, shifted, out=block)
        np.multiply(block, _FACTOR_2, out=block)
        np.right_shift(block, _SHIFT_31, out=shifted)
        np.bitwise_xor(block, shifted, out=block)
    return words


def unmixed(words: Hashes) -> npt.NDArray[np.int64]:
    """The integers of which these are splitmix64.

    >>> unmixed(mix(np.array([0, 7, WORD], np.uint64))).tolist()
    [0, 7, -1]
    """
    undone: Hashes = words ^ (words >> _SHIFT_31) ^ (words >> _SHIFT_62)
    undone *= _UNDOES_2
    undone ^= (undone >> _SHIFT_27) ^ (undone >> _SHIFT_54)
    undone *= _UNDOES_1
    undone ^= (undone >> _SHIFT_30) ^ (undone >> _SHIFT_60)
    undone -= _GAMMA
    return undone.view(np.int64)
