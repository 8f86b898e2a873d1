"""Columns and order: which item of a drawing stands in which column, and above or below which others.

The classic layered drawing of a directed graph (Sugiyama, Tagawa & Toda 1981): links that close a cycle are
set aside; every item stands one column right of the last item that leads to it (longest path); a link over
several columns gets a *bend* in each column between; then the order within columns is improved by moving
each cell to the mean position of its neighbours, left and right in turn, and the order with the fewest
crossings is kept.

Here there are no sizes and no coordinates. Deterministic: ties are broken by the order in which items came.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NewType

Cell = NewType("Cell", int)
"""An item, by its number, or a bend of a link, by a number above those of all items."""

_SWEEPS: Final = 8


@dataclass(frozen=True, slots=True)
class LayerLink:
    """A link from one item to another; ports are places on their sides, from 0 at the top to 1."""

    origin: Cell
    target: Cell
    origin_port: float = 0.5
    target_port: float = 0.5
    goes_back: bool = False


@dataclass(frozen=True, slots=True)
class Layers:
    """The columns, each from top to bottom, and for each link its cells; none for a link that goes back."""

    columns: tuple[tuple[Cell, ...], ...]
    chains: tuple[tuple[Cell, ...], ...]


def layered(
    items: int,
    links: Sequence[LayerLink],
    *,
    first: Collection[Cell],
    last: Collection[Cell],
    at_end: Collection[Cell],
) -> Layers:
    """Arrange items in columns: ``first`` in a column before all others, ``last`` in one after them.

    The two are there even if empty: they are the borders of the drawing. Items in ``at_end`` stand in the
    last column of the others.
    """
    links = without_cycles(items, links)
    inner = [cell for cell in map(Cell, range(items)) if cell not in first and cell not in last]
    column_of = _columns(inner, links)
    end = max(column_of.values(), default=0) + 1
    column_of.update(dict.fromkeys(at_end, end - 1))
    column_of.update(dict.fromkeys(first, 0))
    column_of.update(dict.fromkeys(last, end))
    columns: list[list[Cell]] = [[] for _ in range(end + 1)]
    for cell in sorted(column_of):
        columns[column_of[cell]].append(cell)
    chains: list[tuple[Cell, ...]] = []
    bends = items
    for link in links:
        if link.goes_back:
            chains.append(())
            continue
        between = range(column_of[link.origin] + 1, column_of[link.target])
        own = [Cell(bends + number) for number in range(len(between))]
        bends += len(own)
        for column, bend in zip(between, own, strict=True):
            columns[column].append(bend)
        chains.append((link.origin, *own, link.target))
    return Layers(_ordered(columns, links, chains), tuple(chains))


def without_cycles(items: int, links: Sequence[LayerLink]) -> list[LayerLink]:
    """The links, those that close a cycle marked as going back; a link to the same item is one."""
    outgoing: list[list[int]] = [[] for _ in range(items)]
    for number, link in enumerate(links):
        if not link.goes_back:
            outgoing[link.origin].append(number)
    closing: set[int] = set()
    done: set[Cell] = set()
    for start in map(Cell, range(items)):
        if start in done:
            continue
        on_way = {start}
        stack = [(start, iter(outgoing[start]))]
        while stack:
            cell, rest = stack[-1]
            number = next(rest, -1)
            if number < 0:
                stack.pop()
                on_way.discard(cell)
                done.add(cell)
                continue
            target = links[number].target
            if target in on_way:
                closing.add(number)
            elif target not in done:
                on_way.add(target)
                stack.append((target, iter(outgoing[target])))
    return [
        LayerLink(link.origin, link.target, link.origin_port, link.target_port, goes_back=True)
        if number in closing
        else link
        for number, link in enumerate(links)
    ]


def _columns(inner: Iterable[Cell], links: Sequence[LayerLink]) -> dict[Cell, int]:
    """The column of each item: 1, or one more than the last of those that lead to it."""
    column_of = dict.fromkeys(inner, 1)
    incoming: dict[Cell, int] = dict.fromkeys(column_of, 0)
    outgoing: dict[Cell, list[Cell]] = {cell: [] for cell in column_of}
    for link in links:
        if not link.goes_back and link.origin in column_of and link.target in column_of:
            incoming[link.target] += 1
            outgoing[link.origin].append(link.target)
    ready = [cell for cell, count in incoming.items() if not count]
    while ready:
        cell = ready.pop()
        for target in outgoing[cell]:
            column_of[target] = max(column_of[target], column_of[cell] + 1)
            incoming[target] -= 1
            if not incoming[target]:
                ready.append(target)
    return column_of


@dataclass(frozen=True, slots=True)
class _Step:
    """A link between neighbouring columns."""

    left: Cell
    right: Cell
    left_port: float
    right_port: float


def _steps(links: Sequence[LayerLink], chains: Sequence[tuple[Cell, ...]]) -> list[_Step]:
    steps = []
    for link, chain in zip(links, chains, strict=True):
        for number in range(len(chain) - 1):
            left_port = link.origin_port if number == 0 else 0.5
            right_port = link.target_port if number == len(chain) - 2 else 0.5
            steps.append(_Step(chain[number], chain[number + 1], left_port, right_port))
    return steps


def _ordered(
    columns: list[list[Cell]], links: Sequence[LayerLink], chains: Sequence[tuple[Cell, ...]]
) -> tuple[tuple[Cell, ...], ...]:
    """The columns with the fewest crossings that some sweeps to the mean of the neighbours find."""
    steps = _steps(links, chains)
    best = [list(column) for column in columns]
    fewest = _crossings(best, steps)
    for sweep in range(_SWEEPS):
        rightwards = sweep % 2 == 0
        for column in columns if rightwards else reversed(columns):
            position = {cell: number for each in columns for number, cell in enumerate(each)}
            pulls: dict[Cell, list[float]] = {}
            for step in steps:
                if rightwards:
                    pulls.setdefault(step.right, []).append(position[step.left] + step.left_port)
                else:
                    pulls.setdefault(step.left, []).append(position[step.right] + step.right_port)
            wanted = {
                cell: sum(pulled) / len(pulled) if (pulled := pulls.get(cell)) else position[cell] + 0.5
                for cell in column
            }
            column.sort(key=wanted.__getitem__)
        crossings = _crossings(columns, steps)
        if crossings < fewest:
            fewest, best = crossings, [list(column) for column in columns]
    return tuple(map(tuple, best))


def _crossings(columns: Sequence[Sequence[Cell]], steps: Sequence[_Step]) -> int:
    """How many pairs of links between the same two columns cross."""
    column_of = {cell: number for number, column in enumerate(columns) for cell in column}
    position = {cell: number for column in columns for number, cell in enumerate(column)}
    gaps: dict[int, list[tuple[float, float]]] = {}
    for step in steps:
        ends = (position[step.left] + step.left_port, position[step.right] + step.right_port)
        gaps.setdefault(column_of[step.left], []).append(ends)
    return sum(
        (a[0] - b[0]) * (a[1] - b[1]) < 0
        for ends in gaps.values()
        for number, a in enumerate(ends)
        for b in ends[:number]
    )
