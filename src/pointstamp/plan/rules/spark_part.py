"""The part of a plan that Spark can compute from the history of an input.

Law: the part is a prefix of the plan: a Scan and the operators of single rows above it, each the only reader
of the one before. What the rest of the plan makes of the rows of the part is what it made of the rows of the
Scan, because multiplicities pass through. An aggregate behind the part can be computed in parts by Spark if
``advise`` holds it for partial.

Unsound for: an operator that others read, which would need the rows before it, too; an operator in a loop,
whose rows depend on the round; a user's function, which Spark does not have; an expression that can raise,
because Spark would raise at another time and for other rows. The part ends before these.
"""

from collections import Counter
from dataclasses import dataclass

from pointstamp.plan.logical import (
    Aggregate,
    Explode,
    Filter,
    LogicalOperator,
    Project,
    Scan,
    TimeWindow,
    loops_of,
    walk,
)
from pointstamp.plan.rules.advice import advise
from pointstamp.plan.rules.conditions import can_raise
from pointstamp.plan.rules.rewriting import Roots


@dataclass(frozen=True, slots=True)
class SparkPart:
    """A scan, the operators above it that Spark can compute, and the aggregate that it can begin."""

    scan: Scan
    steps: tuple[LogicalOperator, ...]
    """From the scan on, each the input of the next."""
    aggregate: Aggregate | None
    """What reads the part, if Spark can compute it in parts."""

    @property
    def result(self) -> LogicalOperator:
        """Return the operator whose table the part makes."""
        return self.steps[-1] if self.steps else self.scan


def spark_parts(roots: Roots) -> tuple[SparkPart, ...]:
    """Return what Spark can compute of each input, in the order of the plan."""
    order = list(walk(roots))
    counts = Counter([*roots, *(each for operator in order for each in operator.inputs)])
    reader = {each: operator for operator in order for each in operator.inputs}
    partial, loops = advise(roots).partial, loops_of(roots)
    made = []
    for scan in order:
        if not isinstance(scan, Scan):
            continue
        steps: list[LogicalOperator] = []
        last: LogicalOperator = scan
        while counts[last] == 1 and last in reader:
            following = reader[last]
            if loops[following] or not _is_for_spark(following):
                break
            steps.append(following)
            last = following
        behind = reader.get(last) if counts[last] == 1 else None
        aggregate = behind if isinstance(behind, Aggregate) and behind in partial else None
        made.append(SparkPart(scan, tuple(steps), aggregate))
    return tuple(made)


def _is_for_spark(operator: LogicalOperator) -> bool:
    match operator:
        case Filter():
            return not can_raise(operator.condition, operator.schema)
        case Project():
            return not any(can_raise(each, operator.input.schema) for _, each in operator.columns)
        case TimeWindow() | Explode():
            return True
        case _:
            return False
