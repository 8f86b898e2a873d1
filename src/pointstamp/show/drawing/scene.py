"""One scope of a drawing: items in columns, and the courses of the wires between them.

From left to right there are columns and gaps. A gap has, in this order, room for wires that leave the column
before it to go back, room where forward wires change their height, room for wires that come back to the
column after it, and room for the labels of that column. Below everything are lanes, one for each wire that
goes back, the shortest highest.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pointstamp.show.drawing.layers import Cell, LayerLink, Layers, layered, without_cycles
from pointstamp.show.drawing.ranks import Level, rows

Point: TypeAlias = tuple[float, float]
Piece: TypeAlias = tuple[Point, ...]
"""The next stretch of a wire: a line to a point, or a curve of two or three points that ends in the last."""

SPACE: Final = 22.0
ARROW: Final = 12.0
_BEND_HEIGHT: Final = 6.0
_CURVE_WIDTH: Final = 46.0
_SLOT_WIDTH: Final = 12.0
_LANE_HEIGHT: Final = 14.0
_CORNER: Final = 7.0


@dataclass(frozen=True, slots=True)
class SceneItem:
    """Something that takes room: the box of a node, the frame of a loop, or a place on the border."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class ScenePart:
    """The part of a wire that runs in this scope: items by number, and how far below their tops it ends."""

    origin: int
    origin_offset: float
    target: int
    target_offset: float
    label_width: float = 0.0
    goes_back: bool = False


@dataclass(frozen=True, slots=True)
class DrawnCourse:
    """Where a part of a wire runs."""

    start: Point
    pieces: tuple[Piece, ...]
    goes_back: bool


@dataclass(frozen=True, slots=True)
class Scene:
    """The finished scope: its size, the upper left corner of each item, the course of each part."""

    width: float
    height: float
    corners: tuple[Point, ...]
    courses: tuple[DrawnCourse, ...]


def arrange(
    items: Sequence[SceneItem],
    parts: Sequence[ScenePart],
    *,
    entries: Collection[int] = (),
    exits: Collection[int] = (),
    at_end: Collection[int] = (),
    heading: SceneItem,
    padding: float,
) -> Scene:
    """Lay out one scope; entries are places on its left border, exits on its right."""
    return _Arrangement(items, parts, entries, exits, at_end, heading, padding).scene()


