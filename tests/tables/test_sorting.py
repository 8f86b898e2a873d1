"""The order of rows by words of 64 bits is numpy's order, whatever the words have in common.

Families, and what only each can find:
- words that differ in their highest, middle or lowest bits: positions that replace what decides the order;
- words of which two differ in their lowest bits alone: neighbours that are left out of order.
"""

import numpy as np
import pytest

from pointstamp.tables.kept.sorting import by_word


@pytest.mark.parametrize("bits", [0, 3, 7, 40])
@pytest.mark.parametrize("rows", [0, 1, 2_047, 2_048, 5_000])
def test_words_are_in_order_wherever_they_differ(rows: int, bits: int) -> None:
    words = np.random.default_rng(bits).integers(0, 5_000, rows).astype(np.uint64) << np.uint64(bits)
    order = by_word(words)
    assert sorted(order.tolist()) == list(range(rows))
    assert words[order].tolist() == sorted(words.tolist())


def test_a_few_words_that_differ_in_their_lowest_bits_alone_are_in_order() -> None:
    words = np.random.default_rng(1).integers(0, 1 << 63, 4_096).astype(np.uint64) << np.uint64(1)
    words[1_000:1_003] = words[7] + np.array([9, 5, 3], np.uint64)
    assert words[by_word(words)].tolist() == sorted(words.tolist())
