"""The worked example of failure transparency: the incremental average with Reset, and the paper's figure.

Veresov et al. 2024, listing 1 (the program), section 5.1 (its execution) and figure 10 (two rows: the
execution with a failure, and the failure-free one that explains it). The rows are not written down here:
the execution is driven by the events that section 5.1 lists, and the second row is what the explainer
constructs. Against the listing, the task reads "ints" and "resets", the streams that the sources write.
"""

from collections.abc import Sequence
from typing import Final

from pointstamp_models.exploring.transparency import Execution, Explanation, explain, side_by_side
from pointstamp_models.spec.border_rules import BORDER_RULE, FAIL_RULE, RECOVER_RULE, Archive, Configuration
from pointstamp_models.spec.borders import AlignedBorders
from pointstamp_models.spec.model import Label
from pointstamp_models.spec.streaming import Event, Task, Value

RESET: Final = "Reset"


def average(value: Value, event: Event) -> tuple[Value, tuple[Event, ...]]:
    """Add an integer and emit the new average, or forget everything at a Reset."""
    if event == RESET:
        return (0, 0), ()
    total, number = value[0] + event, value[1] + 1
    return (total, number), (total // number,)


AVERAGE: Final = Task("average", average, ("ints", "resets"), "avgs", (0, 0))

INPUTS: Final = {"ints": ((1,), (3, 5)), "resets": ((), (RESET,))}
"""By epoch: the integer 1, then 3 and 5 with a Reset anywhere among them."""

FIGURE_EVENTS: Final = ("E<1>", "BD", "E<3>", "fail", "recover", "Reset", "E<3>", "E<5>", "BD")
"""The execution of section 5.1."""

_MODEL: Final = AlignedBorders([AVERAGE], INPUTS, failures=1)


def worked_example() -> str:
    """The two rows of figure 10, the archives of its caption, and the explanation step by step."""
    explanation = figure()
    return "\n".join((*figure_rows(explanation), "", side_by_side(_MODEL, explanation)))


def figure() -> Explanation[Configuration]:
    """The execution of figure 10 with its explanation."""
    return explain(_MODEL, drive(_MODEL, FIGURE_EVENTS))


def drive(model: AlignedBorders, events: Sequence[str]) -> Execution[Configuration]:
    """The execution of a single task in which exactly these things happen, one after the other."""
    path: list[tuple[Label, Configuration]] = [(("init",), next(model.initial()))]
    for event in events:
        path.append(next(step for step in model.steps(path[-1][1]) if show_event(step[0]) == event))
    return path


def show_event(label: Label) -> str:
    """A step as the paper names it: what is read, or fail, or recover."""
    names = {FAIL_RULE: "fail", RECOVER_RULE: "recover", BORDER_RULE: "BD"}
    if label[0] in names:
        return names[label[0]]
    event = label[3][0][3][1]
    return RESET if event == RESET else f"E<{event}>"


def figure_rows(explanation: Explanation[Configuration]) -> list[str]:
    """Both rows of the figure, one above the other, and the archives that they name.

    Every step that is kept stands under the step that it explains, so a gap below is work that was undone.
    """
    names: dict[Archive, str] = {}
    for _, state in explanation.execution:
        names.setdefault(state.sigma[0][0], f"a{len(names)}")
    kept = {step.position: number for number, step in enumerate(explanation.trace, start=1)}
    kept[0] = 0
    top = [_cell(state, names) for _, state in explanation.execution]
    bottom = [
        _cell(explanation.states[kept[position]], names) if position in kept else ""
        for position in range(len(top))
    ]
    labels = ["", *(show_event(label) for label, _ in explanation.execution[1:])]
    width = max(map(len, (*labels, *top))) + 2
    return [
        _row("", labels, width),
        _row("execution", top, width),
        _row("explanation", bottom, width),
        _row("seen in", [bottom[_column(kept, number)] for number in explanation.mapping], width),
        f"av, archive: {', '.join(_define(names))}",
    ]


def _column(kept: dict[int, int], number: int) -> int:
    return next(position for position, index in kept.items() if index == number)


def _cell(state: Configuration, names: dict[Archive, str]) -> str:
    archive, volatile = state.sigma[0]
    return f"{'fl' if volatile is None else _average(volatile[1])}, {names[archive]}"


def _average(value: Value) -> int:
    total, number = value
    return int(total // number) if number else 0


def _row(title: str, cells: Sequence[str], width: int) -> str:
    return (title.ljust(13) + "".join(cell.ljust(width) for cell in cells)).rstrip()


def _define(names: dict[Archive, str]) -> list[str]:
    """``a1 = a0[1 -> 1]``: each archive by the one before it, as the figure's caption does."""
    definitions = []
    previous = ""
    for archive, name in names.items():
        epoch, value = archive[-1]
        definitions.append(f"{name} = {previous}[{epoch} -> {_average(value)}]")
        previous = name
    return definitions
