"""Assign the parts of an epoch to workers, by size.

Both functions are pure. The driver may deal a unit out again after a restart, over another number of
workers: the parts in the journal are those before any cut, and which worker reads a row decides nothing
about what the flow computes.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from pointstamp.sources.port import Part

SHARE_BYTES_MIN: Final = 8 * 1024 * 1024
"""Below this size, a share is not worth opening the file and reading its footer once more."""


def shared(parts: Iterable[Part], workers: int, share_bytes_min: int = SHARE_BYTES_MIN) -> tuple[Part, ...]:
    """Every part that may be shared and is large is cut into as many shares as pay, at most one per worker.

    >>> cut = shared([Part("big", 100, (0, 1)), Part("whole", 100), Part("small", 10, (0, 1))], 3, 40)
    >>> [(part.locator, part.share) for part in cut]
    [('big', (0, 2)), ('big', (1, 2)), ('whole', None), ('small', (0, 1))]
    """
    cut: list[Part] = []
    for part in parts:
        ways = min(workers, part.size_bytes // share_bytes_min) if part.share == (0, 1) else 1
        if ways < 2:
            cut.append(part)
        else:
            cut += [msgspec.structs.replace(part, share=(number, ways)) for number in range(ways)]
    return tuple(cut)


def deal(parts: Iterable[Part], workers: int, turn: int) -> list[list[Part]]:
    """The parts of each worker: the largest first, each to the worker with the least to read.

    Equals are dealt starting at worker ``turn``, so that epochs of one small file go around the workers. Of
    parts of equal size the earlier is dealt first, so the same arguments give the same hands. A part with a
    lane goes to the worker of that lane, whatever its size.

    >>> [[part.locator for part in hand] for hand in deal([Part("a", 1), Part("b", 5), Part("c", 3)], 2, 1)]
    [['c', 'a'], ['b']]
    """
    hands: list[list[Part]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for part in sorted(parts, key=lambda part: (part.lane is None, -part.load_bytes)):
        candidates = range(workers) if part.lane is None else [part.lane % workers]
        least = min(
            candidates, key=lambda worker: (loads[worker], len(hands[worker]), (worker - turn) % workers)
        )
        hands[least].append(part)
        loads[least] += part.load_bytes
    return hands
