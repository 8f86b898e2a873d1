"""The output of ``pointstamp simulate``: progress and findings as text.

On a terminal progress is drawn with rich, on standard error; elsewhere it is plain lines, ten or so in all.
"""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pointstamp.simulate.crash.events import WorldEvent, describe_world_event
from pointstamp.simulate.crash.setting import CrashRun
from pointstamp.simulate.seeds import FindingKind, Outcome, Report, Simulator
from pointstamp.simulate.shrink import Shrinking
from pointstamp.verify.conformance import Status
from pointstamp.verify.trace import describe_event
from pointstamp.worker.events import MessagePulled, MessageSent, Notified

_LINES: Final = 10
_EVENTS_MAX: Final = 40
_ROWS_MAX: Final = 20
_NOT_REPEATABLE: Final = (
    "Repeated at once, this world went another way: the flow depends on something besides its inputs, such "
    "as the clock, random numbers, or state outside its operators that one run leaves to the next."
)


class Shown:
    """Takes news of worlds; this one shows nothing."""

    def world(self, report: Report, outcome: Outcome) -> None:
        """One more world was tried."""

    def shrinking(self, shrinking: Shrinking) -> None:
        """One more world was tried while a failure shrinks."""


class _Lines(Shown):
    """Plain lines on standard error."""

    def __init__(self, worlds: int) -> None:
        self._every = max(1, worlds // _LINES)
        self._worlds = worlds

    def world(self, report: Report, outcome: Outcome) -> None:
        if outcome.is_finding:
            _say(f"{_name(outcome)}: {outcome.kind.value}; shrinking it")
        elif report.worlds % self._every == 0 or report.worlds == self._worlds:
            _say(f"{report.worlds} of {self._worlds} worlds{_unknown(report)}")

    def shrinking(self, shrinking: Shrinking) -> None:
        if shrinking.worlds % 100 == 0:
            _say(f"{shrinking.worlds} smaller worlds tried; {_size_of(shrinking)}")


class _Bars(Shown):
    """A bar on a terminal."""

    def __init__(self, bars: Progress, worlds: int) -> None:
        self._bars = bars
        self._task = bars.add_task("worlds", total=worlds, news="")
        self._is_shrinking = False

    def world(self, report: Report, outcome: Outcome) -> None:
        self._bars.update(self._task, completed=report.worlds, news=_unknown(report).removeprefix(", "))

    def shrinking(self, shrinking: Shrinking) -> None:
        if not self._is_shrinking:
            self._is_shrinking = True
            self._bars.update(self._task, description="shrinking", total=None)
        self._bars.update(self._task, completed=shrinking.worlds, news=_size_of(shrinking))


@contextmanager
def progress(worlds: int, *, quiet: bool) -> Iterator[Shown]:
    """Show worlds while they run; ``quiet`` shows nothing where no terminal would draw it over itself."""
    console = Console(stderr=True)
    # Asked of the file itself: rich takes FORCE_COLOR in the environment for a terminal.
    if console.file.isatty() and not console.is_dumb_terminal:
        with Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        ) as bars:
            yield _Bars(bars, worlds)
    else:
        yield Shown() if quiet else _Lines(worlds)


def report_text(
    simulator: Simulator,
    report: Report,
    found: Outcome | None,
    seconds: float,
    workers: tuple[int, int],
    saved: str | None,
) -> str:
    """The result of many worlds, as text."""
    speed = f"{report.worlds / seconds:.0f} worlds per second" if found is None else f"{seconds:.1f} s"
    extent = f"{report.worlds:,} worlds on {'-'.join(map(str, sorted(set(workers))))} workers"
    if report.finding is not None and found is not None:
        first = f"{report.finding.kind.value}: {_name(report.finding)}, after {extent} ({speed})"
        size = _size(found, has_own_times=simulator.shape.has_own_times)
        text = f"{first}\nshrunk: {size}\n\n{finding_text(simulator, found, saved)}"
        return text if report.is_repeatable else f"{text}\n\n{_NOT_REPEATABLE}"
    recorded = (
        [] if saved is None or report.last is None else [f"the events of {_name(report.last)} are in {saved}"]
    )
    if report.verdict is Status.VALID:
        valid = (
            f"valid: {extent} emitted the same as one worker{_crashes(report)}, and the verifier found no "
            f"error in {report.events:,} events ({speed})"
        )
        return "\n".join([valid, *recorded])
    unknown = [f"  {_name(each)}: {each.reason}" for each in report.unknown[:_LINES]]
    return "\n".join([f"unknown: {len(report.unknown)} of {extent} ({speed})", *unknown, *recorded])


