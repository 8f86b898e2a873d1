"""Graphs to measure on, as arrays of edges with weights: skewed, even, like roads, and long."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Edges:
    """Ends and weights of edges; vertices are 0 to ``vertices`` - 1."""

    vertices: int
    src: Ids
    dst: Ids
    weight: Ids

    def __len__(self) -> int:
        return len(self.src)

    def take(self, places: Ids) -> "Edges":
        """Some of the edges."""
        return Edges(self.vertices, self.src[places], self.dst[places], self.weight[places])

    def and_(self, other: "Edges") -> "Edges":
        """The edges of both."""
        ends = (np.concatenate((getattr(self, x), getattr(other, x))) for x in ("src", "dst", "weight"))
        return Edges(self.vertices, *ends)


def r_mat(size: int, seed: int = 0) -> Edges:
    """Chakrabarti, Zhan and Faloutsos (2004), as Graph 500 has it: 16 edges a vertex, and 0 has most."""
    chance = np.random.default_rng(seed)
    scale = max(1, int(np.ceil(np.log2(size))))
    count = 16 * (1 << scale)
    src, dst = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for _ in range(scale):
        draw = chance.random(count)
        src = (src << 1) | (draw >= 0.76)
        dst = (dst << 1) | (((draw >= 0.57) & (draw < 0.76)) | (draw >= 0.95))
    number = np.concatenate(([0], 1 + chance.permutation((1 << scale) - 1)))
    return _weighed(1 << scale, number[src], number[dst], chance)


def uniform(size: int, seed: int = 0) -> Edges:
    """Five edges a vertex, both ends drawn evenly."""
    chance = np.random.default_rng(seed)
    src, dst = chance.integers(0, size, (2, 5 * size))
    return _weighed(size, src, dst, chance)


def grid(size: int, seed: int = 0) -> Edges:
    """A square of streets, in both directions."""
    chance = np.random.default_rng(seed)
    side = int(np.sqrt(size))
    ids = np.arange(side * side).reshape(side, side)
    one = np.concatenate((ids[:, :-1].ravel(), ids[:-1].ravel()))
    other = np.concatenate((ids[:, 1:].ravel(), ids[1:].ravel()))
    return _weighed(side * side, np.concatenate((one, other)), np.concatenate((other, one)), chance)


def chain(size: int, seed: int = 0) -> Edges:
    """One path through all vertices, numbered along."""
    ids = np.arange(size)
    return _weighed(size, ids[:-1], ids[1:], np.random.default_rng(seed))


def _weighed(vertices: int, src: Ids, dst: Ids, chance: np.random.Generator) -> Edges:
    return Edges(vertices, src, dst, chance.integers(1, 100, len(src)))


GRAPHS: dict[str, Callable[[int], Edges]] = {"r-mat": r_mat, "uniform": uniform, "grid": grid, "chain": chain}
