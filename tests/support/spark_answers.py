"""The stored answers of Spark, by expression: tests/support/spark_answers.json.

scripts/spark_answers.py writes them.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from support.spark_expressions import KNOWN_DIFFERENCES
from support.spark_grid import ERROR, REJECTED, Answers, Asked

FILE: Final = Path(__file__).parent / "spark_answers.json"


def load() -> dict[Asked, Answers]:
    """The answers that are stored."""
    if not FILE.exists():
        return {}
    lines = (json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines())
    return {Asked(sql, zone): Answers(kind, values) for zone, sql, kind, values in lines}


def save(answers: Mapping[Asked, Answers]) -> None:
    """Write answers, a line for each expression."""
    lines = [
        json.dumps([asked.zone, asked.sql, found.type, found.values], ensure_ascii=False) + "\n"
        for asked, found in answers.items()
    ]
    FILE.write_text("".join(lines), encoding="utf-8")


def differences(asked: Asked, here: Answers, there: Answers) -> Iterator[str]:
    """How answers differ from those of Spark, as text; what is known to differ is left out."""
    what = f"{asked.sql} in {asked.zone}"
    if asked.sql in KNOWN_DIFFERENCES:
        return
    if there.type == REJECTED:
        if here.type != REJECTED:
            yield f"{what}: accepted here, and rejected by Spark: {there.values[0]}"
        return
    if here.type == REJECTED:
        # What fails for every row may be rejected before there are rows.
        if ERROR not in there.values or any(value not in (None, ERROR) for value in there.values):
            yield f"{what}: rejected here: {here.values[0]}"
        return
    if here.type != there.type:
        yield f"{what}: {here.type} here, {there.type} there"
    is_rounded = any(f"{name}(" in asked.sql for name in _ROUNDED)
    for row, ours, theirs in zip(asked.rows().to_pylist(), here.values, there.values, strict=True):
        if ours != theirs and not (is_rounded and _is_close(ours, theirs)):
            values = {name: row[name] for name in asked.columns}
            yield f"{what}: {ours} here, {theirs} there, for {values}"


_ROUNDED: Final = ("exp", "ln", "log", "log10", "log2", "power", "pow", "sqrt")
"""Functions whose last digit depends on the library that computes them, also in Java."""


def _is_close(ours: object, theirs: object) -> bool:
    try:
        return math.isclose(float(str(ours)), float(str(theirs)), rel_tol=1e-14)
    except ValueError:
        return False
