"""Drawings of flows.

- *Mermaid*: lines that must be there, and over random plans, with names that mean harm, the shape of every
  line; only these find a name that ends its label.
- *SVG*, over random plans, measured in the finished text and not in the layout that made it: it is well
  formed, everything is there, boxes do not overlap, loops frame what is theirs and nothing else, wires end at
  their ports, and neither wires nor labels lie on a box.
- *parts of the layout*: columns and rows by themselves, where a wrong rule could still give a legal drawing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.flow.builder import PlanBuilder
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.show.describe import one_line
from pointstamp.show.drawing.boxes import SMALL_SIZE, text_width
from pointstamp.show.drawing.layers import Cell, LayerLink, layered, without_cycles
from pointstamp.show.drawing.mermaid import escaped, mermaid
from pointstamp.show.drawing.ranks import Level, rows, spread
from pointstamp.show.drawing.svg import svg
from pointstamp.topology.domain import EPOCHS
from support.plans import HARMFUL_NAMES, SCHEMA, plans, random_plan

SVG = "{http://www.w3.org/2000/svg}"
ROUNDING = 0.2
"""Coordinates are written to a tenth, so two of them may be off by that much together."""

# Mermaid.

LABEL = r'"[^"`<>\[\]{}|]*(<br/>[^"`<>\[\]{}|]*)*"'
LINES = (
    r"flowchart LR",
    r"accTitle: [\w ]+",
    r"accDescr: .*",
    rf"subgraph l\d+_\d+\[{LABEL}\]",
    r"direction LR",
    r"end",
    rf"n\d+(\(\[|\(|\[|\{{\{{){LABEL}(\]\)|\)|\]|\}}\}})",
    rf"n\d+ (-->|-\.-)(\|{LABEL}\|)? n\d+",
)


@given(plans())
def test_every_line_of_mermaid_has_a_known_shape_whatever_the_names(plan: Plan) -> None:
    for line in mermaid(plan).splitlines():
        assert any(re.fullmatch(shape, line.strip()) for shape in LINES), line


@given(plans())
def test_mermaid_has_every_node_every_edge_and_a_closed_subgraph_for_every_loop(plan: Plan) -> None:
    lines = [line.strip() for line in mermaid(plan).splitlines()]
    loops = {node.scope[:depth] for node in plan.nodes for depth in range(1, len(node.scope) + 1)}
    opened = [line.split("[")[0] for line in lines if line.startswith("subgraph")]
    assert len(opened) == len(set(opened)) == len(loops) == lines.count("end")
    for node in plan.nodes:
        assert sum(re.match(rf"n{node.index}[\[({{]", line) is not None for line in lines) == 1
        for port in node.inputs:
            assert port.source is not None
            ends = (port.source.operator, node.index)
            if node.kind is NodeKind.FEEDBACK:
                ends = (ends[1], ends[0])
            assert any(re.fullmatch(rf"n{ends[0]} -.*- ?>?.* n{ends[1]}", line) for line in lines)


@pytest.mark.parametrize("name", [*HARMFUL_NAMES, "_x_", "- item", "a-b.c_d+e"])
def test_an_escaped_name_says_the_same_when_its_codes_are_read(name: str) -> None:
    read = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), escaped(name))
    assert read == one_line(name)


def test_words_with_harmless_marks_stay_readable() -> None:
    assert escaped("lowest_label v1.2 (by src-id)") == "lowest_label v1.2 (by src-id)"


# SVG.


@dataclass(frozen=True)
class Rectangle:
    """As it stands in the drawing."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Rectangle") -> bool:
        return (
            self.left < other.right - ROUNDING
            and other.left < self.right - ROUNDING
            and self.top < other.bottom - ROUNDING
            and other.top < self.bottom - ROUNDING
        )

    def contains(self, other: "Rectangle") -> bool:
        return (
            self.left <= other.left + ROUNDING
            and self.top <= other.top + ROUNDING
            and self.right >= other.right - ROUNDING
            and self.bottom >= other.bottom - ROUNDING
        )

    def has_inside(self, point: tuple[float, float]) -> bool:
        x, y = point
        return (
            self.left + ROUNDING < x < self.right - ROUNDING
            and self.top + ROUNDING < y < self.bottom - ROUNDING
        )


