"""Compare the outputs of two runs as multisets, per output and time.

Floating point sums depend on the order of their terms, and no schedule promises one; rows that differ in
floats by no more than a billionth part count as equal.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from pointstamp.topology.domain import Time, TimeOrder

Outputs: TypeAlias = Mapping[tuple[str, Time], Sequence[pa.RecordBatch]]
"""What a run emitted, by output and time."""

Row: TypeAlias = tuple[Any, ...]

TOLERANCE: Final = 1e-9
_SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows of one output and epoch, or root time, that one run has and the other has not."""

    output: str
    time: Any
    missing: tuple[Mapping[str, Any], ...]
    unexpected: tuple[Mapping[str, Any], ...]
    is_epoch: bool = True

    def __str__(self) -> str:
        when = f"{'epoch' if self.is_epoch else 'time'} {self.time}"
        parts = [f"output '{self.output}', {when}, differs from the one-worker run"]
        for what, rows in (("missing", self.missing), ("not expected", self.unexpected)):
            parts += [f"  {what}: {row}" for row in rows[:_SHOWN_MAX]]
            if len(rows) > _SHOWN_MAX:
                parts.append(f"  {what}: {len(rows) - _SHOWN_MAX} more rows")
        return "\n".join(parts)


def first_difference(expected: Outputs, got: Outputs, own: TimeOrder[Any] | None = None) -> Difference | None:
    """Return the first difference of two runs, by epoch and then by output; None if equal.

    Where a flow has times of its own, its order sorts them.
    """

    def place(part: tuple[str, Time]) -> tuple[Any, ...]:
        output, time = part
        # Incomparable times may sort alike; the same one must come first in every process.
        return (time, output) if own is None else (own.sort_key(time[0]), repr(time), output)

    for output, time in sorted({*expected, *got}, key=place):
        wanted, came = expected.get((output, time), ()), got.get((output, time), ())
        missing, unexpected = _apart(_rows(wanted), _rows(came))
        if missing or unexpected:
            names = (wanted or came)[0].schema.names
            return Difference(
                output,
                time[0],
                tuple(dict(zip(names, row, strict=True)) for row in missing),
                tuple(dict(zip(names, row, strict=True)) for row in unexpected),
                is_epoch=own is None,
            )
    return None


def _rows(batches: Sequence[pa.RecordBatch]) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for batch in batches:
        rows.update(zip(*(map(_frozen, column.to_pylist()) for column in batch.columns), strict=True))
    return rows


def _frozen(value: Any) -> Any:  # noqa: ANN401 - any value of a column
    """The value as one that can be counted; NaN equals itself here."""
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return tuple((name, _frozen(part)) for name, part in value.items())
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


def _apart(wanted: Counter[Row], came: Counter[Row]) -> tuple[list[Row], list[Row]]:
    if wanted == came:
        return [], []
    missing = sorted((wanted - came).elements(), key=repr)
    unexpected = sorted((came - wanted).elements(), key=repr)
    for row in list(missing):
        alike = next((other for other in unexpected if _alike(row, other)), None)
        if alike is not None:
            missing.remove(row)
            unexpected.remove(alike)
    return missing, unexpected


def _alike(a: Any, b: Any) -> bool:  # noqa: ANN401 - any values of a row
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return all(map(_alike, a, b))
    return bool(a == b)
