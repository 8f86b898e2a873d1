"""The random choices of a simulated world, drawn in order from one seed.

The answer to choice i depends on the seed, on i and on how many options there are, and on nothing else: not
on the answers before it, nor on the process. An answer of 0 is always the plain one (no delay, no split, the
next worker in turn). So a schedule is a seed and a set of choices that are really made; all others answer 0.
A failing schedule gets shorter by making fewer choices, and what is left fits on a command line.

    >>> plain = Choices(seed=7, kept=frozenset())
    >>> [plain.choose(10) for _ in range(3)]
    [0, 0, 0]
"""

import random
from collections.abc import Iterable, Iterator

_BITS = 32


class Choices:
    """The choices of one world, made one after the other; a ``Chooser`` for workers."""

    def __init__(self, seed: int, kept: frozenset[int] | None = None, *, first: int = 0) -> None:
        self._draw = random.Random(seed).getrandbits  # noqa: S311 - the seed must decide, not chance
        self._kept = kept
        self._drawn = first  # the number of the next choice
        self.made: list[int] = []
        """The choices whose answer was another than the plain one."""

    def choose(self, options: int) -> int:
        """A number from 0 to options - 1; 0 where this choice is not kept."""
        raw = self._draw(_BITS)
        number = self._drawn
        self._drawn = number + 1
        if options < 2 or (self._kept is not None and number not in self._kept):
            return 0
        answer = raw % options
        if answer:
            self.made.append(number)
        return answer

    def happens(self, one_in: int) -> bool:
        """Whether something happens that happens once in so many times; never with 0."""
        return one_in > 0 and self.choose(one_in) == one_in - 1


def ranges_text(numbers: Iterable[int]) -> str:
    """Numbers for a command line, runs of them as ranges.

    >>> ranges_text([7, 1, 2, 3])
    '1-3,7'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def parse_ranges(text: str) -> Iterator[int]:
    """The numbers that ``ranges_text`` wrote; a ValueError for anything else."""
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        yield from range(int(first), int(last if dash else first) + 1)
