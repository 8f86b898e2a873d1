"""What benchmarks print: JSON lines, with the load of the machine at that moment."""

import json
import os
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")


def timed(act: Callable[[], T]) -> tuple[float, T]:
    """How long something took, and what it returned."""
    begin = perf_counter()
    answer = act()
    return perf_counter() - begin, answer


def report(case: str, **figures: float | str | bool | None) -> None:
    """One JSON line of figures, with the load of the machine."""
    rounded = {name: round(each, 3) if isinstance(each, float) else each for name, each in figures.items()}
    print(json.dumps({"case": case, **rounded, "load": round(os.getloadavg()[0], 1)}), flush=True)
