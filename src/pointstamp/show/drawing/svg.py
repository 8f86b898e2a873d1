"""A flow as SVG: one text without scripts, fonts or links, for pages, notebooks and files.

Every node is a box with its ports on its sides, every loop a frame around its nodes; wires run from left to
right, and those that come round again run back below. Colours follow the reader's light or dark setting.
Titles carry what has no room: whole names, schemas, pacts, and what becomes of times. They are what a screen
reader reads and what a pointer over the drawing shows.

Where things are is decided by ``pointstamp.show.drawing.layout``; here it is only written down.
"""

from collections.abc import Iterable, Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.show.describe import one_line, quoted, schema_words, source_words, times_of
from pointstamp.show.drawing.boxes import NAME_SIZE, SMALL_SIZE, cut
from pointstamp.show.drawing.layout import MARGIN, DrawingLayout, Frame, PlacedBox, Wire, layout
from pointstamp.show.drawing.scene import ARROW, Piece, Point

_COMMANDS: Final = {1: "L", 2: "Q", 3: "C"}
_PORT_RADIUS: Final = 3.5

# Colours are written out for both settings, without variables, because not every viewer knows those. A
# background of its own keeps the text readable on a page that does not follow the reader's setting.
_LIGHT: Final = {
    "sheet": "#ffffff",
    "ink": "#1f2328",
    "faint": "#59636e",
    "wire": "#6e7781",
    "back": "#bc4c00",
    "frame": "#8250df",
    "input": "#ddf4ff",
    "output": "#dafbe1",
    "operator": "#f6f8fa",
    "door": "#fff8c5",
}
_DARK: Final = {
    "sheet": "#0d1117",
    "ink": "#e6edf3",
    "faint": "#9198a1",
    "wire": "#8b949e",
    "back": "#f0883e",
    "frame": "#a371f7",
    "input": "#0c2d6b",
    "output": "#033a16",
    "operator": "#21262d",
    "door": "#3b2300",
}


def svg(plan: Plan) -> str:
    """The flow as a self-contained SVG document."""
    drawn = layout(plan)
    width, height = _number(drawn.width), _number(drawn.height)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ps-flow" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" aria-labelledby="ps-title ps-description">',
        f'<title id="ps-title">{_text(f"flow {quoted(plan.name)}")}</title>',
        f'<desc id="ps-description">{_text(_description(plan))}</desc>',
        f"<style>{_style()}</style>",
        '<defs><marker id="ps-arrow" class="ps-tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0.5L8 4L0 7.5z"/></marker>'
        '<marker id="ps-arrow-back" class="ps-tip-back" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0.5L8 4L0 7.5z"/></marker></defs>',
        f'<rect class="ps-sheet" width="{width}" height="{height}" rx="8"/>',
        _words(MARGIN, MARGIN + 16, cut(plan.name, 60), "ps-heading"),
    ]
    lines.extend(_frame(frame) for frame in drawn.frames)
    lines.extend(_wire(plan, wire) for wire in drawn.wires)
    for placed in drawn.boxes:
        lines.extend(_box(plan, placed))
    lines.extend(_labels(drawn))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _description(plan: Plan) -> str:
    wires = (
        f"{quoted(node.name)} reads "
        + ", ".join(source_words(plan, port.source) for port in node.inputs if port.source is not None)
        for node in plan.nodes
        if node.inputs
    )
    return f"times {times_of(plan.root, 0)}; " + "; ".join(wires)


def _frame(frame: Frame) -> str:
    name = " in ".join(quoted(each) for each in reversed(frame.scope))
    shape = (
        f'<rect x="{_number(frame.x)}" y="{_number(frame.y)}" width="{_number(frame.width)}" '
        f'height="{_number(frame.height)}" rx="12"/>'
    )
    heading = (
        f'<text x="{_number(frame.x + 14)}" y="{_number(frame.y + 21)}" class="ps-loop-name">'
        f'{_text(frame.name)}<tspan dx="12" class="ps-small">{_text(frame.times)}</tspan></text>'
    )
    return (
        f'<g class="ps-loop" data-scope={quoteattr(_clean(chr(10).join(map(one_line, frame.scope))))}>'
        f"<title>{_text(f'loop {name}, {frame.times}')}</title>{shape}{heading}</g>"
    )


def _wire(plan: Plan, wire: Wire) -> str:
    port = plan.nodes[wire.target.operator].inputs[wire.target.port]
    said = f"{source_words(plan, wire.source)} to {quoted(plan.nodes[wire.target.operator].name)}"
    pact = str(port.pact)
    kind, tip = ("ps-wire ps-back", "ps-arrow-back") if wire.goes_back else ("ps-wire", "ps-arrow")
    ends = (
        f'data-from="{wire.source.operator}.{wire.source.port}" '
        f'data-to="{wire.target.operator}.{wire.target.port}"'
    )
    return (
        f'<path class="{kind}" {ends} marker-end="url(#{tip})" d="{_way(wire.start, wire.pieces)}">'
        f"<title>{_text(said + (f', {pact}' if pact else ''))}</title></path>"
    )


def _way(start: Point, pieces: Iterable[Piece]) -> str:
    steps = [_COMMANDS[len(piece)] + " ".join(map(_point, piece)) for piece in pieces]
    return "M" + _point(start) + "".join(steps)


