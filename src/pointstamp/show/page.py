"""A flow as one self-contained HTML page, drawn by the scripts of the dashboard.

The page loads nothing: scripts, styles and the graph are in it. A notebook shows it in a frame of its own, so
that its styles and scripts stay apart from those of the notebook.
"""

import json
import re
from html import escape
from importlib.resources import files
from typing import Final

from pointstamp.dashboard.drawn import drawn
from pointstamp.flow.plan import Plan

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
