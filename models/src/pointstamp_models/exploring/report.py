"""The report of all tasks, as rows, as plain text and as one JSON document.

Rows are strings in the columns of ``COLUMNS``, so that a terminal and a file show the same figures. A model
has a row for each instance, one for each other check, and one for its mutants together. The JSON document
has everything: each verdict with its problems and its trace.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pointstamp.version import __version__
from pointstamp_models.exploring.entry import Entry
from pointstamp_models.exploring.explorer import Violation
from pointstamp_models.exploring.judge import Kind, Verdict
from pointstamp_models.exploring.models import Findings


class Row(NamedTuple):
    """One line of the table; ``right`` says whether it is as it should be."""

    model: str
    instance: str
    states: str
    transitions: str
    properties_held: str
    mutants_killed: str
    seconds: str
    right: bool

    def cells(self) -> tuple[str, ...]:
        """The cells of the columns."""
        return tuple(str(cell) for cell in self[: len(COLUMNS)])


COLUMNS: Final = (
    "model",
    "instance",
    "states",
    "transitions",
    "properties held",
    "mutants killed/expected",
    "seconds",
)

NUMBER_COLUMNS: Final = frozenset(
    {"states", "transitions", "properties held", "mutants killed/expected", "seconds"}
)
"""These are aligned to the right."""


def rows(findings: Findings) -> Iterator[Row]:
    """The lines of the table, in the order of the catalogue."""
    for entry in findings.entries:
        for verdict in findings.of(entry.name, Kind.INSTANCE):
            yield _instance_row(verdict)
        for verdict in findings.of(entry.name, Kind.CHECK):
            cases = _counted(verdict.cases, "case")
            held = "holds" if verdict.right else "broken"
            seconds = f"{verdict.seconds:.1f}"
            yield Row(entry.name, verdict.name, cases, "", held, "", seconds, verdict.right)
        mutants = findings.of(entry.name, Kind.MUTANT, Kind.EQUIVALENT)
        if mutants:
            yield _mutants_row(entry, mutants)


def _instance_row(verdict: Verdict) -> Row:
    bounded = not verdict.complete and verdict.violation is None and verdict.states > 0
    held = f"{len(verdict.properties)} of {len(verdict.properties)}"
    if verdict.violation:
        held = f"{verdict.violation.property} broken"
    elif not verdict.right:
        held = "see below"
    return Row(
        verdict.model,
        verdict.name,
        f"{verdict.states:,}+" if bounded else f"{verdict.states:,}",
        f"{verdict.transitions:,}",
        held,
        "",
        f"{verdict.seconds:.1f}",
        verdict.right,
    )


def _mutants_row(entry: Entry, mutants: tuple[Verdict, ...]) -> Row:
    expected = [mutant for mutant in mutants if mutant.kind is Kind.MUTANT]
    killed = sum(mutant.right for mutant in expected)
    equivalents = len(mutants) - len(expected)
    what = _counted(len(expected), "mutant")
    if equivalents:
        what += f", {equivalents} equivalent"
    return Row(
        entry.name,
        what,
        f"{sum(mutant.states for mutant in mutants):,}",
        f"{sum(mutant.transitions for mutant in mutants):,}",
        "",
        f"{killed}/{len(expected)}",
        f"{sum(mutant.seconds for mutant in mutants):.1f}",
        all(mutant.right for mutant in mutants),
    )


def table_text(findings: Findings) -> str:
    """The table for a file or a pipe: aligned columns, a mark at what is wrong, nothing else."""
    lines: list[tuple[str, ...]] = [(*COLUMNS, "")]
    lines += [(*row.cells(), "" if row.right else "WRONG") for row in rows(findings)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS) + 1)]
    aligned = [
        "  ".join(
            cell.rjust(width) if name in NUMBER_COLUMNS else cell.ljust(width)
            for cell, width, name in zip(line, widths, (*COLUMNS, ""), strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join(aligned)


def failures_text(findings: Findings) -> str:
    """The problems, each with its shortest trace if there is one."""
    return "\n\n".join(_failure_text(verdict) for verdict in findings.wrong)


def _failure_text(verdict: Verdict) -> str:
    change = f" ({verdict.change})" if verdict.change else ""
    head = f"WRONG: {verdict.model}, {verdict.kind} {verdict.name}{change}"
    lines = [f"{head}: {problem}" for problem in verdict.problems]
    if verdict.violation:
        lines.append(verdict.violation.story())
    return "\n".join(lines)


def mutants_text(findings: Findings) -> str:
    """Each mutant with the property that rejected it and the shortest trace to that."""
    blocks = []
    for entry in findings.entries:
        for verdict in findings.of(entry.name, Kind.MUTANT, Kind.EQUIVALENT):
            fate = verdict.detail or "; ".join(verdict.problems)
            block = f"{verdict.model} {verdict.name}: {verdict.change}: {fate}"
            if verdict.violation:
                block += "\n" + verdict.violation.story()
            blocks.append(block)
    return "\n\n".join(blocks)


def summary_text(findings: Findings) -> str:
    """One line that says whether all is as it should be, and one for what was left out."""
    kinds = [verdict.kind for verdict in findings.verdicts]
    judged = ", ".join(_counted(kinds.count(kind), kind) for kind in Kind if kind in kinds)
    judged += f" in {findings.seconds:.1f} s"
    if findings.right:
        line = f"All properties hold, and all mutants are rejected: {judged}."
    elif not findings.verdicts:
        line = "No task was checked: all chosen tasks are long. Add --long."
    else:
        line = f"{len(findings.wrong)} of {len(findings.verdicts)} are WRONG: {judged}."
    if findings.left_out:
        names = ", ".join(f"{task.model} {task.name}" for task in findings.left_out)
        line += f"\nSkipped without --long: {names}."
    return line


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def to_json(findings: Findings) -> str:
    """The whole run as one JSON document."""
    document = {
        "version": __version__,
        "right": findings.right,
        "seconds": round(findings.seconds, 3),
        "models": [_entry_json(findings, entry) for entry in findings.entries],
        "left_out": [{"model": task.model, "name": task.name} for task in findings.left_out],
    }
    return json.dumps(document, indent=2)


def _entry_json(findings: Findings, entry: Entry) -> dict[str, Any]:
    published = {instance.name: instance for instance in entry.instances}
    breaks = {mutant.identifier: mutant.breaks for mutant in entry.mutants}
    instances = [
        {
            **_verdict_json(verdict),
            "published_states": published[verdict.name].states,
            "published_transitions": published[verdict.name].transitions,
        }
        for verdict in findings.of(entry.name, Kind.INSTANCE)
    ]
    mutants = [
        {**_verdict_json(verdict), "kind": verdict.kind, "breaks": breaks.get(verdict.name)}
        for verdict in findings.of(entry.name, Kind.MUTANT, Kind.EQUIVALENT)
    ]
    return {
        "name": entry.name,
        "title": entry.title,
        "right": all(v.right for v in findings.verdicts if v.model == entry.name),
        "instances": instances,
        "mutants": mutants,
        "mutants_expected": sum(mutant["kind"] is Kind.MUTANT for mutant in mutants),
        "mutants_killed": sum(mutant["kind"] is Kind.MUTANT and mutant["right"] for mutant in mutants),
        "checks": [_verdict_json(verdict) for verdict in findings.of(entry.name, Kind.CHECK)],
    }


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "name": verdict.name,
        "change": verdict.change,
        "right": verdict.right,
        "problems": list(verdict.problems),
        "detail": verdict.detail,
        "cases": verdict.cases,
        "states": verdict.states,
        "transitions": verdict.transitions,
        "depth": verdict.depth,
        "complete": verdict.complete,
        "properties": list(verdict.properties),
        "violation": _violation_json(verdict.violation) if verdict.violation else None,
        "seconds": round(verdict.seconds, 3),
    }


def _violation_json(violation: Violation) -> dict[str, Any]:
    return {
        "property": violation.property,
        "steps": violation.steps(),
        "trace": [{"label": step.label, "state": step.state} for step in violation.trace],
        "loops_to": violation.loops_to,
    }
