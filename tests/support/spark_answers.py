"""The stored answers of Spark, by expression: tests/support/spark_answers.json.

scripts/spark_answers.py writes them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from support.spark_grid import Answers, Asked

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
