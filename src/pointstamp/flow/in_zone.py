"""The time zone of a plan: which operators depend on it, and the plan with its zone.

A flow may be written before its zone is known: on Spark it is that of the session. ``with_time_zone`` gives a
copy of the plan that has a zone. Each operator whose expressions depend on it names it as its own parameter,
so that a checkpoint knows it: a query that resumes in another zone is rejected.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from types import FunctionType
from typing import Any

import pyarrow as pa

from pointstamp.expressions.compiling import Compiled
from pointstamp.expressions.zones import UTC
from pointstamp.flow.plan import Node, Plan


def with_time_zone(plan: Plan, default: str = UTC) -> Plan:
    """Return the plan in its own time zone, or in another one if it has none."""
    zone = plan.time_zone or default
    nodes = [replace(node, time_zone=zone) if uses_time_zone(node) else node for node in plan.nodes]
    return replace(plan, time_zone=zone, nodes=nodes)


def uses_time_zone(node: Node) -> bool:
    """Return whether an expression of an operator depends on the time zone."""
    seen: set[int] = set()
    waiting: list[Any] = [node.logic]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Compiled):
            if value.uses_zone:
                return True
            continue
        waiting.extend(_parts(value))
    return False


def _parts(value: Any) -> Iterator[Any]:  # noqa: ANN401 - any parameter of an operator
    """What a parameter is made of, also in the variables that a function has taken with it."""
    if isinstance(
        value, str | bytes | int | float | pa.DataType | pa.Schema | pa.Array | pa.RecordBatch | pa.Table
    ):
        return
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # a variable that is not set yet
                continue
    elif is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, each.name) for each in fields(value))
    elif not isinstance(value, type) and hasattr(value, "__dict__"):
        yield from vars(value).values()
