"""Writes views.md: what a change costs each query of TPC-DS as a view, beside Spark from scratch.

    .venv/bin/python -m benchmarks.views.page

The text before the figures is ``page_head.md``; the figures are the lines of ``results.jsonl`` beside this
file, as ``benchmarks.views.tpcds`` writes them. Of several lines for one query and scale the last counts. A
test keeps the page what this makes of them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

_FOLDER: Final = Path(__file__).parent
PAGE: Final = _FOLDER.parent.parent / "docs" / "benchmarks" / "views.md"
RESULTS: Final = _FOLDER / "results.jsonl"
HEAD: Final = _FOLDER / "page_head.md"
"""What stands before the figures."""
QUERIES: Final = 99

Figures = Mapping[str, Any]

_COLUMNS: Final[dict[str, Callable[[Figures], str]]] = {
    "rows": lambda each: f"{each['rows'] / 1e6:,.2f} M",
    "define, ms": lambda each: f"{each['define_ms']:,.0f}",
    "load, s": lambda each: _both(each, "load_s", "load_cpu_s"),
    "changed rows": lambda each: f"{each['changed_rows']:,.0f}",
    "refresh, ms": lambda each: _both(each, "refresh_ms", "refresh_cpu_ms"),
    "worst, ms": lambda each: _both(each, "worst_ms", "worst_cpu_ms"),
    "state, MB": lambda each: f"{each['state_mb']:,.1f}",
    "Spark, ms": lambda each: _both(each, "spark_ms", "spark_cpu_ms"),
    "Spark / refresh": lambda each: _both(each, "times_spark", "times_spark_cpu"),
}
"""The columns of the table, and what they show of a line."""


def page() -> str:
    """The whole page."""
    figures = measured(RESULTS.read_text() if RESULTS.exists() else "")
    parts = [HEAD.read_text()]
    for scale in sorted({scale for scale, _ in figures}, reverse=True):
        lines = [each for (of, _), each in sorted(figures.items()) if of == scale]
        parts += [f"## Scale {scale:g}", "", summary(lines), "", table(lines), ""]
    if not figures:
        parts += ["No figures are here yet: the command above writes them.", ""]
    return "\n".join(parts)


def measured(text: str) -> dict[tuple[float, int], Figures]:
    """The last line of each scale and query."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {(each["scale"], each["query"]): each for each in lines if "query" in each}


def summary(lines: Sequence[Figures]) -> str:
    """How many views are incremental, and how their refreshes compare."""
    ran = [each for each in lines if "rejected" not in each]
    rejected = [f"q{each['query']}: {each['rejected']}" for each in lines if "rejected" in each]
    parts = [f"Of {len(lines)} queries, {len(ran)} are incremental views that are equal to Spark's answer."]
    if ran:
        times, cpu = ([each[name] for each in ran] for name in ("times_spark", "times_spark_cpu"))
        slower, slower_cpu = (sum(each < 1 for each in of) for of in (times, cpu))
        refresh, define = (median(each[name] for each in ran) for name in ("refresh_ms", "define_ms"))
        loads = sorted(each["load"] for each in ran)
        parts.append(
            f"One recomputation by Spark is worth {median(times):,.1f} refreshes in the median by wall-clock "
            f"time and {median(cpu):,.1f} by CPU time; a refresh is slower than it for {slower} and "
            f"{slower_cpu} queries. The median refresh takes {refresh:,.0f} ms, the definition of a view "
            f"{define:,.0f} ms beyond Spark's analysis. The load of the machine was {loads[0]:g} to "
            f"{loads[-1]:g} on two cores."
        )
    if len(lines) < QUERIES:
        parts.append(f"The other {QUERIES - len(lines)} queries have not been run at this scale.")
    return " ".join([*parts, *rejected])


def table(lines: Sequence[Figures]) -> str:
    """The figures of each query."""
    head = "| query | " + " | ".join(_COLUMNS) + " |\n| --- |" + " ---: |" * len(_COLUMNS)
    rows = [
        f"| q{each['query']} | " + " | ".join(show(each) for show in _COLUMNS.values()) + " |"
        for each in lines
        if "rejected" not in each
    ]
    return "\n".join([head, *rows])


def _both(each: Figures, wall: str, cpu: str) -> str:
    return f"{_shown(each[wall])} / {_shown(each[cpu])}"


def _shown(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:,.1f}" if number >= 1 else f"{number:,.2f}"


if __name__ == "__main__":
    PAGE.write_text(page())
