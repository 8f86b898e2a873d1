"""Signatures: digests of operators, by which an edited flow finds its state.

The signature of an operator is a digest of its kind, its parameters and the signatures of its inputs. Names,
origins and whatever else annotates an operator are not in it, and neither is what reads it. So two operators
with one signature hold the same table after every epoch, in any version of any view.

- Of an input those columns count that the operator looks at. What else is read there, for another output,
  changes neither its table nor its state. An operator itself counts with all columns that it has, because
  its state has them.
- A function of the user counts by the digest of its code, or by ``version=`` if the user pins it.
- A variable of a recursion counts by the depth of its loop and its place in it. An operator inside a loop
  depends on the complete recursion, so the signature of the loop is part of its own.
- The variables of a body for each epoch count in the same way. Loops of streams are wired by hand: what reads
  from one depends on all that is fed to any variable of the plan, so that is part of its signature.
- Columns whose names begin with ``__`` are internal: rewrites number them, so they count by their positions
  in the schemas of the operator and its inputs. State of such an operator is found by position, too.

Signatures are of plans after optimization: a rule that fires elsewhere may change them, and then state is
filled again. ``compare`` says of each operator with state whether it is in another plan, too.

>>> from pointstamp.expressions.tree import col
>>> orders = logical.Scan("orders", pa.schema({"city": pa.string(), "price": pa.int64()}))
>>> def cities(least, name):
...     return logical.Distinct(logical.Filter(orders, col("price") > least), name=name)
>>> signature = {least: signatures([cities(least, "a")]).popitem()[1] for least in (10, 20)}
>>> signatures([cities(10, "b")]).popitem()[1] == signature[10] != signature[20]
True
>>> print(compare([cities(10, "a")], [cities(20, "a")]))
new: Distinct 'a', filled from input 'orders'
gone: Distinct 'a'
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa  # noqa: F401 - the example above uses it

from pointstamp.errors import FlowError, PointstampError
from pointstamp.expressions.tree import Call, Literal
from pointstamp.flow.plan import Node, NodeKind
from pointstamp.incremental.window_functions import OrderFunction
from pointstamp.plan import logical, streams
from pointstamp.plan.arrow_json import Json
from pointstamp.plan.logical import Iterate, LogicalOperator, Scan, Variable, loops_of, unchecked, walk
from pointstamp.plan.properties import Columns, Found, needed, plain_column, properties_of
from pointstamp.plan.serialization import PlanWriter, deep_recursion, function_json

ANNOTATIONS: Final = frozenset(each.name for each in fields(LogicalOperator))
"""Fields that every operator has; they tell who wrote it and what it is called, not what it computes."""

_STATELESS: Final = (
    *(logical.Values, logical.Variable, logical.Project, logical.Filter, logical.Explode),
    *(logical.MapBatches, logical.TimeWindow, logical.Union, logical.Iterate, logical.Recursive),
    *(streams.Output, streams.Port, streams.Exchange, streams.Broadcast, streams.MapRows),
    *(streams.FilterBatches, streams.Split, streams.Inspect, streams.Probed, streams.PerEpoch),
    *(
        streams.FromChanges,
        streams.Consolidate,
        streams.TableChanges,
        streams.AppendedRows,
        streams.LoopScope,
    ),
    *(streams.EnterLoop, streams.LoopVariable, streams.FlowVariable, streams.Feedback, streams.LeaveLoop),
)
"""Operators that keep nothing from one epoch to the next; one that is missing here is taken to do so."""

_HOLDS_ITS_TABLE: Final = (
    *(logical.Join, logical.AsOfJoin, logical.Except, logical.Intersect, logical.Aggregate),
    *(logical.Distinct, logical.DistinctOn, logical.TopK, logical.WindowFunctions),
)
"""Operators whose state has every row that they have sent; others may have freed some."""

_MAY_CHANGE: Final = frozenset(("late", "late_output", "idle"))
"""Fields of operators that a query may be started with otherwise than before."""

_WIRED: Final = (streams.LoopScope, streams.LoopVariable, streams.FlowVariable)
"""What only its place in the plan tells apart from another one."""

_ORDERED: Final = re.compile(r"(__.*?)((?: +(?:asc|desc))?(?: +nulls +(?:first|last))?)", re.IGNORECASE)
"""An internal column, or such a column with the order in which rows are compared by it."""

_CONSTANTS: Final[Mapping[type, str]] = {Literal: "value", Call: "options", OrderFunction: "default"}
"""Fields with values that are the same for every row: a text in them is not the name of a column."""


def signatures(roots: Sequence[LogicalOperator], *, without_code: bool = False) -> dict[LogicalOperator, str]:
    """Return the signature of every operator of a plan: 32 hexadecimal digits.

    ``without_code`` leaves out what a user may accept that it has changed: what functions compute, and what
    becomes of late rows. Then a function counts as one, and an object by the name of its class.

    Variables of loops of streams must be fed by a ``Feedback`` below these roots. What reads one that is not,
    or something that was lowered by hand, has no signature, because the plan does not say what it computes.
    """
    order, loops = list(walk(roots)), loops_of(roots)
    place = {
        variable: number
        for loop in order
        if isinstance(loop, Iterate | streams.PerEpoch)
        for number, variable in enumerate(loop.variables)
    }
    wired = {each: number for number, each in enumerate(each for each in order if isinstance(each, _WIRED))}
    marks: dict[LogicalOperator, Json] = {
        each: [len(loops[each]), place.get(each)] for each in order if isinstance(each, Variable)
    }
    marks |= {each: [number, None] for each, number in wired.items()}
    writer = (_IdentityWriter if without_code else _SignatureWriter)(marks, roots)
    with deep_recursion():
        local = {each: writer.signature(each) for each in order}
    found: dict[LogicalOperator, str] = {}
    for each in sorted(order, key=lambda operator: len(loops[operator])):
        around = loops[each]
        found[each] = _digest([local[each], found[around[-1]]]) if around else local[each]
    return _with_contexts(order, local, found)


def _with_contexts(
    order: Sequence[LogicalOperator],
    local: Mapping[LogicalOperator, str],
    found: dict[LogicalOperator, str],
) -> dict[LogicalOperator, str]:
    """Return signatures in which an operator also depends on the body and the loops of streams it is in."""
    bodies = {
        variable: each for each in order if isinstance(each, streams.PerEpoch) for variable in each.variables
    }
    feedbacks = [each for each in order if isinstance(each, streams.Feedback)]
    wiring = sorted(local[each] for each in feedbacks)
    fed = {each.variable for each in feedbacks}
    inside: dict[LogicalOperator, frozenset[LogicalOperator]] = {}
    reads_wiring: set[LogicalOperator] = set()
    made: dict[LogicalOperator, str] = {}
    for each in order:
        own = frozenset().union(*(inside[above] for above in each.inputs)) - {each}
        inside[each] = own | {bodies[each]} if isinstance(each, Variable) and each in bodies else own
        if isinstance(each, _WIRED) or not reads_wiring.isdisjoint(each.inputs):
            reads_wiring.add(each)
        is_unfed = isinstance(each, streams.LoopVariable | streams.FlowVariable) and each not in fed
        if is_unfed or isinstance(each, streams.Lowered) or any(above not in made for above in each.inputs):
            continue
        context = sorted(local[body] for body in inside[each])
        context += wiring if each in reads_wiring else []
        made[each] = _digest([found[each], context]) if context else found[each]
    return made


def has_state(operator: LogicalOperator) -> bool:
    """Return whether an operator keeps something from one epoch to the next."""
    if isinstance(operator, streams.Input):
        return operator.epoch is not None
    if isinstance(operator, streams.StreamAggregate):
        return operator.is_running
    if isinstance(operator, Scan | streams.ToTable):
        keeps_keys = operator.kind in ("upserts", "snapshots") or bool(operator.keys)
        return keeps_keys or (operator.kind != "append" and not operator.trusted)
    return not isinstance(operator, _STATELESS)


def _digest(content: Json) -> str:
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return blake2b(text.encode(), digest_size=16).hexdigest()


class _SignatureWriter(PlanWriter):
    """Writes what an operator computes; its inputs count by their signatures, in their order."""

    def __init__(self, marks: Mapping[LogicalOperator, Json], roots: Sequence[LogicalOperator]) -> None:
        super().__init__(lambda _: "input", self._identity)
        self._marks = marks
        """What tells variables apart, and what is wired by hand."""
        self._roots = roots
        self._signatures: dict[tuple[LogicalOperator, Columns | None], str] = {}
        self._version: str | None = None
        """What the user pins the functions of the operator to that is being written."""
        self._places: Mapping[str, Json] = {}
        """Of internal columns: their positions in the operator's schema and in those of its inputs."""
        self._has_function = False

    def signature(self, operator: LogicalOperator, used: Columns | None = None) -> str:
        """Return the signature of an operator, or of what its table is in some columns; default: in all."""
        while used is not None and isinstance(operator, logical.Project) and _only_selects(operator, used):
            operator = operator.input
        key = operator, used
        if key not in self._signatures:
            narrow = operator if used is None else _with_columns(operator, used)
            content = self.content_of(narrow)
            if operator in self._marks:
                content["mark"] = self._marks[operator]
            content["inputs"] = [
                self.signature(each, columns)
                for each, columns in zip(operator.inputs, self._looked_at(operator, used), strict=True)
            ]
            self._signatures[key] = _digest(content)
        return self._signatures[key]

    @cached_property
    def _found(self) -> Found:
        return properties_of(self._roots)

    def _looked_at(self, operator: LogicalOperator, used: Columns | None) -> list[Columns | None]:
        """Return for each input the columns that an operator looks at; None: all, or it is not known."""
        try:
            everything = [frozenset(each.schema.names) for each in operator.inputs]
            own = frozenset(operator.schema.names) if used is None else used
            is_ordered = isinstance(operator, logical.TopK | logical.WindowFunctions)
            found = needed(operator, own, self._found if is_ordered else {})
        except _NOT_KNOWN:
            return [None for _ in operator.inputs]
        return [
            columns & every if _has_narrower(each) else None
            for each, columns, every in zip(operator.inputs, found, everything, strict=True)
        ]

    def content_of(self, operator: LogicalOperator) -> dict[str, Json]:
        """Return the kind and the parameters of an operator."""
        self._places = _internal_places(operator)
        self._has_function = False
        content = self.fields_json(operator, ANNOTATIONS)
        if self._has_function:  # which may find columns by name
            self._places = {}
            content = self.fields_json(operator, ANNOTATIONS)
            content["names"] = [each.schema.names for each in operator.inputs]
        elif self._places:
            # Operators compare the columns of their inputs by name, also where no parameter names one.
            content["internal"] = sorted(map(str, self._places.values()))
        return content

    def fields_json(self, value: Any, without: Collection[str] = ()) -> dict[str, Json]:  # noqa: ANN401
        """Return the class of a value and its fields."""
        version, places = self._version, self._places
        pinned = getattr(value, "version", None)
        self._version = version if pinned is None else pinned
        constant = _CONSTANTS.get(type(value)) if places else None
        content = super().fields_json(value, without if constant is None else {*without, constant})
        if constant is not None:
            self._places = {}
            content[constant] = self.json(getattr(value, constant))
        self._version, self._places = version, places
        return content

    def json(self, value: Any) -> Json:  # noqa: ANN401 - any part of an operator
        """Return the JSON of a value, internal columns as positions."""
        if type(value) is str and self._places and (found := _ORDERED.fullmatch(value)) is not None:
            column, order = found.groups()
            if column in self._places:
                return {**self._places[column], "order": order}
        return super().json(value)

    def _identity(self, value: Any) -> Json:  # noqa: ANN401 - a function or an object of the user
        self._has_function = True
        if self._version is not None:
            return {"version": self._version}
        return {"function": function_json(value)["digest"]}