class Drawing:
    """What can be measured in the text of an SVG drawing."""

    def __init__(self, text: str) -> None:
        self.root = ElementTree.fromstring(text)  # noqa: S314 - our own text
        groups = list(self.root.iter(f"{SVG}g"))
        self.nodes = {
            int(group.attrib["id"].removeprefix("ps-node-")): group
            for group in groups
            if group.attrib["class"].startswith("ps-node")
        }
        self.boxes = {index: _rectangle(group) for index, group in self.nodes.items()}
        self.frames = {
            tuple(group.attrib["data-scope"].split("\n")): _rectangle(group)
            for group in groups
            if group.attrib["class"] == "ps-loop"
        }
        self.wires = [path for path in self.root.iter(f"{SVG}path") if "data-from" in path.attrib]

    def ports(self, index: int) -> list[tuple[float, float]]:
        circles = self.nodes[index].iter(f"{SVG}circle")
        return [(float(circle.attrib["cx"]), float(circle.attrib["cy"])) for circle in circles]

    def labels(self) -> list[Rectangle]:
        found = []
        for text in self.root.iter(f"{SVG}text"):
            if text.attrib["class"].startswith("ps-label"):
                right, baseline = float(text.attrib["x"]), float(text.attrib["y"])
                width = text_width(text.text or "", SMALL_SIZE)
                found.append(Rectangle(right - width, baseline - 9, right, baseline + 2))
        return found


def _rectangle(group: ElementTree.Element) -> Rectangle:
    shape = group.find(f"{SVG}rect")
    assert shape is not None
    x, y, width, height = (float(shape.attrib[name]) for name in ("x", "y", "width", "height"))
    return Rectangle(x, y, x + width, y + height)


def points_on(way: str) -> Iterator[tuple[float, float]]:
    """Many points on a path of lines and curves."""
    at = (0.0, 0.0)
    for command, numbers in re.findall(r"([MLQC])([^MLQC]*)", way):
        given = [float(number) for number in numbers.split()]
        controls = [at, *zip(given[::2], given[1::2], strict=True)]
        if command != "M":
            # Boxes are wider and higher than the steps are long.
            steps = 2 + int(max(abs(controls[-1][0] - at[0]), abs(controls[-1][1] - at[1])) / 12)
            yield from (_between(controls, step / steps) for step in range(steps + 1))
        at = controls[-1]
        yield at


def _between(controls: list[tuple[float, float]], share: float) -> tuple[float, float]:
    """A point on a curve, by De Casteljau's rule."""
    while len(controls) > 1:
        controls = [
            (a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share) for a, b in pairwise(controls)
        ]
    return controls[0]


def _shown_scope(scope: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(one_line, scope))


@given(plans())
def test_every_node_is_there_with_its_ports_on_its_sides(plan: Plan) -> None:
    drawing = Drawing(svg(plan))
    assert sorted(drawing.nodes) == list(range(len(plan.nodes)))
    for node in plan.nodes:
        box, ports = drawing.boxes[node.index], drawing.ports(node.index)
        assert len(set(ports)) == len(node.inputs) + len(node.outputs)
        sides = [box.left] * len(node.inputs) + [box.right] * len(node.outputs)
        for (x, y), side in zip(ports, sides, strict=True):
            assert x == pytest.approx(side, abs=ROUNDING)
            assert box.top < y < box.bottom


@given(plans())
def test_boxes_do_not_overlap_and_lie_within_the_drawing(plan: Plan) -> None:
    drawing = Drawing(svg(plan))
    sheet = Rectangle(0, 0, float(drawing.root.attrib["width"]), float(drawing.root.attrib["height"]))
    for one, other in combinations(drawing.boxes.values(), 2):
        assert not one.overlaps(other)
    assert all(sheet.contains(box) for box in (*drawing.boxes.values(), *drawing.frames.values()))


