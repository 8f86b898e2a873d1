"""The display of ``pointstamp check models``: tasks while they run, and the table at the end.

On a terminal both are drawn with rich, the running tasks on standard error so that standard output has
nothing but the result. Elsewhere they are plain lines without control codes: one for each finished task on
standard error, the table on standard output.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from pointstamp_models.exploring import report
from pointstamp_models.exploring.judge import Task, Verdict
from pointstamp_models.exploring.models import (
    Event,
    Findings,
    RunPlanned,
    TaskFinished,
    TaskProgressed,
    TaskStarted,
)

Notice = Callable[[Event], None]

_WRONG_STYLE: Final = "bold red"


@contextmanager
def progress(*, quiet: bool) -> Iterator[Notice]:
    """Show tasks while they run; ``quiet`` shows nothing where no terminal would draw it over itself."""
    console = Console(stderr=True)
    if _draws(console):
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[news]}", markup=False, justify="right"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        ) as bars:
            yield _LiveTasks(bars).notice
    else:
        yield _say_nothing if quiet else _say_what_finished


def show(findings: Findings, *, verbose: bool) -> None:
    """Print the table, then each mutant if asked for, then what is wrong, then the summary."""
    console = Console()
    if _draws(console):
        console.print(_table(findings))
    else:
        sys.stdout.write(report.table_text(findings) + "\n")
    for text in (
        report.mutants_text(findings) if verbose else "",
        report.failures_text(findings),
        report.summary_text(findings),
    ):
        if text:
            sys.stdout.write(f"\n{text}\n")


def _draws(console: Console) -> bool:
    # Asked of the file itself: rich takes FORCE_COLOR in the environment for a terminal.
    return console.file.isatty() and not console.is_dumb_terminal


class _LiveTasks:
    """One line for the whole run and one for each running task; changed by ``notice`` alone."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._lines: dict[Task, TaskID] = {}
        self._planned = 0
        self._finished = 0
        self._wrong = 0
        self._whole = bars.add_task("judging", total=None, news="")

    def notice(self, event: Event) -> None:
        """Show what has happened."""
        match event:
            case RunPlanned(tasks):
                self._planned = tasks
            case TaskStarted(task):
                self._lines[task] = self._bars.add_task(f"{task.model}: {task.name}", total=None, news="")
            case TaskProgressed(task, progress):
                news = f"{progress.states:,} states, {progress.waiting:,} waiting, depth {progress.depth}"
                self._bars.update(self._lines[task], news=news)
            case TaskFinished(task, verdict):
                self._bars.remove_task(self._lines.pop(task))
                self._finished += 1
                self._wrong += not verdict.right
                news = f"{self._finished} of {self._planned} done" + (
                    f", {self._wrong} WRONG" if self._wrong else ""
                )
                self._bars.update(self._whole, news=news)


def _say_nothing(event: Event) -> None:
    del event


def _say_what_finished(event: Event) -> None:
    match event:
        case RunPlanned() | TaskStarted() | TaskProgressed():
            pass
        case TaskFinished(task, verdict):
            sys.stderr.write(f"{task.model}: {task.kind} {task.name}: {_word(verdict)}\n")
            sys.stderr.flush()


def _word(verdict: Verdict) -> str:
    word = "right" if verdict.right else "WRONG: " + "; ".join(verdict.problems)
    extent = f"{verdict.cases:,} cases" if verdict.cases else f"{verdict.states:,} states"
    return f"{word} ({extent}, {verdict.seconds:.1f} s)"


def _table(findings: Findings) -> Table:
    table = Table(title="Models")
    for name in report.COLUMNS:
        table.add_column(name, justify="right" if name in report.NUMBER_COLUMNS else "left")
    model = ""
    for row in report.rows(findings):
        if model and row.model != model:
            table.add_section()
        cells = [Text(cell) for cell in row.cells()]
        if row.model == model:
            cells[0] = Text("")
        model = row.model
        table.add_row(*cells, style="" if row.right else _WRONG_STYLE)
    return table