class _IdentityWriter(_SignatureWriter):
    """Leaves out what may change while state stays what it is, or what the user answers for."""

    def content_of(self, operator: LogicalOperator) -> dict[str, Json]:
        """Return what an operator is; an input is its name, because its options are compared by name."""
        if isinstance(operator, streams.Input):
            return {"input": operator.input}
        return {name: each for name, each in super().content_of(operator).items() if name not in _MAY_CHANGE}

    def _identity(self, value: Any) -> Json:  # noqa: ANN401 - as above
        self._has_function = True
        if callable(value) and not isinstance(value, type):
            return {"function": None}
        return {"object of": (value if isinstance(value, type) else type(value)).__name__}


def _has_narrower(operator: LogicalOperator) -> bool:
    """Return whether what an operator computes can be told for some of its columns."""
    if not isinstance(operator, _NARROWER):
        return False
    return not any(name.startswith("__") for name in operator.schema.names)  # they count by their positions


def _only_selects(operator: logical.Project, used: Columns) -> bool:
    """Return whether some columns are those of the input, with their names and in their order."""
    kept = [(name, plain_column(each)) for name, each in operator.columns if name in used]
    in_order = [name for name in operator.input.schema.names if name in used]
    return _has_narrower(operator.input) and [(name, name) for name in in_order] == kept