@given(plans())
def test_a_loop_frames_what_stands_in_it_and_nothing_else(plan: Plan) -> None:
    drawing = Drawing(svg(plan))
    loops = {node.scope[:depth] for node in plan.nodes for depth in range(1, len(node.scope) + 1)}
    assert set(drawing.frames) == {_shown_scope(scope) for scope in loops}
    for scope, frame in drawing.frames.items():
        for node in plan.nodes:
            is_within = _shown_scope(node.scope)[: len(scope)] == scope
            box = drawing.boxes[node.index]
            assert frame.contains(box) if is_within else not frame.overlaps(box)
        for other, inner in drawing.frames.items():
            if other[: len(scope)] == scope:
                assert frame.contains(inner)
            elif scope[: len(other)] != other:
                assert not frame.overlaps(inner)


@given(plans())
def test_wires_run_from_port_to_port_and_over_no_box(plan: Plan) -> None:
    drawing = Drawing(svg(plan))
    wanted = {
        (f"{port.source.operator}.{port.source.port}", f"{node.index}.{number}")
        for node in plan.nodes
        for number, port in enumerate(node.inputs)
        if port.source is not None
    }
    assert {(wire.attrib["data-from"], wire.attrib["data-to"]) for wire in drawing.wires} == wanted
    for wire in drawing.wires:
        points = list(points_on(wire.attrib["d"]))
        origin, output = map(int, wire.attrib["data-from"].split("."))
        target, number = map(int, wire.attrib["data-to"].split("."))
        start = drawing.ports(origin)[len(plan.nodes[origin].inputs) + output]
        assert points[0] == pytest.approx(start, abs=ROUNDING)
        assert points[-1] == pytest.approx(drawing.ports(target)[number], abs=ROUNDING)
        for box in drawing.boxes.values():
            assert not any(box.has_inside(point) for point in points)


@given(plans())
def test_wires_run_level_or_upright_except_in_curves(plan: Plan) -> None:
    for wire in Drawing(svg(plan)).wires:
        at = (0.0, 0.0)
        commands = re.findall(r"([MLQC])([^MLQC]*)", wire.attrib["d"])
        assert commands[0][0] == "M"
        assert len(commands) > 1
        for command, numbers in commands:
            *_, x, y = (float(number) for number in numbers.split())
            if command == "L":
                assert abs(x - at[0]) <= ROUNDING or abs(y - at[1]) <= ROUNDING
            at = (x, y)


@given(plans())
def test_only_what_comes_round_again_or_returns_to_a_loop_is_drawn_backwards(plan: Plan) -> None:
    for wire in Drawing(svg(plan)).wires:
        xs = [x for x, _ in points_on(wire.attrib["d"])]
        runs_right = all(a <= b + ROUNDING for a, b in pairwise(xs))
        assert runs_right == ("ps-back" not in wire.attrib["class"])
        target = plan.nodes[int(wire.attrib["data-to"].split(".")[0])]
        if target.kind is NodeKind.FEEDBACK:
            assert not runs_right


@given(plans())
def test_labels_lie_on_no_box(plan: Plan) -> None:
    drawing = Drawing(svg(plan))
    for label in drawing.labels():
        assert not any(label.overlaps(box) for box in drawing.boxes.values())


@given(plans())
def test_a_whole_name_is_in_a_title_and_nothing_but_svg_is_in_the_drawing(plan: Plan) -> None:
    drawing = Drawing(svg(plan))
    for node in plan.nodes:
        title = drawing.nodes[node.index].find(f"{SVG}title")
        assert title is not None
        assert title.text == f"'{one_line(node.name)}', {node.kind.value}"
    tags = {element.tag.removeprefix(SVG) for element in drawing.root.iter()}
    known = {
        "svg",
        "title",
        "desc",
        "style",
        "defs",
        "marker",
        "path",
        "rect",
        "text",
        "tspan",
        "g",
        "circle",
    }
    assert tags <= known


