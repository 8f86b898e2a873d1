"""Heights: how far down each cell of a layered drawing stands, so that links run as straight as they can.

Within a column the order is given. Each cell wants to stand where its links run level; where two want the
same room, the least squares solution under the given order is taken (isotonic regression, pooling adjacent
violators). Columns are visited rightwards and leftwards in turn, and strips that stay empty are closed at the
end. Invariant: cells of a column never overlap, and between two there is at least the space asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pointstamp.show.drawing.layers import Cell

_SWEEPS: Final = 12
_WEIGHT_OF_BEND: Final = 4.0
_WEIGHT_WITHOUT_LINKS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Level:
    """A link between cells of neighbouring columns, with how far below the cells' tops it starts and ends."""

    left: Cell
    right: Cell
    left_offset: float
    right_offset: float


def rows(
    columns: Sequence[Sequence[Cell]],
    heights: Mapping[Cell, float],
    levels: Sequence[Level],
    *,
    bends: frozenset[Cell],
    space: float,
) -> dict[Cell, float]:
    """The top of each cell; the highest is at 0."""
    top = _stacked(columns, heights, space)
    for sweep in range(_SWEEPS):
        rightwards = sweep % 2 == 1
        wanted: dict[Cell, list[float]] = {}
        for column in columns if rightwards else reversed(columns):
            for level in levels:
                if rightwards and level.right in column:
                    place = top[level.left] + level.left_offset - level.right_offset
                    wanted.setdefault(level.right, []).append(place)
                elif not rightwards and level.left in column:
                    place = top[level.right] + level.right_offset - level.left_offset
                    wanted.setdefault(level.left, []).append(place)
            wishes = [_wish(cell, wanted.get(cell), top[cell], cell in bends) for cell in column]
            placed = spread(wishes, [heights[cell] + space for cell in column])
            top.update(zip(column, placed, strict=True))
    return _closed_up(top, heights, space)


def spread(wishes: Sequence[tuple[float, float]], sizes: Sequence[float]) -> list[float]:
    """Places as near as can be to the (place, weight) wished for, in order, each of its size apart.

    >>> spread([(0.0, 1.0), (0.0, 1.0)], [10.0, 10.0])
    [-5.0, 5.0]
    """
    offsets = [sum(sizes[:number]) for number in range(len(sizes))]
    pools: list[tuple[float, float, int]] = []
    for (place, weight), offset in zip(wishes, offsets, strict=True):
        mean, total, members = place - offset, weight, 1
        while pools and pools[-1][0] > mean:
            other, its, count = pools.pop()
            mean = (mean * total + other * its) / (total + its)
            total += its
            members += count
        pools.append((mean, total, members))
    means = [mean for mean, _, members in pools for _ in range(members)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _closed_up(top: Mapping[Cell, float], heights: Mapping[Cell, float], space: float) -> dict[Cell, float]:
    """The same without empty strips: what no link holds together drifts apart while columns are placed."""
    closed: dict[Cell, float] = {}
    shift, bottom = 0.0, -space
    for cell in sorted(top, key=top.__getitem__):
        y = top[cell] - shift
        if not closed or y > bottom + space:
            shift += y - bottom - space
            y = bottom + space
        closed[cell] = y
        bottom = max(bottom, y + heights[cell])
    return closed


def _wish(cell: Cell, places: list[float] | None, now: float, is_bend: bool) -> tuple[float, float]:
    if not places:
        return now, _WEIGHT_WITHOUT_LINKS
    return sum(places) / len(places), _WEIGHT_OF_BEND if is_bend else float(len(places))


def _stacked(
    columns: Sequence[Sequence[Cell]], heights: Mapping[Cell, float], space: float
) -> dict[Cell, float]:
    """Every column stacked by itself, centred on the others."""
    top: dict[Cell, float] = {}
    for column in columns:
        y = -(sum(heights[cell] + space for cell in column) - space) / 2
        for cell in column:
            top[cell] = y
            y += heights[cell] + space
    return top
