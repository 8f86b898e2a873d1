"""Record README's run of a killed worker: ``python scripts/recording.py`` runs ``pointstamp demo`` on Spark.

The output of the command is written to docs/images/demo.txt, with the second of each line, without lines of
the JVM and lines with addresses and folders of the machine. The picture docs/images/demo.svg is drawn from
that file: each line appears when it was printed, with pauses of at most a second. ``--draw`` only draws.
"""

import subprocess
import sys
from html import escape
from pathlib import Path
from textwrap import wrap
from time import monotonic
from typing import Final

IMAGES: Final = Path(__file__).parent.parent / "docs" / "images"
TEXT: Final = IMAGES / "demo.txt"
PICTURE: Final = IMAGES / "demo.svg"
COMMAND: Final = "pointstamp demo"
PAUSE_SECONDS_MAX: Final = 1.0
COLUMNS: Final = 140
_LEFT_OUT: Final = (
    "WARNING: Using incubator",
    "Setting ",
    "To adjust logging",
    "pointstamp: the dashboard",
    "the output is in",
    "  python -c",
)
_WIDTH, _HEIGHT, _MARGIN = 7.0, 17.0, 14.0
_STYLE: Final = (
    "text{font:11.5px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d7dce2;white-space:pre;"
    "animation:appear linear both steps(1,end)}@keyframes appear{from{opacity:0}to{opacity:1}}"
    ".command{fill:#8ecbff}.killed{fill:#ff9d8a}.result{fill:#9be29b}"
    "@media(prefers-reduced-motion){text{animation:none}}"
)


def record() -> str:
    """Run the demo; each line that it prints with the second since the start, separated by a tab."""
    command = [sys.executable, "-m", "pointstamp.cli.main", *COMMAND.split()[1:]]
    began, lines = monotonic(), [f"0.0\t$ {COMMAND}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            sys.stderr.write(line)
            if not line.startswith(_LEFT_OUT):
                lines.append(f"{monotonic() - began:.1f}\t{line.rstrip()}")
    if process.returncode:
        raise RuntimeError(f"'{' '.join(command)}' ended with {process.returncode}; nothing is recorded.")
    while lines[-1].endswith("\t"):
        lines.pop()
    return "\n".join(lines) + "\n"


def picture(recorded: str) -> str:
    r"""The picture of a recording as SVG.

    >>> picture("0.0\t$ a\n9.0\tb\n").count("<text")
    2
    >>> "animation-duration:1.0s" in picture("0.0\t$ a\n9.0\tb\n")
    True
    """
    timed = [line.split("\t", 1) for line in recorded.splitlines()]
    lines = [
        (second, part)
        for second, text in timed
        for part in wrap(text, COLUMNS, subsequent_indent="    ", drop_whitespace=False) or [""]
    ]
    width = 2 * _MARGIN + _WIDTH * max(len(text) for _, text in lines)
    height = 2 * _MARGIN + _HEIGHT * len(lines)
    parts: list[str] = []
    shown = before = 0.0
    for number, (second, text) in enumerate(lines, 1):
        shown += min(float(second) - before, PAUSE_SECONDS_MAX)
        before = float(second)
        kind = (
            "command"
            if text.startswith("$")
            else "killed"
            if "killed worker" in text
            else "result"
            if "Spark's own answer" in text or "all there again" in text
            else "line"
        )
        parts.append(
            f'<text x="{_MARGIN:g}" y="{_MARGIN + _HEIGHT * number - 5:g}" class="{kind}" '
            f'xml:space="preserve" style="animation-duration:{shown:.1f}s">{escape(text, quote=False)}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}"><style>{_STYLE}</style>'
        f'<rect width="100%" height="100%" rx="8" fill="#1f2430"/>\n' + "\n".join(parts) + "</svg>\n"
    )


if __name__ == "__main__":
    if "--draw" not in sys.argv:
        TEXT.write_text(record(), encoding="utf-8")
    PICTURE.write_text(picture(TEXT.read_text(encoding="utf-8")), encoding="utf-8")
