"""The boxes of a drawing: what is written in the box of a node, how large it is, and where its ports are.

Sizes come from an estimate of how wide a text is, on the wide side, because nothing here knows the font that
the reader's machine will choose. A name that is too long is cut in the picture and whole in its tooltip.
"""

from dataclasses import dataclass
from typing import Final
from unicodedata import east_asian_width

from pointstamp.flow.plan import Node, NodeKind, Plan
from pointstamp.show.describe import changed_times, limit_words, one_line, schema_of_end

NAME_SIZE: Final = 13
SMALL_SIZE: Final = 11
NAME_CHARACTERS_MAX: Final = 32
LINE_CHARACTERS_MAX: Final = 44

_LINE_HEIGHT: Final = 15
_PORT_HEIGHT: Final = 20
_PADDING_X: Final = 14
_PADDING_Y: Final = 8
_BETWEEN_PORT_NAMES: Final = 24


@dataclass(frozen=True, slots=True)
class Box:
    """The box of a node: its texts, its size, and how far below its top each port stands."""

    name: str
    lines: tuple[str, ...]
    width: float
    height: float
    inputs: tuple[float, ...]
    outputs: tuple[float, ...]
    shows_port_names: bool


def box_of(plan: Plan, node: Node) -> Box:
    """The box of one node."""
    name = cut(node.name, NAME_CHARACTERS_MAX)
    lines = tuple(cut(line, LINE_CHARACTERS_MAX) for line in _lines(plan, node))
    names = ([port.name for port in node.inputs], [port.name for port in node.outputs])
    shows = node.kind is NodeKind.OPERATOR and (len(names[0]) > 1 or len(names[1]) > 1)
    width = max(text_width(name, NAME_SIZE), *(text_width(line, SMALL_SIZE) for line in ("", *lines)))
    heading = _LINE_HEIGHT + 2 + _LINE_HEIGHT * len(lines)
    rows = max(map(len, names)) if shows else 0
    if shows:
        sides = [max((text_width(cut(each), SMALL_SIZE) for each in side), default=0) for side in names]
        width = max(width, sum(sides) + _BETWEEN_PORT_NAMES)
    height = 2 * _PADDING_Y + heading + _PORT_HEIGHT * rows
    places = tuple(
        tuple(_port_y(number, len(side), height, _PADDING_Y + heading, rows) for number in range(len(side)))
        for side in names
    )
    return Box(name, lines, width + 2 * _PADDING_X, height, places[0], places[1], shows)


def _port_y(number: int, count: int, height: float, heading: float, rows: int) -> float:
    """Ports with names stand in rows under the heading; others are spread over the whole side."""
    if rows:
        return heading + _PORT_HEIGHT * (number + 0.5)
    return height * (number + 0.5) / count


def _lines(plan: Plan, node: Node) -> list[str]:
    if node.kind in (NodeKind.INPUT, NodeKind.OUTPUT):
        return [node.kind.value, schema_of_end(plan, node)]
    ways = changed_times(plan, node)
    if node.kind.is_door:
        lines = [f"→ {words or 'never'}" for _, _, words in ways]
    else:
        lines = [f"{i} → {o}: {words or 'never'}" for i, o, words in ways]
    return lines if node.limit is None else [*lines, limit_words(node)]


def cut(text: str, characters_max: int = 18) -> str:
    """The text on one line, with an ellipsis where it is too long for the picture."""
    text = one_line(text)
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"


def text_width(text: str, size: float) -> float:
    """About how wide a text is in a sans-serif font of that size, rather too wide than too narrow."""
    return sum(_character_width(character) for character in text) * size


def _character_width(character: str) -> float:
    if east_asian_width(character) in "WF":
        return 1.0
    if character in "mwMW@%→…":
        return 0.95
    return 0.74 if character.isupper() else 0.36 if character in " .,:;'()[]il|" else 0.6
