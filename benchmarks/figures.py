"""What benchmarks print: JSON lines, with the load of the machine at that moment; and how they are read."""

import json
import os
from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")

Figures = dict[str, Any]
"""What a line says, by name."""


def timed(act: Callable[[], T]) -> tuple[float, T]:
    """How long something took, and what it returned."""
    begin = perf_counter()
    answer = act()
    return perf_counter() - begin, answer


def report(case: str, **figures: float | str | bool | None) -> None:
    """One JSON line of figures, with the load of the machine."""
    print(line_of(case, **figures), flush=True)


def line_of(case: str, **figures: float | str | bool | None) -> str:
    """The line that ``report`` prints."""
    rounded = {name: round(each, 3) if isinstance(each, float) else each for name, each in figures.items()}
    return json.dumps({"case": case, **rounded, "load": round(os.getloadavg()[0], 1)})


def lines_in(text: str) -> list[Figures]:
    """The lines among a text that are figures, in their order."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def last_of_each(text: str, *names: str) -> dict[tuple[Any, ...], Figures]:
    """Of lines that agree in all these names the last, by what they agree in; others are left out."""
    having = (each for each in lines_in(text) if all(name in each for name in names))
    return {tuple(each[name] for name in names): each for each in having}
