"""The keys of an arrangement that have the most rows, found by looking at a few hundred places.

All rows of a key lie together in a run, so places that lie evenly in it are within a large key more often
than within a small one: a key that has more than a 512th of all rows in one run is met for certain. Of each
key that is met the rows are counted, by two binary searches in each run. So the work is bounded, whatever is
kept, and the counts are exact, but for rows that will add up to nothing.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from pointstamp.state.keeping import KeyRows
from pointstamp.tables.kept.run import Run

PLACES_MAX: Final = 512
"""So many places are looked at, in all runs together."""

_LETTERS_MAX: Final = 60


def largest_keys(runs: Sequence[Run], most: int) -> list[KeyRows]:
    """Of the keys that were met, those with the most rows, the largest first; keys with one row are none."""
    runs = [run for run in runs if len(run)]
    every = max(1, sum(map(len, runs)) // PLACES_MAX)
    met = [run.words[0][every // 2 :: every] for run in runs]
    if not met:
        return []
    hashes = np.unique(np.concatenate(met))
    rows = np.zeros(len(hashes), np.int64)
    for run in runs:
        keys = run.words[0]
        rows += keys.searchsorted(hashes, "right") - keys.searchsorted(hashes, "left")
    largest = [at for at in np.argsort(-rows, kind="stable")[:most] if rows[at] > 1]
    return [KeyRows(_key(runs, hashes[at]), int(rows[at])) for at in largest]


def _key(runs: Sequence[Run], wanted: np.uint64) -> str:
    """A key as text, from the first run that has it."""
    for run in runs:
        at = int(run.words[0].searchsorted(wanted))
        if at < len(run) and run.words[0][at] == wanted:
            values = [str(value) for value in run.keys_at(np.array([at])).to_pylist()[0].values()]
            text = ", ".join(values)
            return text if len(text) <= _LETTERS_MAX else f"{text[: _LETTERS_MAX - 1]}…"
    raise AssertionError("a hash that was met is in a run")
