"""Writes docs/benchmarks/graphalytics.md: the figures of algorithms, graphs and systems that were measured.

    .venv/bin/python -m benchmarks.graphs.page

The text before them is ``page_head.md``; the figures are the lines of ``results.jsonl``, as ``run`` and
``streaming`` leave them, and of several for one cell the last counts. A cell that was not run is empty. A
test keeps the page what this makes of them.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import Figures, last_of_each
from benchmarks.graphs.run import HAVE, NAMES, RESULTS, SCRATCH, SIX

_FOLDER: Final = Path(__file__).parent
PAGE: Final = _FOLDER.parent.parent / "docs" / "benchmarks" / "graphalytics.md"
HEAD: Final = _FOLDER / "page_head.md"

_NAMES: Final = {
    "bfs": "BFS",
    "pagerank": "PageRank",
    "wcc": "WCC",
    "cdlp": "CDLP",
    "lcc": "LCC",
    "sssp": "SSSP",
}
_WHAT: Final = {"r-mat": "R-MAT", "uniform": "uniform", "grid": "grid", "chain": "chain"}


def page() -> str:
    """The whole page."""
    found = last_of_each(RESULTS.read_text(), *NAMES)
    lines = sorted(found.values(), key=_order)
    scratch = [each for each in lines if each["measure"] == SCRATCH]
    epochs = [each for each in lines if each["measure"].startswith("epochs")]
    streamed = [each for each in lines if each["measure"] == "streaming"]
    parts = [HEAD.read_text().rstrip(), "", "## From scratch", ""]
    parts += _table(["graph", "algorithm", *HAVE], _scratch_rows(scratch))
    parts += ["", "## Epoch by epoch", ""]
    heads = ["graph", "algorithm", "inserts and deletes", "system", "load", "epoch"]
    heads += ["from scratch", "answer alone", "ratio"]
    parts += _table(heads, map(_epoch_row, epochs))
    parts += ["", "## Ranks that stream on Spark", ""]
    heads = ["graph", "ranks", "edges that change", "load", "median", "p95", "worst", "rows published"]
    parts += _table(heads, map(_streamed_row, streamed))
    parts += ["", "## Aims", "", *_aims(scratch, epochs)]
    return "\n".join([*parts, ""])


def _aims(scratch: Sequence[Figures], epochs: Sequence[Figures]) -> list[str]:
    """What was aimed at, and what the lines say of it."""
    ours = [each for each in epochs if each["contender"] == "one worker"]
    done = [each for each in ours if each["outcome"] == "done"]
    slower = [_what(each) for each in done if _ratio(each) <= 1]
    without = [_what(each) for each in ours if each["outcome"] != "done"]
    ahead = f"met by {len(done) - len(slower)}, missed by {', '.join(slower) or 'none'}"
    largest = {each["case"] for each in scratch if (each["graph"], each["size"]) == ("r-mat", 1 << 20)}
    ranks = {
        each["contender"]: each
        for each in epochs
        if (each["case"], each["graph"], each["size"]) == ("pagerank", "uniform", 1_000_000)
    }
    said = "not measured"
    if {"one worker", "Pathway"} <= ranks.keys():
        mine, theirs = ranks["one worker"], ranks["Pathway"]
        both = mine["outcome"] == theirs["outcome"] == "done"
        said = "not comparable" if not both else "met" if mine["epoch_ms"] < theirs["epoch_ms"] else "missed"
    return [
        f"- Faster than GraphX, both on Spark, start included: {_compared(scratch, 'Spark', 'GraphX', 1)}.",
        "- Within three times igraph's one thread, on one worker: "
        f"{_compared(scratch, 'one worker', 'igraph', 3)}.",
        f"- An epoch costs less CPU time than the answer from scratch: {ahead}, without a figure for "
        f"{', '.join(without) or 'none'}.",
        f"- All six on an R-MAT graph of 2^20 vertices and 16 M edges: {len(largest)} of 6 measured.",
        f"- PageRank of 5 M edges of which 1,000 change, ahead of Pathway in the same run: {said}"
        f"{_beside_pathway(epochs)}.",
    ]


def _compared(scratch: Sequence[Figures], mine: str, theirs: str, times: float) -> str:
    """Where we take less than so many times their seconds, and where not; whoever was stopped took more."""
    by_row: dict[tuple[str, int, str], dict[str, Figures]] = {}
    for each in scratch:
        by_row.setdefault((each["graph"], each["size"], each["case"]), {})[each["contender"]] = each
    met = 0
    missed: list[str] = []
    neither: list[str] = []
    for row in by_row.values():
        own, other = row.get(mine), row.get(theirs)
        if own is None or other is None:
            continue
        if own["outcome"] != "done":
            (missed if other["outcome"] == "done" else neither).append(_where(own))
        elif other["outcome"] == "done" and own["seconds"] > times * other["seconds"]:
            missed.append(f"{_where(own)} ({own['seconds'] / other['seconds']:.1f})")
        else:
            met += 1
    told = f"met by {met}, missed by {', '.join(missed) or 'none'}"
    return told + (f"; both were stopped for {', '.join(neither)}" if neither else "")


def _where(line: Figures) -> str:
    return f"{_NAMES[line['case']]} on {_WHAT[line['graph']]} {line['size']:,}"


def _beside_pathway(epochs: Sequence[Figures]) -> str:
    """An epoch of PageRank by us and by Pathway, on the largest smaller graph that both could do."""
    there: dict[tuple[int, str], dict[str, Figures]] = {}
    for each in epochs:
        if (each["case"], each["graph"], each["outcome"]) == ("pagerank", "uniform", "done"):
            there.setdefault((each["size"], each["measure"]), {})[each["contender"]] = each
    both = [here for (size, _), here in sorted(there.items()) if len(here) > 1 and size < 1_000_000]
    if not both:
        return ""
    mine, theirs = both[-1]["one worker"], both[-1]["Pathway"]
    return (
        f"; of {mine['edges']:,} edges, {2 * mine['change']:,} of which change, an epoch of ours takes "
        f"{_figure(mine['epoch_ms'])} ms and one of Pathway {_figure(theirs['epoch_ms'])} ms"
    )


def _what(line: Figures) -> str:
    return f"{_NAMES[line['case']]} on {_WHAT[line['graph']]}"


def _ratio(line: Figures) -> float:
    """How many epochs go into one answer from scratch, of the processor's time."""
    return float(line["peer_processor_ms"] / line["epoch_processor_ms"])


