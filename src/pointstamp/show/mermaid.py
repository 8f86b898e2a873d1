"""A flow as a Mermaid flowchart: text that GitHub, GitLab and notebooks draw.

One subgraph for each loop, one shape for each kind of node. An edge says which ports it connects where there
is a choice, its pact, and, where it leads into a node that changes times, what becomes of them.

What is fed back is a dotted line without a tip, written from the variable to what feeds it and marked
with a hooked arrow. Mermaid breaks cycles wherever its search happens to close one, and an edge in the true
direction turned nested loops inside out; it has no edge with its tip at the start.

Labels are the flow's own names, which may contain anything. Whatever is not a letter, a digit or harmless
is written as a character code, so that no name can end a label, open markup, or be taken for Markdown.
"""

import json
import re
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Final

from pointstamp.dashboard.sight import drawn
from pointstamp.flow.plan import Node, NodeKind, Plan
from pointstamp.show.describe import (
    ScopeTree,
    changed_times,
    limit_words,
    one_line,
    schema_of_end,
    scope_tree,
    times_of,
)
from pointstamp.topology.ports import SourcePort

_SHAPES: Final = {
    NodeKind.INPUT: ("([", "])"),
    NodeKind.OUTPUT: ("([", "])"),
    NodeKind.OPERATOR: ("[", "]"),
    NodeKind.ENTER: ("(", ")"),
    NodeKind.LEAVE: ("(", ")"),
    NodeKind.FEEDBACK: ("{{", "}}"),
    NodeKind.DELAY: ("(", ")"),
}

_ARROW: Final = "#8594;"
_HOOK: Final = "#8617;"

_UNSAFE: Final = re.compile(r"(?<=\w)([-._+])(?=\w)|([^\w ,()']|_)")
"""Marks inside a word are harmless and kept (first group); any other mark is not (second group)."""


def mermaid(plan: Plan) -> str:
    """The flow as a Mermaid flowchart, from left to right."""
    lines = [
        "flowchart LR",
        f"    accTitle: {_plain(plan.name) or 'a flow'}",
        f"    accDescr: {len(plan.nodes)} nodes of a flow with times {times_of(plan.root, 0)}",
    ]
    lines.extend("    " + line for line in _scope_lines(plan, scope_tree(plan)))
    for node in plan.nodes:
        for number, port in enumerate(node.inputs):
            if port.source is not None:
                lines.append("    " + _edge(plan, node, number, port.source))
    return "\n".join(lines) + "\n"


def _scope_lines(plan: Plan, tree: ScopeTree) -> Iterator[str]:
    for member in tree.members:
        if isinstance(member, Node):
            yield _node(plan, member)
            continue
        # The number of a loop's first node is a name that nothing else has.
        first = min(node.index for node in member.nodes_within())
        label = f"loop {escaped(member.scope[-1])}, times {times_of(plan.root, len(member.scope))}"
        yield f'subgraph l{first}_{len(member.scope)}["{label}"]'
        yield "    direction LR"
        yield from ("    " + line for line in _scope_lines(plan, member))
        yield "end"


def _node(plan: Plan, node: Node) -> str:
    lines = [escaped(node.name) or "(no name)"]  # an empty label is a syntax error
    if node.kind in (NodeKind.INPUT, NodeKind.OUTPUT):
        lines.append(escaped(f"{node.kind.value} {schema_of_end(plan, node)}"))
    elif node.kind is NodeKind.OPERATOR:
        lines.extend(
            f"{escaped(i)} {_ARROW} {escaped(o)} {escaped(words or 'never')}"
            for i, o, words in changed_times(plan, node)
        )
    if node.limit is not None:
        lines.append(escaped(limit_words(node)))
    opening, closing = _SHAPES[node.kind]
    return f'n{node.index}{opening}"{"<br/>".join(lines)}"{closing}'


def _edge(plan: Plan, node: Node, number: int, source: SourcePort) -> str:
    origin, port = plan.nodes[source.operator], node.inputs[number]
    comes_back = node.kind is NodeKind.FEEDBACK
    ports = [
        origin.outputs[source.port].name if len(origin.outputs) > 1 else "",
        port.name if len(node.inputs) > 1 else "",
    ]
    said = [
        f" {_ARROW} ".join(escaped(name) for name in ports if name),
        escaped(str(port.pact)),
        *(
            f"{_HOOK if comes_back else _ARROW} {escaped(words or 'never')}"
            for _, _, words in changed_times(plan, node)
        ),
    ]
    # The summaries of an operator are written in its box.
    label = "<br/>".join(part for part in (said if node.kind.is_door else said[:2]) if part)
    if comes_back:
        return f'n{node.index} -.-|"{label}"| n{origin.index}'
    return f"n{origin.index} -->" + (f'|"{label}"|' if label else "") + f" n{node.index}"


def escaped(text: str) -> str:
    """The text with every mark that Mermaid or Markdown could take for their own as a character code.

    >>> escaped('a "b" #1; x_y')
    'a #34;b#34; #35;1#59; x_y'
    """
    return _UNSAFE.sub(lambda found: found[1] or f"#{ord(found[2])};", one_line(text))


def _plain(text: str) -> str:
    """A title, in which Mermaid knows no character codes: letters, digits and spaces only."""
    return re.sub(r"[^\w ]|_", " ", one_line(text)).strip()


# A flow as one self-contained HTML page, drawn by the scripts of the dashboard.
#
# The page loads nothing: scripts, styles and the graph are in it. A notebook shows it in a frame of its own,
# so that its styles and scripts stay apart from those of the notebook.

_STYLES: Final = ("style.css", "views.css")
_SCRIPTS: Final = ("words.js", "layout.js", "steps.js", "graph.js")
"""The modules that draw a graph, each after those that it imports."""

_MODULE_SYNTAX: Final = re.compile(r"^(?:import [^;]*;\n|export )", re.MULTILINE)

_FRAME_HEIGHT: Final = 420

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
{styles}
html, body {{ height: 100%; margin: 0; }}
.canvas {{ position: relative; height: 100%; }}
.canvas > svg {{ width: 100%; height: 100%; }}
</style>
</head>
<body>
<div class="canvas"></div>
<script type="module">
{scripts}
const graph = new Graph({graph}, (id) => graph.choose(id));
document.querySelector('.canvas').append(graph.svg);
new ResizeObserver(() => graph.refit()).observe(graph.svg);
</script>
</body>
</html>
"""


def page(plan: Plan) -> str:
    """The flow as the text of an HTML page."""
    return _PAGE.format(
        title=escape(f"flow {plan.name}"),
        styles="\n".join(map(_static, _STYLES)),
        scripts="\n".join(_MODULE_SYNTAX.sub("", _static(name)) for name in _SCRIPTS),
        graph=_literal(drawn(plan)),
    )


def frame(plan: Plan) -> str:
    """The page in a frame, as a notebook shows it."""
    return (
        f'<iframe sandbox="allow-scripts" style="width: 100%; height: {_FRAME_HEIGHT}px; border: 0" '
        f'srcdoc="{escape(page(plan))}"></iframe>'
    )


def _static(name: str) -> str:
    return files("pointstamp.dashboard").joinpath("static", name).read_text(encoding="utf-8")


def _literal(value: object) -> str:
    """A value as JavaScript, in which no name can end the script."""
    return json.dumps(value).replace("<", "\\u003c")
