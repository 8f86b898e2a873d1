"""The table of this project beside timely, differential dataflow, bytewax and Pathway, in one run.

    .venv/bin/python -m benchmarks.peers.table [--short] [--before PYTHON TREE] [--results FILE]

Every cell is a process of its own, with a limit of time; the contenders of a row take turns, and the median
of the turns counts. The Python peers have one turn. ``--before`` is another tree of this project with an
interpreter that has its dependencies, ``--beside NAME PYTHON TREE`` one more column; both are measured with
the benchmarks of this tree. Peers are built and installed by the script (see ``environments``); one that
cannot be had is named on the standard error and left out.

One JSON line per row: ``us`` is what one takes by the clock, in microseconds, and ``PEER_us`` what it takes a
peer; ``processor_us`` is the processor time of those that one worker did alone, and ``ended`` says why a
contender has no figure. Every contender checks its own answer. ``page`` makes docs/benchmarks/peers.md of
the lines.
"""

import argparse
import json
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.figures import Figures
from benchmarks.limits import Limits, run_limited
from benchmarks.peers.environments import PYTHON_PEERS, ROOT, PeerMissingError, python_with, rust_program
from benchmarks.peers.rows import MEASUREMENTS, TURNS, Measurement, Sizes

RESULTS: Final = Path(__file__).parent / "results.jsonl"
OURS: Final = "pointstamp"


@dataclass
class ContenderTurns:
    """What the turns of one contender have given, figure by figure, or why they gave nothing."""

    seconds: list[list[float]] = field(default_factory=list)
    processor: list[list[float]] = field(default_factory=list)
    ended: str | None = None

    def add(self, lines: list[Figures]) -> None:
        """Take the lines of one turn."""
        self.seconds.append([each["seconds"] for each in lines])
        known = [each.get("processor_seconds") for each in lines]
        if all(known):
            self.processor.append([each for each in known if each is not None])


@dataclass(frozen=True)
class Contenders:
    """Who can be asked: the Rust program, the Python peers, and the trees of this project."""

    rust: Path | None
    python: dict[str, Path]
    trees: dict[str, tuple[str, Path]]

    def commands(self, row: Measurement, sizes: Sizes) -> dict[str, tuple[list[str], dict[str, str]]]:
        """What to run for a row, with its environment, by contender."""
        given = [f"{name}={number}" for name, number in sizes.items()]
        found: dict[str, tuple[list[str], dict[str, str]]] = {}
        if self.rust is not None:
            around = [sys.executable, "-m", "benchmarks.peers.cluster"] if row.processes > 1 else []
            for peer, case in row.rust.items():
                found[peer] = ([*around, str(self.rust), case, *given], _path(ROOT))
        for name, (python, tree) in self.trees.items():
            command = [python, "-m", "benchmarks.peers.ours", row.ours, "--tree", str(tree), "--size", *given]
            found[name] = (command, _path(tree / "src", tree / "models" / "src", ROOT))
        for peer in row.python:
            if peer in self.python:
                numbers = [str(sizes[name]) for name in ("rows", "epochs", "keys")]
                module = f"benchmarks.peers.{peer}_peer"
                found[peer] = ([str(self.python[peer]), "-m", module, *numbers], _path(ROOT))
        return found


def _path(*folders: Path) -> dict[str, str]:
    """Where Python finds modules; and Pathway asks nobody, and uses one thread."""
    return {
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "PATHWAY_TELEMETRY_SERVER": "",
        "PATHWAY_THREADS": "1",
    }