def _order(line: Figures) -> tuple[Any, ...]:
    case = SIX.index(line["case"]) if line["case"] in SIX else 0
    return (
        list(_WHAT).index(line["graph"]),
        line["size"],
        case,
        line["measure"],
        line["contender"],
        line["case"],
    )


def _scratch_rows(lines: Sequence[Figures]) -> Iterable[list[str]]:
    """A row for each graph and algorithm, in the order of the lines."""
    rows = dict.fromkeys((each["graph"], each["size"], each["case"]) for each in lines)
    for graph, size, case in rows:
        here = {
            each["contender"]: each
            for each in lines
            if (each["graph"], each["size"], each["case"]) == (graph, size, case)
        }
        shown = [_seconds(here.get(system), system, case) for system in HAVE]
        yield [_graph(list(here.values())), _NAMES[case], *shown]


def _seconds(line: Figures | None, system: str, case: str) -> str:
    """Seconds by the clock and, in brackets, of the processor; or why there are none."""
    if case not in HAVE[system]:
        return "-"
    if line is None:
        return ""
    if line["outcome"] != "done":
        return _ended(line)
    return f"{_figure(line['seconds'])} ({_figure(line['processor_s'])})" + ("" if line["checked"] else " *")


def _ended(line: Figures) -> str:
    """How a cell ended without an answer; for the clock's limit, also how busy the machine was."""
    if line["outcome"] != "timed out":
        return str(line["outcome"])
    return f"timed out ({line['limit_s']:.0f} s, load {line['load']:.0f})"


def _epoch_row(line: Figures) -> list[str]:
    what = [_graph([line]), _NAMES[line["case"]], line["measure"].rpartition(" ")[2], line["contender"]]
    if line["outcome"] != "done":
        return [*what, "", _ended(line), "", "", ""]
    mark = "" if line["checked"] else " *"
    shown = [f"{_figure(line['load_s'])} s", f"{_figure(line['epoch_ms'])} ms{mark}"]
    if "peer_ms" not in line:
        return [*what, *shown, "", "", ""]
    peer = [f"{_figure(line[name])} ms" for name in ("peer_ms", "solve_ms")]
    return [*what, *shown, *peer, _figure(_ratio(line))]


def _streamed_row(line: Figures) -> list[str]:
    mark = "" if line["checked"] else " *"
    times = [f"{_figure(line[name])} ms" for name in ("ms_median", "ms_p95", "ms_worst")]
    first = [_graph([line]), line["case"], str(line["change"]), f"{_figure(line['load_s'])} s{mark}"]
    return [*first, *times, f"{line['rows']:,.0f}"]


def _graph(lines: Sequence[Figures]) -> str:
    """What graph it is, with its size where a line says it."""
    line = next((each for each in lines if "edges" in each), lines[0])
    count = f"{line['vertices']:,} / {line['edges']:,}" if "edges" in line else f"{line['size']:,}"
    return f"{_WHAT[line['graph']]} {count}"


def _figure(number: float) -> str:
    """Two digits that count, and all before the point."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.2g}" if number < 10 else f"{number:.0f}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [" | ".join(heads), "|".join("---" for _ in heads), *(" | ".join(row) for row in rows)]
    return [f"| {line} |" for line in lines]


if __name__ == "__main__":
    PAGE.write_text(page())