def _with_columns(operator: LogicalOperator, used: Columns) -> LogicalOperator:
    """Return an operator that says of some of its columns only what they are."""
    with unchecked():
        match operator:
            case Scan():
                return replace(operator, columns=tuple(sorted(used)))
            case logical.Project():
                return replace(operator, columns=tuple(each for each in operator.columns if each[0] in used))
            case _:
                return operator


_NOT_KNOWN: Final = (PointstampError, LookupError, TypeError, ValueError)
"""Errors of an operator that does not fit its inputs, or whose function was not given."""

_NARROWER: Final = (Scan, logical.Project, logical.Filter)
"""Operators that keep nothing of columns: those of a table in some columns are those of these columns."""


def _internal_places(operator: LogicalOperator) -> dict[str, Json]:
    """Return where each internal column is in the schemas of the inputs and of the operator itself."""
    if not operator.inputs:
        return {}  # its columns have the names that something outside of the plan gives them
    try:
        schemas = [*(each.schema for each in operator.inputs), operator.schema]
    except FlowError:  # a function that was not given is needed to know them
        return {}
    names = {name for schema in schemas for name in schema.names if name.startswith("__")}
    return {name: {"columns": [schema.get_field_index(name) for schema in schemas]} for name in names}


def identify(
    nodes: Sequence[Node], parts_of: Sequence[LogicalOperator | None], roots: Sequence[LogicalOperator]
) -> None:
    """Let the state of each physical operator be found by the signature of the logical one it is a part of.

    Inputs and outputs are found by their names, and so are parts of operators without a signature. Of several
    operators with one signature, which hold the same table, the first in the order of writing is the first.

    Args:
        nodes: The physical operators, in the order in which they were added.
        parts_of: For each of them the logical operator that it is a part of.
        roots: The plan.

    """
    found = signatures(roots, without_code=True)
    numbers: Counter[str] = Counter()
    for node, operator in zip(nodes, parts_of, strict=True):
        signature = None if operator is None else found.get(operator)
        node.identity = ""
        if signature is not None and node.kind not in (NodeKind.INPUT, NodeKind.OUTPUT):
            node.identity = f"{signature}.{numbers[signature]}"
            numbers[signature] += 1