def measure(row: Measurement, contenders: Contenders, limits: Limits, *, short: bool) -> list[str]:
    """Run the cells of a row, in turn; its lines."""
    sizes = row.sizes_of(short=short)
    told: dict[str, ContenderTurns] = {}
    for turn in range(1 if short else TURNS):
        for name, (command, environment) in contenders.commands(row, sizes).items():
            here = told.setdefault(name, ContenderTurns())
            if here.ended is not None or (turn and name in PYTHON_PEERS):
                continue
            ended = run_limited(command, limits, **environment)
            if ended.outcome == "done" and len(ended.lines) == len(row.titles):
                here.add(ended.lines)
            else:
                here.ended = _why(ended.outcome, limits)
                print(f"{name}, {row.ours}: {here.ended}. {_last(ended.said)}", file=sys.stderr)
    return [_line(row, number, title.format(**sizes), told) for number, title in enumerate(row.titles)]


def _line(row: Measurement, number: int, title: str, told: dict[str, ContenderTurns]) -> str:
    """One row: the medians of all turns, in microseconds."""
    figures: Figures = {"case": title}
    processor: dict[str, float] = {}
    for name, each in told.items():
        if each.ended is None:
            key = "us" if name == OURS else f"{name}_us"
            figures[key] = _rounded(median(turn[number] for turn in each.seconds) * row.per)
            if each.processor and row.processes == 1:
                processor[name] = _rounded(median(turn[number] for turn in each.processor) * row.per)
    figures["processor_us"] = processor
    figures["ended"] = {name: each.ended for name, each in told.items() if each.ended is not None}
    figures["load"] = round(os.getloadavg()[0], 1)
    return json.dumps(figures)


def _rounded(seconds: float) -> float:
    """Microseconds, with four digits that count."""
    return float(f"{seconds * 1e6:.4g}")


def _why(outcome: str, limits: Limits) -> str:
    if outcome == "timed out":
        return f"not in {limits.seconds:g} s"
    return f"over {limits.megabytes / 1e3:.0f} GB" if outcome == "too large" else "failed"


def _last(said: str) -> str:
    return (said.strip().splitlines() or ["It did not say why."])[-1]


def found_contenders(given: argparse.Namespace) -> Contenders:
    """Build and install the peers; what cannot be had is said and left out."""
    rust: Path | None = None
    python: dict[str, Path] = {}
    try:
        rust = rust_program()
    except PeerMissingError as missing:
        print(f"timely and differential dataflow are left out: {missing}.", file=sys.stderr)
    for peer in PYTHON_PEERS:
        try:
            named = getattr(given, peer)
            python[peer] = Path(named) if named else python_with(peer)
        except PeerMissingError as missing:
            print(f"{peer} is left out: {missing}.", file=sys.stderr)
    trees = {name: (python_, Path(tree)) for name, python_, tree in given.beside}
    if given.before:
        trees["before"] = (given.before[0], Path(given.before[1]))
    return Contenders(rust, python, {**trees, OURS: (sys.executable, ROOT)})


def main() -> None:
    """Measure every row that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="small sizes and one turn: a trial")
    parser.add_argument("--before", nargs=2, metavar=("PYTHON", "TREE"))
    parser.add_argument("--beside", nargs=3, metavar=("NAME", "PYTHON", "TREE"), action="append", default=[])
    parser.add_argument("--only", default="", help="the rows whose title has this text")
    parser.add_argument("--seconds", type=float, default=90.0, help="the limit of a cell")
    parser.add_argument("--megabytes", type=float, default=8_000.0, help="the limit of a cell")
    parser.add_argument("--results", type=Path, help="a file that the lines are added to")
    for peer in PYTHON_PEERS:
        parser.add_argument(f"--{peer}", metavar="PYTHON", help=f"an interpreter that has {peer}")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside, and with it the cell"))
    contenders = found_contenders(given)
    os.chdir(ROOT)
    for row in MEASUREMENTS:
        if any(given.only in title for title in row.titles):
            limits = Limits(given.seconds, given.megabytes)
            for line in measure(row, contenders, limits, short=given.short):
                print(line, flush=True)
                if given.results is not None:
                    with given.results.open("a") as results:
                        results.write(line + "\n")


if __name__ == "__main__":
    main()