def replayed_text(simulator: Simulator, outcome: Outcome, saved: str | None) -> str:
    """The result of one world, as text."""
    if outcome.is_finding:
        return finding_text(simulator, outcome, saved)
    events = f"{len(outcome.run.events):,} events"
    return f"{outcome.kind.value}: {_name(outcome)}, {events}" + (
        f": {outcome.reason}" if outcome.reason else ""
    )


def finding_text(simulator: Simulator, found: Outcome, saved: str | None) -> str:
    """A failing world: what is wrong, what was fed, what happened, and how to see it, and again.

    ``saved`` is the file that has its trace, if it was asked for.
    """
    lines = []
    if found.kind is FindingKind.INVALID:
        trace = simulator.trace(found)
        lines += [trace.explained(found.verdict).rpartition("\n")[0]]
    else:
        lines += [found.reason, "", "what happened, without progress:"]
        lines += _what_happened(simulator, found)
    lines += ["", "what was fed:", *_fed(simulator, found)]
    if found.case.epochs is not None and not simulator.shape.has_own_times:
        lines += ["  (epochs are numbered again from 0)"]
    command = found.case.command(simulator.file)
    # Not "&&": a world that fails ends its command with 1.
    look = (
        f"pointstamp dashboard {shlex.quote(saved)}"
        if saved
        else (f"{command} --trace world.jsonl; pointstamp dashboard world.jsonl")
    )
    lines += ["", f"look: {look}", "", f"replay: {command}"]
    return "\n".join(lines)


def _what_happened(simulator: Simulator, found: Outcome) -> list[str]:
    if isinstance(found.run, CrashRun):
        return _what_happened_with_crashes(simulator, found.run)
    shown = [event for event in found.run.events if isinstance(event, MessagePulled | MessageSent | Notified)]
    lines = [f"  {describe_event(simulator.shape, event)}" for event in shown[-_EVENTS_MAX:]]
    if len(shown) > _EVENTS_MAX:
        lines.insert(0, f"  ... {len(shown) - _EVENTS_MAX} events ...")
    return lines


def _what_happened_with_crashes(simulator: Simulator, run: CrashRun) -> list[str]:
    lines = []
    for generation, event in run.happened:
        who = f"  generation {generation}: " if generation > 0 else "  "
        if isinstance(event, WorldEvent):
            lines.append(f"{who}{describe_world_event(event)}")
        elif isinstance(event, MessagePulled | MessageSent | Notified):
            lines.append(f"{who}{describe_event(simulator.shape, event)}")
    if len(lines) > 2 * _EVENTS_MAX:
        lines[_EVENTS_MAX:-_EVENTS_MAX] = [f"  ... {len(lines) - 2 * _EVENTS_MAX} events ..."]
    return lines


def _fed(simulator: Simulator, found: Outcome) -> list[str]:
    lines = [
        f"  {name}, {'epoch' if item.time is None else 'at'} {item.root_at(number)}: {row}"
        for name, items in found.case.select(simulator.inputs).items()
        for number, item in enumerate(items)
        for row in item.batch.slice(0, _ROWS_MAX + 1).to_pylist()
    ]
    if len(lines) > _ROWS_MAX:
        lines[_ROWS_MAX:] = ["  ..."]
    return lines


def _name(outcome: Outcome) -> str:
    if outcome.case.choices == frozenset() and outcome.case.workers == 1:
        return "the run on one worker with nothing left to chance"
    crashes = outcome.case.crashes
    also = "" if crashes is None else f" with up to {_counted(crashes, 'crash', 'crashes')}"
    return f"seed {outcome.case.seed} on {_counted(outcome.case.workers, 'worker')}{also}"


def _size(outcome: Outcome, *, has_own_times: bool) -> str:
    case = outcome.case
    parts = [_counted(case.workers, "worker")]
    if isinstance(outcome.run, CrashRun):
        parts.append(_counted(outcome.run.crashes, "crash", "crashes"))
    if case.epochs is not None:
        parts.append(_counted(len(case.epochs), "item" if has_own_times else "epoch"))
    if case.rows is not None:
        parts.append(_counted(len(case.rows), "row"))
    parts.append(_counted(len(outcome.run.choices), "choice"))
    return f"it takes {', '.join(parts)} and {_counted(len(outcome.run.events), 'event')}"


def _size_of(shrinking: Shrinking) -> str:
    return _size(shrinking.best, has_own_times=shrinking.simulator.shape.has_own_times)


def _counted(number: int, what: str, many: str = "") -> str:
    return f"{number:,} {what if number == 1 else many or what + 's'}"


def _unknown(report: Report) -> str:
    return f", {len(report.unknown)} unknown" if report.unknown else ""


def _crashes(report: Report) -> str:
    return f" in spite of {_counted(report.crashes, 'crash', 'crashes')}" if report.crashes else ""


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
