"""Writes nexmark.md: the code of each query as it is run, its lines, and the figures that were measured.

    .venv/bin/python -m benchmarks.nexmark.page

The text before them is ``page_head.md``; the figures are the lines of ``results.jsonl`` beside this file, as
the scripts of this folder print them, and of several for one query and contender the last counts. A test
keeps the page what this makes of them.
"""

import ast
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import Figures, last_of_each
from examples.nexmark import queries

_FOLDER: Final = Path(__file__).parent
PAGE: Final = _FOLDER.parent.parent / "docs" / "benchmarks" / "nexmark.md"
RESULTS: Final = _FOLDER / "results.jsonl"
HEAD: Final = _FOLDER / "page_head.md"
"""What stands before the figures."""

_NAMES: Final = [f"q{number}" for number in range(23)]
_SHARED: Final = ("valid_bids", "bids_by_rank", "different_by_rank", "RANKS", "EURO")
_EVENTS: Final = 1_000_000
_MORE_EVENTS: Final = 10_000_000

_COLUMNS: Final = {
    "one worker": ("one worker", _EVENTS),
    "10 M events": ("one worker", _MORE_EVENTS),
    "two processes": ("two processes", _EVENTS),
    "Spark": ("Spark, two workers", _EVENTS),
    "Flink": ("Flink", _EVENTS),
    "Pathway": ("Pathway", _EVENTS),
}
"""The columns of the table, and whose figures they show."""


def page() -> str:
    """The whole page."""
    figures = measured(RESULTS.read_text())
    head = ["query", "lines", *_COLUMNS]
    rows = [" | ".join(head), "|".join("---" for _ in head)]
    for name in _NAMES:
        title = _title(name)
        shown = [_rate(figures.get((name, *column))) for column in _COLUMNS.values()]
        rows.append(" | ".join([f"[{name}](#{_anchor(name)}) {title}", str(lines_of(name)), *shown]))
    parts = [HEAD.read_text(), *(f"| {row} |" for row in rows), "", "## The queries", ""]
    for name in _NAMES:
        parts += [f"### {name}: {_title(name)}", "", "```py", _source(name), "```", ""]
    parts += ["### What they share", "", "```py", *_shared_sources(), "```", ""]
    return "\n".join(parts)


def measured(text: str) -> Mapping[tuple[Any, ...], Figures]:
    """The last line of each query, contender and number of events."""
    return last_of_each(text, "case", "contender", "events")


def lines_of(name: str) -> int:
    """How many lines the body of a query has, with what it shares with others."""
    needed = [name]
    for each in needed:  # grows by what is found
        text = _source(each)
        needed += [other for other in _SHARED if other in text and other not in needed]
    return sum(_body_lines(_source(each)) for each in needed)


def _body_lines(text: str) -> int:
    """The lines of a definition, without its first one and its docstring."""
    (node,) = ast.parse(text).body[:1]
    if not isinstance(node, ast.FunctionDef):
        return len(text.splitlines())
    first = node.body[1]
    return (node.end_lineno or 0) - first.lineno + 1


def _title(name: str) -> str:
    """The first words of a query's docstring."""
    return (inspect.getdoc(getattr(queries, name)) or "").partition(":")[0]


def _anchor(name: str) -> str:
    kept = "".join(each for each in f"{name}: {_title(name)}".lower() if each.isalnum() or each in " -")
    return kept.replace(" ", "-")


def _source(name: str) -> str:
    """The text of a definition in the file of queries."""
    text = inspect.getsource(queries)
    for node in ast.parse(text).body:
        names = [getattr(node, "name", None), getattr(getattr(node, "target", None), "id", None)]
        if name in names:
            return "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
    raise LookupError(f"examples/nexmark/queries.py has no {name}.")


def _shared_sources() -> list[str]:
    texts = [_source("EURO"), _source("valid_bids"), _source("RANKS")]
    texts += [_source("bids_by_rank"), _source("different_by_rank")]
    return "\n\n\n".join(texts).splitlines()


def _rate(figure: Figures | None) -> str:
    if figure is None:
        return ""
    rate = figure["events_per_s"]
    return f"{rate / 1e6:,.1f} M" if rate >= 1e6 else f"{rate / 1e3:,.0f} k"


if __name__ == "__main__":
    PAGE.write_text(page())