class _Arrangement:
    """A scope while it is laid out."""

    def __init__(
        self,
        items: Sequence[SceneItem],
        parts: Sequence[ScenePart],
        entries: Collection[int],
        exits: Collection[int],
        at_end: Collection[int],
        heading: SceneItem,
        padding: float,
    ) -> None:
        self.items = items
        self.parts = parts
        self.heading = heading
        self.padding = padding
        links = without_cycles(len(items), [_link(items, part) for part in parts])
        self.goes_back = [link.goes_back for link in links]
        self.layers: Layers = layered(
            len(items),
            links,
            first={Cell(item) for item in entries},
            last={Cell(item) for item in exits},
            at_end={Cell(item) for item in at_end},
        )
        self.column_of = {
            cell: number for number, column in enumerate(self.layers.columns) for cell in column
        }
        self.top = self._tops()
        self.lanes = self._lanes()
        self.left, self.widths = self._columns()
        below = max((y + self._height(cell) for cell, y in self.top.items()), default=0.0)
        self.bottom = below + self.heading.height

    def scene(self) -> Scene:
        """The finished scope."""
        width = max(self.left[-1] + self.widths[-1], self.heading.width)
        height = self.bottom + _LANE_HEIGHT * len(self.lanes) + self.padding
        corners = [self._corner(Cell(number)) for number in range(len(self.items))]
        # A heading wider than all columns moves the right border, and with it what stands on it.
        for cell in self.layers.columns[-1]:
            corners[cell] = (width, corners[cell][1])
        courses = [
            self._course_back(number) if self.goes_back[number] else self._course(number, width)
            for number in range(len(self.parts))
        ]
        return Scene(width, height, tuple(corners), tuple(courses))

    # Where things stand.

    def _height(self, cell: Cell) -> float:
        return self.items[cell].height if cell < len(self.items) else _BEND_HEIGHT

    def _corner(self, cell: Cell) -> Point:
        column = self.column_of[cell]
        free = self.widths[column] - self.items[cell].width
        return self.left[column] + free / 2, self.top[cell] + self.heading.height

    def _tops(self) -> dict[Cell, float]:
        cells = [cell for column in self.layers.columns for cell in column]
        levels = []
        for part, chain in zip(self.parts, self.layers.chains, strict=True):
            for number in range(len(chain) - 1):
                left = part.origin_offset if number == 0 else _BEND_HEIGHT / 2
                right = part.target_offset if number == len(chain) - 2 else _BEND_HEIGHT / 2
                levels.append(Level(chain[number], chain[number + 1], left, right))
        return rows(
            self.layers.columns,
            {cell: self._height(cell) for cell in cells},
            levels,
            bends=frozenset(cell for cell in cells if cell >= len(self.items)),
            space=SPACE,
        )

    def _columns(self) -> tuple[list[float], list[float]]:
        """The left border and the width of each column; the first stands on the left border of the scope."""
        columns = self.layers.columns
        widths = [
            max((self.items[cell].width for cell in column if cell < len(self.items)), default=0.0)
            for column in columns
        ]
        left = [0.0]
        for number in range(len(columns) - 1):
            left.append(left[-1] + widths[number] + self._gap_width(number))
        return left, widths

    def _gap_width(self, column: int) -> float:
        bent = any(
            self.column_of[chain[0]] <= column < self.column_of[chain[-1]]
            for chain in self.layers.chains
            if chain
        )
        curve = _CURVE_WIDTH if bent else self.padding
        slots = len(self._leaving(column)) + len(self._coming(column + 1))
        return curve + _SLOT_WIDTH * slots + self._label_width(column + 1)

    def _label_width(self, column: int) -> float:
        ending = [part for part in self.parts if self.column_of[Cell(part.target)] == column]
        return max((part.label_width + ARROW for part in ending if self._has_arrow(part)), default=0.0)

    def _has_arrow(self, part: ScenePart) -> bool:
        return self.items[part.target].width > 0

    # Wires that go back.

    def _lanes(self) -> list[int]:
        """The parts that go back, in the order of their lanes: the shortest first, and to the lowest item."""
        going = [number for number, goes_back in enumerate(self.goes_back) if goes_back]
        return sorted(going, key=self._way_back)

    def _way_back(self, number: int) -> tuple[int, float]:
        """Columns, and then height: so that wires that go back to one column do not cross."""
        part = self.parts[number]
        origin, target = Cell(part.origin), Cell(part.target)
        return self.column_of[origin] - self.column_of[target], -self.top[target]

    def _leaving(self, column: int) -> list[int]:
        return [each for each in self.lanes if self.column_of[Cell(self.parts[each].origin)] == column]

    def _coming(self, column: int) -> list[int]:
        return [each for each in self.lanes if self.column_of[Cell(self.parts[each].target)] == column]

    def _course_back(self, number: int) -> DrawnCourse:
        """Right, down into its lane, back, up, and right again."""
        part = self.parts[number]
        start, end = self._ends(part)
        origin, target = self.column_of[Cell(part.origin)], self.column_of[Cell(part.target)]
        place = self._leaving(origin).index(number) + 1
        down = self.left[origin] + self.widths[origin] + _SLOT_WIDTH * place
        place = self._coming(target).index(number) + 1
        up = self.left[target] - self._label_width(target) - _SLOT_WIDTH * place
        lane = self.bottom + _LANE_HEIGHT * (self.lanes.index(number) + 1)
        pieces = _rounded([start, (down, start[1]), (down, lane), (up, lane), (up, end[1]), end])
        return DrawnCourse(start, pieces, True)

    # Wires that go on.

    def _course(self, number: int, width: float) -> DrawnCourse:
        part, chain = self.parts[number], self.layers.chains[number]
        start, end = self._ends(part)
        if self.column_of[chain[-1]] == len(self.layers.columns) - 1:
            end = (width, end[1])
        heights = [
            start[1],
            *(self.top[cell] + self.heading.height + _BEND_HEIGHT / 2 for cell in chain[1:-1]),
            end[1],
        ]
        pieces: list[Piece] = []
        for cell, y, following in zip(chain, heights, heights[1:], strict=False):
            column = self.column_of[cell]
            if abs(y - following) < 0.05:
                continue
            begins = self.left[column] + self.widths[column] + _SLOT_WIDTH * len(self._leaving(column))
            ends = (
                self.left[column + 1]
                - self._label_width(column + 1)
                - _SLOT_WIDTH * len(self._coming(column + 1))
            )
            middle = (begins + ends) / 2
            pieces += [((begins, y),), ((middle, y), (middle, following), (ends, following))]
        return DrawnCourse(start, (*pieces, (end,)), False)

    def _ends(self, part: ScenePart) -> tuple[Point, Point]:
        (x, y), (other_x, other_y) = self._corner(Cell(part.origin)), self._corner(Cell(part.target))
        return (x + self.items[part.origin].width, y + part.origin_offset), (
            other_x,
            other_y + part.target_offset,
        )


def _link(items: Sequence[SceneItem], part: ScenePart) -> LayerLink:
    return LayerLink(
        Cell(part.origin),
        Cell(part.target),
        part.origin_offset / items[part.origin].height,
        part.target_offset / items[part.target].height,
        part.goes_back,
    )


def _rounded(points: Sequence[Point]) -> tuple[Piece, ...]:
    """A way along horizontal and vertical lines, with round corners."""
    pieces: list[Piece] = []
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        pieces += [(_near(corner, before),), (corner, _near(corner, after))]
    return (*pieces, (points[-1],))


def _near(corner: Point, towards: Point) -> Point:
    """The point a little before the corner, or half way where the line is short."""
    x, y = towards[0] - corner[0], towards[1] - corner[1]
    length = max(abs(x), abs(y))
    share = min(_CORNER, length / 2) / length if length else 0.0
    return corner[0] + x * share, corner[1] + y * share