# Comparison of two plans.


@dataclass(frozen=True, slots=True)
class Filling:
    """An operator whose state is new, and the nearest tables above it that are known."""

    operator: LogicalOperator
    sources: tuple[LogicalOperator, ...]
    """Operators of the new plan whose state exists, and inputs, whose history is read."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What becomes of the state of each operator when one plan takes the place of another."""

    same: tuple[LogicalOperator, ...]
    """Operators of the new plan that use their state as it is."""
    new: tuple[Filling, ...]
    """Operators of the new plan whose state must be filled."""
    gone: tuple[LogicalOperator, ...]
    """Operators of the old plan whose state is dropped when the new plan has committed."""

    def __str__(self) -> str:
        lines = [f"same: {each}" for each in self.same]
        for each in self.new:
            sources = " and ".join(map(_source_text, each.sources)) or "nothing"
            lines.append(f"new: {each.operator}, filled from {sources}")
        return "\n".join([*lines, *(f"gone: {each}" for each in self.gone)])


def compare(before: Sequence[LogicalOperator], after: Sequence[LogicalOperator]) -> Comparison:
    """Return what becomes of the state of each operator when one plan takes the place of another.

    Args:
        before: The outputs of the optimized plan whose state exists.
        after: Those of the optimized plan that takes its place.

    """
    old, new = signatures(before), signatures(after)
    known = {signature for each, signature in old.items() if has_state(each)}
    wanted = set(new.values())
    loops = loops_of(after)
    stateful = [each for each in walk(after) if has_state(each)]
    return Comparison(
        tuple(each for each in stateful if new.get(each) in known),
        tuple(
            Filling(each, tuple(_sources(each, loops, lambda above: new.get(above) in known)))
            for each in stateful
            if new.get(each) not in known
        ),
        tuple(each for each in walk(before) if has_state(each) and old.get(each) not in wanted),
    )


def _source_text(operator: LogicalOperator) -> str:
    return f"input '{operator.input}'" if isinstance(operator, Scan | streams.Input) else str(operator)


def _sources(
    operator: LogicalOperator,
    loops: Mapping[LogicalOperator, tuple[LogicalOperator, ...]],
    is_known: Callable[[LogicalOperator], bool],
) -> Iterator[LogicalOperator]:
    """Yield the nearest operators above one from whose tables its state can be computed.

    State inside a loop is by rounds; so a recursion is computed again from what it reads.
    """
    seen: set[LogicalOperator] = {operator}
    waiting = _above(operator, loops)
    while waiting:
        each = waiting.pop(0)
        if each in seen:
            continue
        seen.add(each)
        is_table = isinstance(each, _HOLDS_ITS_TABLE) and not loops[each] and is_known(each)
        if is_table or isinstance(each, Scan | streams.Input):
            yield each
        else:
            waiting = [*_above(each, loops), *waiting]


def _above(
    operator: LogicalOperator, loops: Mapping[LogicalOperator, tuple[LogicalOperator, ...]]
) -> list[LogicalOperator]:
    """Return what an operator reads; a variable reads its loop."""
    is_bound = isinstance(operator, Variable) and loops[operator]
    return [loops[operator][-1]] if is_bound else list(operator.inputs)
