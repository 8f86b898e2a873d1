"""Runs the catalogue: every instance, mutant and check of the chosen models, over the machine's cores.

The judge is right about a model only if everything that should hold holds and everything that should break
breaks, so a mutant that survives is as much a failure as an instance that breaks, and a task that raises an
error or whose process dies is a failure too, never left out.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TypeAlias

from pointstamp.errors import UsageError
from pointstamp_models.exploring.entry import Check, Entry, Instance, Mutant
from pointstamp_models.exploring.explorer import Progress
from pointstamp_models.exploring.judge import Kind, Task, Verdict, judge
from pointstamp_models.exploring.pool import JobDone, JobFailed, JobProgressed, JobStarted, run_jobs


@dataclass(frozen=True, slots=True)
class RunPlanned:
    """It is known what will be judged; nothing has started yet."""

    tasks: int


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """A process has taken up a task."""

    task: Task


@dataclass(frozen=True, slots=True)
class TaskProgressed:
    """An exploration has continued."""

    task: Task
    progress: Progress


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """A task has its verdict."""

    task: Task
    verdict: Verdict


Event: TypeAlias = RunPlanned | TaskStarted | TaskProgressed | TaskFinished


@dataclass(frozen=True, slots=True)
class Findings:
    """All verdicts of a run, in the order of the catalogue, and what was left out as too long."""

    entries: tuple[Entry, ...]
    verdicts: tuple[Verdict, ...]
    left_out: tuple[Task, ...]
    seconds: float

    @property
    def right(self) -> bool:
        """Whether everything that should hold holds and everything that should break breaks."""
        return bool(self.verdicts) and all(verdict.right for verdict in self.verdicts)

    @property
    def wrong(self) -> tuple[Verdict, ...]:
        """The verdicts with a problem."""
        return tuple(verdict for verdict in self.verdicts if not verdict.right)

    def of(self, model: str, *kinds: Kind) -> tuple[Verdict, ...]:
        """The verdicts of one model that are of these kinds."""
        return tuple(v for v in self.verdicts if v.model == model and v.kind in kinds)


def choose(entries: Sequence[Entry], names: Iterable[str]) -> tuple[Entry, ...]:
    """The entries of these names, in the order of the catalogue; all of them if no name is given."""
    wanted = set(names)
    known = [entry.name for entry in entries]
    unknown = sorted(wanted - set(known))
    if unknown:
        raise UsageError(f"unknown model {', '.join(unknown)}; known: {', '.join(known)}")
    return tuple(entry for entry in entries if not wanted or entry.name in wanted)


def run(
    entries: Sequence[Entry],
    *,
    long: bool = False,
    processes: int | None = None,
    notice: Callable[[Event], None] = lambda event: None,
) -> Findings:
    """Judge the entries, with their long tasks or without; ``notice`` is called for all that happens."""
    started = monotonic()
    every_task = [task for entry in entries for task in _tasks_of(entry)]
    tasks = [task for task in every_task if long or not task.work.long]
    order = sorted(range(len(tasks)), key=lambda index: _size(tasks[index]), reverse=True)
    verdicts: dict[int, Verdict] = {}
    notice(RunPlanned(len(tasks)))
    with closing(run_jobs(judge, [tasks[index] for index in order], processes or cores())) as events:
        for event in events:
            index = order[event.job]
            task = tasks[index]
            match event:
                case JobStarted():
                    notice(TaskStarted(task))
                case JobProgressed(news=progress):
                    notice(TaskProgressed(task, progress))
                case JobDone(answer=verdict):
                    verdicts[index] = verdict
                    notice(TaskFinished(task, verdict))
                case JobFailed(reason=reason):
                    verdicts[index] = Verdict(task.model, task.kind, task.name, task.change, (reason,))
                    notice(TaskFinished(task, verdicts[index]))
    return Findings(
        entries=tuple(entries),
        verdicts=tuple(verdicts[index] for index in range(len(tasks))),
        left_out=tuple(task for task in every_task if task.work.long and not long),
        seconds=monotonic() - started,
    )


def cores() -> int:
    """The number of cores that this process may use; in a container fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _tasks_of(entry: Entry) -> list[Task]:
    twins = {instance.name: instance for instance in entry.instances}
    tasks = [Task(entry.name, instance) for instance in entry.instances]
    tasks += [Task(entry.name, mutant, twins.get(mutant.same_as or "")) for mutant in entry.mutants]
    tasks += [Task(entry.name, check) for check in entry.checks]
    return tasks


def _size(task: Task) -> tuple[bool, float]:
    """The estimated work of a task, to start with the largest: a late one would run alone at the end.

    What is unknown counts as large, except mutants, most of which are rejected after a few states.
    """
    match task.work:
        case Instance(long=long, states=states, limit=limit):
            return long, states or limit or inf
        case Mutant(long=long, limit=limit):
            return long, limit or 0
        case Check(long=long):
            return long, inf
