"""Writes docs/benchmarks/peers.md: what each row of the table took this project and its peers.

    .venv/bin/python -m benchmarks.peers.page

The text before the table is ``page_head.md``; the figures are the lines of ``results.jsonl``, as ``table``
prints them, and of several for one row the last counts. A test keeps the page what this makes of them.
"""

from pathlib import Path
from typing import Final

from benchmarks.figures import Figures, last_of_each
from benchmarks.peers.rows import MEASUREMENTS
from benchmarks.peers.table import OURS, RESULTS

_FOLDER: Final = Path(__file__).parent
PAGE: Final = _FOLDER.parent.parent / "docs" / "benchmarks" / "peers.md"
HEAD: Final = _FOLDER / "page_head.md"

PEERS: Final = ("timely", "differential", "bytewax", "pathway")


def page(text: str) -> str:
    """The whole page, of the lines of a run."""
    found = {case: line for (case,), line in last_of_each(text, "case").items()}
    lines = [found[title] for title in titles() if title in found]
    trees = _trees(lines)
    heads = ["", *trees, *(head for peer in PEERS for head in (peer, "x"))]
    parts = [HEAD.read_text().rstrip(), "", "## Wall-clock time", "", *_table(heads, lines, trees)]
    parts += ["", "## CPU time", ""]
    parts += ["CPU time of one worker without other programs, if measured.", ""]
    spent = [line for line in lines if OURS in line["processor_us"]]
    parts += _table(heads, [_of_processor(line) for line in spent], trees)
    return "\n".join([*parts, ""])


def titles() -> list[str]:
    """The titles of all rows of a whole run, in their order."""
    return [title.format(**row.sizes_of(short=False)) for row in MEASUREMENTS for title in row.titles]


def _trees(lines: list[Figures]) -> list[str]:
    """The columns of this project: other trees that were measured beside it, and itself."""
    names = dict.fromkeys(name for line in lines for name in line if name.endswith("_us"))
    others = [name.removesuffix("_us") for name in names if name != "processor_us"]
    return [*(name for name in others if name not in PEERS), OURS]


def _table(heads: list[str], lines: list[Figures], trees: list[str]) -> list[str]:
    rows = [heads, ["---"] * len(heads)]
    for line in lines:
        cells = [line["case"], *(_cell(line, name) for name in trees)]
        for peer in PEERS:
            cells += [_cell(line, peer), _times(line, peer)]
        rows.append(cells)
    return [f"| {' | '.join(row)} |" for row in rows]


def _of_processor(line: Figures) -> Figures:
    """The line with times of the processor in the place of those by the clock."""
    spent = line["processor_us"]
    named = {"us" if name == OURS else f"{name}_us": value for name, value in spent.items()}
    return {"case": line["case"], "ended": {}, **named}


def _cell(line: Figures, name: str) -> str:
    if name in line["ended"]:
        return str(line["ended"][name])
    value = line.get("us" if name == OURS else f"{name}_us")
    return "" if value is None else _time(value)


def _times(line: Figures, peer: str) -> str:
    ours, theirs = line.get("us"), line.get(f"{peer}_us")
    return "" if ours is None or theirs is None else f"{ours / theirs:.2g}"


def _time(microseconds: float) -> str:
    """A time with two or three digits that count, in the unit that it is read best in."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3g} {unit}"
    return f"{microseconds:.3g} us"


if __name__ == "__main__":
    PAGE.write_text(page(RESULTS.read_text()))
