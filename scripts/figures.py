"""Draw the bar chart of README's figures: ``python scripts/figures.py`` writes docs/images/figures.svg.

The figures are those of pages below docs/benchmarks; a test compares them. The scale is logarithmic, because
the figures range over four orders of magnitude.
"""

import math
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

CHART: Final = Path(__file__).parent.parent / "docs" / "images" / "figures.svg"


class Bar(NamedTuple):
    """A figure in milliseconds, with the words of its label."""

    who: str
    milliseconds: float


class Case(NamedTuple):
    """Figures that are compared: title, page, and bars, ours first."""

    title: str
    page: str
    bars: tuple[Bar, ...]


CASES: Final = (
    Case(
        "TPC-DS, 1 % of the facts changed, median of 99 views",
        "views.md",
        (Bar("pointstamp", 7.6), Bar("Spark, recomputed", 443)),
    ),
    Case(
        "TPC-H, 1,000 rows changed, median of 22 views",
        "tpch.md",
        (Bar("pointstamp", 3.7), Bar("DuckDB, recomputed", 38.5)),
    ),
    Case(
        "Shortest paths in 5 M edges, 200 changed",
        "graphalytics.md",
        (Bar("pointstamp", 3.9), Bar("scipy, recomputed", 541)),
    ),
    Case(
        "Counts, 1,000 rows into 1 M text keys",
        "peers.md",
        (Bar("pointstamp", 0.28), Bar("differential dataflow (Rust)", 4.63)),
    ),
    Case(
        "Empty epoch, two processes",
        "peers.md",
        (Bar("pointstamp", 0.117), Bar("timely dataflow (Rust)", 0.0591)),
    ),
)
LEAST, MOST = 0.01, 10_000.0
LEFT, WIDTH, ROW = 200.0, 460.0, 22.0


def told(milliseconds: float) -> str:
    """A time with its unit.

    >>> told(0.072), told(9.1), told(2400)
    ('72 us', '9.1 ms', '2.4 s')
    """
    if milliseconds < 0.5:
        return f"{milliseconds * 1000:g} us"
    return f"{milliseconds:g} ms" if milliseconds < 1000 else f"{milliseconds / 1000:g} s"


def length(milliseconds: float) -> float:
    """How long a bar is."""
    return WIDTH * math.log(milliseconds / LEAST) / math.log(MOST / LEAST)


def chart() -> str:
    """The chart as SVG."""
    parts, y = [], 10.0
    for case in CASES:
        y += 22
        parts.append(f'<text x="0" y="{y:g}" class="title">{escape(case.title)}</text>')
        for bar in case.bars:
            y += ROW
            kind = "ours" if bar.who == "pointstamp" else "theirs"
            wide = length(bar.milliseconds)
            parts += [
                f'<text x="{LEFT - 8:g}" y="{y:g}" text-anchor="end">{escape(bar.who)}</text>',
                f'<rect x="{LEFT:g}" y="{y - 12:g}" width="{wide:.1f}" height="15" rx="2" class="{kind}"/>',
                f'<text x="{LEFT + wide + 6:.1f}" y="{y:g}">{told(bar.milliseconds)}</text>',
            ]
        y += 10
    style = (
        "text{font:13px system-ui,sans-serif;fill:#57606a}.title{font-weight:600;fill:#6e7781}"
        ".ours{fill:#3f51b5}.theirs{fill:#b0b7c3}"
    )
    y += 14
    parts.append(f'<text x="{LEFT:g}" y="{y:g}">logarithmic scale, shorter is better</text>')
    size = f'width="740" height="{y + 10:g}" viewBox="0 0 740 {y + 10:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>'
        + "\n".join(parts)
        + "</svg>\n"
    )


if __name__ == "__main__":
    CHART.write_text(chart(), encoding="utf-8")