def _box(plan: Plan, placed: PlacedBox) -> Iterator[str]:
    node, box, x, y = placed.node, placed.box, placed.x, placed.y
    kind = "door" if node.kind.is_door else node.kind.value
    radius = {NodeKind.OPERATOR: 5.0}.get(node.kind, min(box.height / 2, 18.0))
    yield f'<g class="ps-node ps-{kind}" id="ps-node-{node.index}">'
    yield f"<title>{_text(f'{quoted(node.name)}, {node.kind.value}')}</title>"
    yield (
        f'<rect x="{_number(x)}" y="{_number(y)}" width="{_number(box.width)}" '
        f'height="{_number(box.height)}" rx="{_number(radius)}"/>'
    )
    middle, baseline = x + box.width / 2, y + 8 + NAME_SIZE
    yield _words(middle, baseline, box.name, "ps-name")
    for number, line in enumerate(box.lines):
        yield _words(middle, baseline + 15 * (number + 1), line, "ps-line")
    for number, (port, offset) in enumerate(zip(node.inputs, box.inputs, strict=True)):
        pact = f" {port.pact}" if str(port.pact) else ""
        source = "nothing yet" if port.source is None else source_words(plan, port.source) + pact
        words = f"input {number} {quoted(port.name)} of {quoted(node.name)} reads {source}"
        yield _port(x, y + offset, words)
        if box.shows_port_names:
            yield _words(x + 9, y + offset + 4, cut(port.name), "ps-port-name")
    for number, (output, offset) in enumerate(zip(node.outputs, box.outputs, strict=True)):
        words = f"output {number} {quoted(output.name)} of {quoted(node.name)}: {schema_words(output.schema)}"
        yield _port(x + box.width, y + offset, words)
        if box.shows_port_names:
            yield _words(x + box.width - 9, y + offset + 4, cut(output.name), "ps-port-name ps-end")
    yield "</g>"


def _port(x: float, y: float, words: str) -> str:
    at = f'cx="{_number(x)}" cy="{_number(y)}" r="{_PORT_RADIUS}"'
    return f'<circle class="ps-port" {at}><title>{_text(words)}</title></circle>'


def _labels(drawn: DrawingLayout) -> Iterator[str]:
    """Pacts stand on their wire, just before its end."""
    for wire in drawn.wires:
        if wire.label:
            x, y = wire.pieces[-1][-1]
            yield _words(x - ARROW, y - 5, wire.label, "ps-label ps-end")


def _words(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{_number(x)}" y="{_number(y)}" class="{kind}">{_text(text)}</text>'


def _style() -> str:
    fonts = "ui-sans-serif,system-ui,'Segoe UI','Helvetica Neue',Arial,'DejaVu Sans',sans-serif"
    shapes = (
        f".ps-flow text{{font:{SMALL_SIZE}px {fonts}}}"
        f".ps-flow .ps-heading{{font-size:16px;font-weight:600}}"
        f".ps-flow .ps-name{{font-size:{NAME_SIZE}px;font-weight:600;text-anchor:middle}}"
        f".ps-flow .ps-loop-name{{font-size:{NAME_SIZE}px;font-weight:600}}"
        ".ps-flow .ps-line{text-anchor:middle}.ps-flow .ps-end{text-anchor:end}"
        f".ps-flow .ps-small{{font-size:{SMALL_SIZE}px;font-weight:400}}"
        ".ps-wire{fill:none;stroke-width:1.5}"
        ".ps-node rect,.ps-port{stroke-width:1.2}"
        ".ps-loop rect{fill-opacity:.06;stroke-opacity:.75;stroke-width:1.4;stroke-dasharray:6 4}"
    )
    return shapes + _colours(_LIGHT) + "@media (prefers-color-scheme:dark){" + _colours(_DARK) + "}"


def _colours(of: dict[str, str]) -> str:
    filled = "".join(
        f".ps-{kind} rect{{fill:{of[kind]}}}" for kind in ("input", "output", "operator", "door")
    )
    return (
        f".ps-flow{{color:{of['ink']}}}.ps-flow text{{fill:currentColor}}.ps-sheet{{fill:{of['sheet']}}}"
        f".ps-flow .ps-line,.ps-flow .ps-port-name,.ps-flow .ps-label{{fill:{of['faint']}}}"
        f".ps-flow .ps-small{{fill:{of['faint']}}}.ps-flow .ps-loop-name{{fill:{of['frame']}}}"
        f".ps-wire{{stroke:{of['wire']}}}.ps-back{{stroke:{of['back']}}}.ps-node rect{{stroke:{of['wire']}}}"
        f".ps-port{{fill:{of['sheet']};stroke:{of['wire']}}}"
        f".ps-tip{{fill:{of['wire']}}}.ps-tip-back{{fill:{of['back']}}}"
        f".ps-loop rect{{fill:{of['frame']};stroke:{of['frame']}}}" + filled
    )


def _point(point: Point) -> str:
    return f"{_number(point[0])} {_number(point[1])}"


def _number(value: float) -> str:
    """A coordinate to a tenth, without an empty fraction and never as minus zero."""
    return f"{round(value, 1) + 0.0:g}" if abs(value) < 100_000 else f"{value:.1f}"


def _text(text: str) -> str:
    return escape(_clean(one_line(text)))


def _clean(text: str) -> str:
    """The text without the few characters that XML cannot have, not even escaped."""
    return "".join("\N{REPLACEMENT CHARACTER}" if _is_forbidden(each) else each for each in text)


def _is_forbidden(character: str) -> bool:
    code = ord(character)
    return (code < 32 and character not in "\t\n\r") or 0xD800 <= code < 0xE000 or code in (0xFFFE, 0xFFFF)