def test_the_same_plan_is_drawn_the_same() -> None:
    assert svg(random_plan(7)) == svg(random_plan(7))
    assert mermaid(random_plan(7)) == mermaid(random_plan(7))


def test_a_drawing_reads_in_light_and_in_dark_and_says_its_name() -> None:
    text = svg(random_plan(7))
    assert "prefers-color-scheme:dark" in text
    assert "currentColor" in text
    root = ElementTree.fromstring(text)  # noqa: S314 - our own text
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"] == "ps-title ps-description"


def test_a_flow_with_one_node_and_a_flow_with_none_can_be_drawn() -> None:
    builder = PlanBuilder("alone", EPOCHS)
    builder.add(NodeKind.INPUT, "words", (), [], {"out": SCHEMA})
    assert len(Drawing(svg(builder.plan)).boxes) == 1
    assert Drawing(svg(Plan("nothing"))).boxes == {}
    assert mermaid(Plan("")).startswith("flowchart LR\n    accTitle: a flow\n")


# Parts of the layout.


def test_an_item_stands_one_column_right_of_the_last_that_leads_to_it() -> None:
    links = [
        LayerLink(Cell(0), Cell(1)),
        LayerLink(Cell(1), Cell(2)),
        LayerLink(Cell(0), Cell(2)),
        LayerLink(Cell(2), Cell(0)),
    ]
    found = layered(3, links, first=(), last=(), at_end=())
    columns = [[cell for cell in column if cell < 3] for column in found.columns]
    assert columns == [[], [0], [1], [2], []]
    assert found.chains[3] == ()
    assert len(found.chains[2]) == 3


def test_crossings_that_an_order_can_avoid_are_avoided() -> None:
    links = [LayerLink(Cell(0), Cell(3)), LayerLink(Cell(1), Cell(2))]
    columns = layered(4, links, first=(), last=(), at_end=()).columns
    assert columns[1].index(Cell(0)) - columns[1].index(Cell(1)) == (
        columns[2].index(Cell(3)) - columns[2].index(Cell(2))
    )


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20))
def test_without_the_links_that_go_back_no_cycle_is_left(pairs: list[tuple[int, int]]) -> None:
    links = without_cycles(7, [LayerLink(Cell(a), Cell(b)) for a, b in pairs])
    left = {(link.origin, link.target) for link in links if not link.goes_back}
    while left:
        targets = {target for _, target in left}
        free = {pair for pair in left if pair[0] not in targets}
        assert free
        left -= free


def test_a_graph_without_cycles_has_no_link_that_goes_back() -> None:
    links = [LayerLink(Cell(a), Cell(b)) for a in range(5) for b in range(a)]
    assert not any(link.goes_back for link in without_cycles(5, links))


PLACES = st.lists(st.tuples(st.floats(-100, 100), st.floats(0.5, 4)), min_size=1, max_size=8)


@given(PLACES)
def test_spread_keeps_order_and_distance_and_moves_nothing_that_has_room(
    wishes: list[tuple[float, float]],
) -> None:
    placed = spread(wishes, [10.0] * len(wishes))
    assert all(b - a >= 10 - 1e-6 for a, b in pairwise(placed))
    if all(b[0] - a[0] >= 10 for a, b in pairwise(wishes)):
        assert placed == pytest.approx([place for place, _ in wishes])


def test_a_chain_is_drawn_level_and_empty_strips_are_closed() -> None:
    columns = [[Cell(0), Cell(2)], [Cell(1)]]
    heights = {Cell(0): 40.0, Cell(1): 20.0, Cell(2): 10.0}
    top = rows(columns, heights, [Level(Cell(0), Cell(1), 30.0, 10.0)], bends=frozenset(), space=5.0)
    assert top[Cell(0)] + 30.0 == pytest.approx(top[Cell(1)] + 10.0)
    assert top[Cell(2)] == pytest.approx(45.0)
