"""The table of algorithms, graphs and systems: each cell in a process of its own, with limits, and once.

    .venv/bin/python -m benchmarks.graphs.run [--graph r-mat --size 262144] [--algorithm bfs ...]
        [--system "one worker" ...] [--seconds 300] [--megabytes 8000] [--pathway PYTHON] [--epochs 100]
        [--change 100] [--again]

Every cell that is asked for and not in ``results.jsonl`` yet is run, one after the other, and its line is
added there, so that a run that was interrupted continues where it was. ``outcome`` is *done*, *timed out*,
*too large* or *failed*; ``seconds`` are those of the clock, ``processor_s`` those of the processor for all
processes of a cell; ``checked`` says whether the answer is that of the oracle, igraph's, scipy's or numpy's,
``off`` how far the worst value is off, of itself. With ``--epochs`` so many epochs of ``--change`` inserts
and as many deletes come after the load (``epochs``), and the line has the ``measure`` *epochs of 100*.

Pathway is no dependency of ours: PYTHON is the interpreter of an environment that has it. It has two threads,
and one in epochs, as ours has one worker there; its telemetry is switched off. A graph on which it and
ours both come to ranks within two minutes of one core is

    .venv/bin/python -m benchmarks.graphs.run --size 20000 --algorithm pagerank --system "one worker" Pathway
        --epochs 5 --change 500 --seconds 150 --pathway PYTHON
"""

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks.figures import Figures, last_of_each, line_of
from benchmarks.graphs.generators import GRAPHS
from benchmarks.graphs.given import Given, read_answer
from benchmarks.graphs.libraries import IGRAPH, SCIPY
from benchmarks.graphs.peers import ALGORITHMS
from benchmarks.limits import Ended, Limits, run_limited

RESULTS: Final = Path(__file__).parent / "results.jsonl"
SIX: Final = ("bfs", "pagerank", "wcc", "cdlp", "lcc", "sssp")
SCRATCH: Final = "from scratch"
HAVE: Final[dict[str, Sequence[str]]] = {
    "one worker": SIX,
    "two processes": SIX,
    "Spark": SIX,
    "igraph": tuple(IGRAPH),
    "scipy": tuple(SCIPY),
    "GraphX": ("bfs", "pagerank", "wcc", "cdlp", "lcc"),
    "Pathway": ("bfs", "pagerank", "sssp"),
}
"""What each system has of the six."""
HAVE_EPOCHS: Final[dict[str, Sequence[str]]] = {"one worker": SIX, "Pathway": ("pagerank",)}
"""What is measured epoch by epoch; igraph, scipy and numpy are in the line of ours."""

NAMES: Final = ("measure", "case", "graph", "size", "contender")
"""What two lines of one cell have in common."""


@dataclass(frozen=True)
class Cell:
    """What is measured."""

    measure: str
    case: str
    contender: str
    given: Given

    @property
    def key(self) -> tuple[object, ...]:
        """By what its line is found."""
        return self.measure, self.case, self.given.graph, self.given.size, self.contender


class Runner:
    """Runs cells within limits."""

    def __init__(self, limits: Limits, pathway: str | None, epochs: int, change: int) -> None:
        self._limits = limits
        self._pathway = pathway
        self._updates = str(epochs), str(change)

    def line(self, cell: Cell) -> str:
        """Run a cell; its line."""
        given = cell.given
        answer = given.folder / "answer.npz"
        answer.unlink(missing_ok=True)
        load = os.getloadavg()[0]
        ended = self._run(cell)
        found: Figures = next((each for each in ended.lines if each["case"] == cell.case), {})
        found = {name: each for name, each in found.items() if name not in ("case", "load")}
        if ended.outcome == "failed":
            found["said"] = ended.said.strip().splitlines()[-1][:200] if ended.said.strip() else ""
        elif answer.exists() and "checked" not in found:
            found.update(self._checked(cell, answer))
        return line_of(
            cell.case,
            measure=cell.measure,
            graph=given.graph,
            size=given.size,
            contender=cell.contender,
            outcome=ended.outcome,
            limit_s=self._limits.seconds,
            peak_mb=round(ended.peak_megabytes),
            load_before=round(load, 1),
            **found,
        )

    def _run(self, cell: Cell) -> Ended:
        given = cell.given
        about = [cell.case, given.graph, str(given.size), str(given.folder)]
        if cell.contender == "Pathway":
            given.csv()
            script = str(Path(__file__).parent / "pathway_peer.py")
            updates = self._updates if cell.measure != SCRATCH else ()
            command = [str(self._pathway), script, *about, *updates]
            threads = "1" if cell.measure != SCRATCH else "2"
            settings = {"PATHWAY_THREADS": threads, "PATHWAY_TELEMETRY_SERVER": "", "PYTHONPATH": os.getcwd()}
            return run_limited(command, self._limits, **settings)
        if cell.measure != SCRATCH:
            return self._module("benchmarks.graphs.epochs", [*about, *self._updates])
        return self._module("benchmarks.graphs.cell", [cell.contender, *about])

    def _module(self, name: str, arguments: list[str]) -> Ended:
        return run_limited([sys.executable, "-m", name, *arguments], self._limits)

    def _checked(self, cell: Cell, answer: Path) -> Figures:
        """Whether the answer is the oracle's, which is asked first if it was not yet."""
        found, given = read_answer(answer), cell.given
        kept = given.place / f"{cell.case}.npz"
        if not kept.exists():
            arguments = ["oracle", cell.case, given.graph, str(given.size), str(given.folder)]
            if self._module("benchmarks.graphs.cell", arguments).outcome != "done":
                return {"checked": False, "said": "the oracle did not answer within the limits"}
            answer.rename(kept)
        off = ALGORITHMS[cell.case].off(found, read_answer(kept))
        return {"checked": off <= ALGORITHMS[cell.case].tolerance, "off": f"{off:.1e}"}


def asked_for(asked: argparse.Namespace, folder: Path) -> Iterator[Cell]:
    """The cells that are asked for."""
    given = Given(asked.graph, asked.size, folder)
    measure, have = (f"epochs of {asked.change}", HAVE_EPOCHS) if asked.epochs else (SCRATCH, HAVE)
    for case, contender in product(asked.algorithm, asked.system):
        if case in have.get(contender, ()) and (contender != "Pathway" or asked.pathway):
            yield Cell(measure, case, contender, given)


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graph", choices=GRAPHS, default="uniform")
    parser.add_argument("--size", type=int, default=1 << 14)
    parser.add_argument("--algorithm", nargs="+", choices=SIX, default=SIX)
    parser.add_argument("--system", nargs="+", choices=HAVE, default=list(HAVE))
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--megabytes", type=float, default=8_000.0)
    parser.add_argument("--pathway", help="the Python of an environment with pathway")
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--change", type=int, default=100)
    parser.add_argument("--again", action="store_true", help="also the cells that have a line")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "pointstamp-bench-graphs"))
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside, and with it the cell"))
    asked.folder.mkdir(parents=True, exist_ok=True)
    runner = Runner(Limits(asked.seconds, asked.megabytes), asked.pathway, asked.epochs, asked.change)
    for cell in asked_for(asked, asked.folder):
        text = asked.results.read_text() if asked.results.exists() else ""
        if asked.again or cell.key not in last_of_each(text, *NAMES):
            line = runner.line(cell)
            with asked.results.open("a") as results:
                results.write(line + "\n")
            print(line, flush=True)


if __name__ == "__main__":
    main()
