"""The layout of a flow: where each node, loop and wire is drawn.

Loops are laid out first, from the inside out; to its surroundings a loop is one large item with places on
its border where wires come in and go out. A wire is therefore made of one part for each scope it runs
through, and each part stays in the columns, gaps and lanes of that scope.

Invariants: boxes of nodes do not overlap; what is in a loop is drawn within its frame, and everything else
outside it; no wire runs over a box. They hold by construction: boxes stand in columns, wires run level across
columns and change their height only in the gaps between, and those that go back do so in lanes below
everything else in their scope.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pointstamp.flow.plan import Node, NodeKind, Plan
from pointstamp.show.describe import Scope, ScopeTree, scope_tree, times_of
from pointstamp.show.drawing.boxes import NAME_SIZE, SMALL_SIZE, Box, box_of, cut, text_width
from pointstamp.show.drawing.scene import Piece, Point, Scene, SceneItem, ScenePart, arrange
from pointstamp.topology.ports import OperatorIndex, SourcePort, Target

MARGIN: Final = 20.0
HEADING_HEIGHT: Final = 34.0
_BORDER_PLACE: Final = SceneItem(0.0, 10.0)

Key: TypeAlias = OperatorIndex | Scope | tuple[str, int]
"""What an item of a scope is: a node, a loop, or the place on the border of a wire with a number."""


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """The box of a node and its upper left corner."""

    node: Node
    box: Box
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Frame:
    """The frame of a loop, with what is written on it."""

    scope: Scope
    name: str
    times: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Wire:
    """A connection: where it starts, how it goes on, and what is written before its end."""

    source: SourcePort
    target: Target
    start: Point
    pieces: tuple[Piece, ...]
    label: str
    goes_back: bool


@dataclass(frozen=True, slots=True)
class DrawingLayout:
    """A whole drawing; frames from the outside in."""

    width: float
    height: float
    boxes: tuple[PlacedBox, ...]
    frames: tuple[Frame, ...]
    wires: tuple[Wire, ...]


def layout(plan: Plan) -> DrawingLayout:
    """Where everything is drawn."""
    composer = _Composer(plan)
    tree = scope_tree(plan)
    composer.arrange(tree)
    composer.place(tree, MARGIN, MARGIN)
    whole = composer.scenes[()].scene
    wires = [
        Wire(edge.source, edge.target, edge.start, tuple(edge.pieces), edge.label, edge.goes_back)
        for edge in composer.edges
    ]
    return DrawingLayout(
        whole.width + 2 * MARGIN,
        whole.height + 2 * MARGIN,
        tuple(sorted(composer.boxes, key=lambda placed: placed.node.index)),
        tuple(composer.frames),
        tuple(wires),
    )


@dataclass(slots=True)
class _Edge:
    """A connection while its course is put together."""

    number: int
    source: SourcePort
    target: Target
    origin: Node
    end: Node
    label: str
    start: Point = (0.0, 0.0)
    pieces: list[Piece] = field(default_factory=list)
    goes_back: bool = False

    def runs_in(self, scope: Scope) -> bool:
        """Whether a part of this wire lies in the scope itself."""
        shared = 0
        for mine, theirs in zip(self.origin.scope, self.end.scope, strict=False):
            if mine != theirs:
                break
            shared += 1
        is_within = (each.scope[: len(scope)] == scope for each in (self.origin, self.end))
        return len(scope) >= shared and any(is_within)


@dataclass(frozen=True, slots=True)
class _Arranged:
    """A scope that is laid out: the scene, the numbers of its items, and the edges of its parts."""

    scene: Scene
    items: dict[Key, int]
    edges: tuple[_Edge, ...]


class _Composer:
    """Lays out scope by scope and then puts them into one another."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.all_boxes = {node.index: box_of(plan, node) for node in plan.nodes}
        self.edges: list[_Edge] = []
        for node in plan.nodes:
            for number, port in enumerate(node.inputs):
                if port.source is not None:
                    target, label = Target(node.index, number), cut(str(port.pact), 30)
                    origin = plan.nodes[port.source.operator]
                    self.edges.append(_Edge(len(self.edges), port.source, target, origin, node, label))
        self.scenes: dict[Scope, _Arranged] = {}
        self.boxes: list[PlacedBox] = []
        self.frames: list[Frame] = []

    def arrange(self, tree: ScopeTree) -> None:
        """Lay out a scope, after the loops in it."""
        for loop in tree.loops():
            self.arrange(loop)
        scope = tree.scope
        edges = tuple(edge for edge in self.edges if edge.runs_in(scope))
        items: dict[Key, int] = {}
        sizes: list[SceneItem] = []

        def add(key: Key, size: SceneItem) -> None:
            if key not in items:
                items[key] = len(sizes)
                sizes.append(size)

        for member in tree.members:
            if isinstance(member, Node):
                box = self.all_boxes[member.index]
                add(member.index, SceneItem(box.width, box.height))
            else:
                inner = self.scenes[member.scope].scene
                add(member.scope, SceneItem(inner.width, inner.height))
        for edge in edges:
            add(_key(scope, edge.origin, "entry", edge), _BORDER_PLACE)
            add(_key(scope, edge.end, "exit", edge), _BORDER_PLACE)
        scene = arrange(
            sizes,
            [self._part(scope, edge, items) for edge in edges],
            entries=[number for key, number in items.items() if _is_place(key, "entry")],
            exits=[number for key, number in items.items() if _is_place(key, "exit")],
            at_end=[items[node.index] for node in tree.nodes() if node.kind is NodeKind.OUTPUT],
            heading=self._heading(scope),
            padding=14.0,
        )
        self.scenes[scope] = _Arranged(scene, items, edges)

    def place(self, tree: ScopeTree, x: float, y: float) -> None:
        """Put a scope where it belongs, with everything in it, and add its parts to the wires."""
        arranged = self.scenes[tree.scope]
        corners = arranged.scene.corners
        courses = dict(zip((edge.number for edge in arranged.edges), arranged.scene.courses, strict=True))
        for edge in arranged.edges:
            # Parts are put together in the order in which the wire runs: out of loops, across, into loops.
            course = courses[edge.number]
            start = _moved(course.start, x, y)
            pieces = [tuple(_moved(point, x, y) for point in piece) for piece in course.pieces]
            if edge.origin.scope[: len(tree.scope)] != tree.scope:
                edge.pieces = [*edge.pieces, *pieces]
            else:
                edge.pieces = [*pieces, *edge.pieces]
                edge.start = start
            edge.goes_back = edge.goes_back or course.goes_back
        for node in tree.nodes():
            corner = corners[arranged.items[node.index]]
            box = self.all_boxes[node.index]
            self.boxes.append(PlacedBox(node, box, *_moved(corner, x, y)))
        for loop in tree.loops():
            left, top = _moved(corners[arranged.items[loop.scope]], x, y)
            inner = self.scenes[loop.scope].scene
            name, times = self._frame_words(loop.scope)
            self.frames.append(Frame(loop.scope, name, times, left, top, inner.width, inner.height))
            self.place(loop, left, top)

    def _part(self, scope: Scope, edge: _Edge, items: dict[Key, int]) -> ScenePart:
        is_last = edge.end.scope == scope
        return ScenePart(
            items[_key(scope, edge.origin, "entry", edge)],
            self._offset(scope, edge, edge.origin, "exit"),
            items[_key(scope, edge.end, "exit", edge)],
            self._offset(scope, edge, edge.end, "entry"),
            label_width=text_width(edge.label, SMALL_SIZE) if is_last else 0.0,
            goes_back=is_last
            and edge.end.kind is NodeKind.FEEDBACK
            and edge.origin.scope[: len(scope)] == scope,
        )

    def _offset(self, scope: Scope, edge: _Edge, node: Node, place: str) -> float:
        """How far below the top of its item a wire ends: at a port, on a loop's border, or on our own."""
        if node.scope == scope:
            box = self.all_boxes[node.index]
            is_origin = place == "exit"
            return box.outputs[edge.source.port] if is_origin else box.inputs[edge.target.port]
        if node.scope[: len(scope)] == scope:
            inner = self.scenes[node.scope[: len(scope) + 1]]
            return inner.scene.corners[inner.items[place, edge.number]][1] + _BORDER_PLACE.height / 2
        return _BORDER_PLACE.height / 2

    def _heading(self, scope: Scope) -> SceneItem:
        if not scope:
            return SceneItem(text_width(cut(self.plan.name, 60), 16), HEADING_HEIGHT)
        name, times = self._frame_words(scope)
        return SceneItem(text_width(name, NAME_SIZE) + text_width(times, SMALL_SIZE) + 36, HEADING_HEIGHT)

    def _frame_words(self, scope: Scope) -> tuple[str, str]:
        return f"loop {cut(scope[-1], 32)}", f"times {times_of(self.plan.root, len(scope))}"


def _key(scope: Scope, node: Node, place: str, edge: _Edge) -> Key:
    """Which item of a scope a node belongs to: itself, the loop around it, or a place on the border."""
    if node.scope == scope:
        return node.index
    if node.scope[: len(scope)] == scope:
        return node.scope[: len(scope) + 1]
    return place, edge.number


def _is_place(key: Key, place: str) -> bool:
    return isinstance(key, tuple) and len(key) == 2 and key[0] == place and isinstance(key[1], int)


def _moved(point: Point, x: float, y: float) -> Point:
    return point[0] + x, point[1] + y
