"""The shape of a flow, compared before a query resumes.

State is found again by the place of its operator: the signature of the logical operator that it is a part of
(``pointstamp.plan.signatures``), whatever the operator is called and wherever it was written; and positions
by the name of an input. The shape holds every operator and door by place, with every parameter as canonical
text (``pointstamp.plan.canonical``), who reads whom, and the identity of each source. So state cannot be read
as something that it is not: an operator with another signature is another operator, and one with the same
signature and other parameters is rejected, too. A difference is an error that names it, before anything is
written.

``accept_changes=True`` accepts two differences, and no others:

- an output is dropped, with the operators that nothing else reads;
- a function or an object of the user has changed: the user answers for state and output that were computed
  before.

Besides, late rows that were an error may be dropped from now on: up to here there were none.
"""

import platform
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Final

import pyarrow as pa
from msgspec.structs import replace

from pointstamp.arrow.epoch_column import EpochColumn
from pointstamp.connectors.sink import PublisherBase, Sink, kind_of_sink
from pointstamp.connectors.source import described, differences, identity_of_source
from pointstamp.errors import RecoveryError
from pointstamp.expressions.compiler import Compiled
from pointstamp.flow.plan import Node, NodeKind, Plan
from pointstamp.incremental.aggregate_operators import InParts
from pointstamp.incremental.stateless import Appended, Negated, Weighed
from pointstamp.incremental.top_k import FirstOfBatch
from pointstamp.journal.history import LAYOUT, FlowShape, OperatorShape
from pointstamp.operators.spec import OperatorSpec, Prototype, spec_of
from pointstamp.operators.stateless import PhysicalFilter, PhysicalProject
from pointstamp.plan.canonical import (
    USER_CODE,
    Canonical,
    declared_state,
    readable,
    schema_text,
)
from pointstamp.topology.ports import SourcePort
from pointstamp.version import __version__
from pointstamp.worker.snapshots import place_of

_DIFFERENCES_MAX: Final = 4
_DEPTH_MAX: Final = 4
_RECURSION_MAX: Final = 20_000
_TOLD_APART: Final = (
    *("index", "name", "kind", "scope", "inputs", "outputs", "logic", "identity"),
    *("idle_seconds", "extra_columns", "notes", "step"),
    "settings",
)
"""Fields of a node that are compared in another way; those of the second line may change freely."""
_SIGNED: Final = re.compile(r"\w+ [0-9a-f]{32}\.\d+")
"""A place that has a signature in it."""
_READS: Final = re.compile(r"(\w+ [0-9a-f]{32}\.\d+)(, output '\w+')?")
"""The pattern of an input's source, before its pact."""
_NEW_PLACE: Final = "start with a new checkpoint and a new output"


def shape_of(
    plan: Plan,
    query: str,
    sources: Mapping[str, object] | None = None,
    epochs: Mapping[str, EpochColumn] | None = None,
    schemas: Mapping[str, pa.Schema] | None = None,
) -> FlowShape:
    """Return the shape of a flow that reads these sources; ``schemas`` are the published columns."""
    with _deep_recursion():
        operators = {
            place_of(node): operator_shape(plan, node, (epochs or {}).get(node.name)) for node in plan.nodes
        }
    return FlowShape(
        plan.name,
        query,
        operators,
        {name: identity_of_source(source) for name, source in (sources or {}).items()},
        {
            name: schema.serialize().to_pybytes()
            for name, schema in (schemas or plan.output_schemas()).items()
        },
        __version__,
        ".".join(platform.python_version_tuple()[:2]),
        LAYOUT,
    )


def resumed_shape(before: FlowShape | None, now: FlowShape) -> FlowShape:
    """Return the shape of a flow that resumes: outputs keep the columns that they were published with.

    Spark has fewer types than Arrow, so a query on Spark publishes wider ones. The flow is the same, so it
    may resume elsewhere, and publishes what it has published so far.
    """
    if before is None:
        return now
    schemas = {name: before.schemas.get(name, schema) for name, schema in now.schemas.items()}
    return replace(now, schemas=schemas)


def published_schemas(shape: FlowShape) -> dict[str, pa.Schema]:
    """Return the published columns of each output."""
    return {name: pa.ipc.read_schema(pa.py_buffer(each)) for name, each in shape.schemas.items()}


def check_shape(
    before: FlowShape,
    now: FlowShape,
    *,
    accept_changes: bool,
    moved_from: Mapping[str, str] | None = None,
) -> None:
    """Raise RecoveryError if a flow may not resume from the checkpoint of another one."""
    _check_layout(before, now)
    _check_sources(before, now, moved_from or {})
    common = before.operators.keys() & now.operators.keys()
    with_state = _with_state(before, common), _with_state(now, common)
    if not any(_differences(*with_state)):
        before, now = with_state
    wrong = list(_differences(before, now))
    accepted = list(_acceptable(before, now))
    if not wrong and (accept_changes or not accepted):
        return
    what = [*wrong, *(() if accept_changes else accepted)]
    more = len(what) - _DIFFERENCES_MAX
    said = "; ".join(what[:_DIFFERENCES_MAX]) + (f"; and {more} more differences" if more > 0 else "")
    raise RecoveryError(
        f"flow '{now.name}': the checkpoint belongs to another flow: {said}. "
        f"{_other_versions(before, now, has_functions=bool(accepted))}{_way_out(before, now, wrong)}"
    )


def _with_state(shape: FlowShape, common: Collection[str]) -> FlowShape:
    """Return the operators that hold something or run code of the user, with what they read left open.

    The others are of expressions, all of which are in the signatures of the operators that read them.

    The signature of an operator says what its inputs are, so which operators without state compute them does
    not matter: a plan without an output may read fewer columns before, or do steps in another order. A table
    that several operators keep together is told by those of them that are in both flows. Outputs have no
    signature, and are compared with what they read.
    """
    kept = {place: each for place, each in shape.operators.items() if each.has_state or each.functions}
    together: dict[tuple[str, str], str] = {}
    for table, places in _sharing(shape).items():
        shared = ", ".join(place for place in places if place in common)
        together |= {(place, text): shared for what, text in table if what == "source" for place in places}

    def reading(place: str, operator: OperatorShape) -> OperatorShape:
        if _SIGNED.fullmatch(place) is None:
            return operator
        left = dict(operator.parameters)
        for name, text in operator.parameters.items():
            found = _READS.match(text)
            if found is None or found[1] in kept:
                continue
            if name.startswith("input '"):
                left[name] = _READS.sub("", text)
            elif (place, text) in together:
                left[name] = f"kept by {together[place, text]}"
        return replace(operator, parameters=left)

    return replace(shape, operators={place: reading(place, each) for place, each in kept.items()})


def in_words(operator: OperatorShape) -> str:
    """Return the class and the columns of an operator, for who looks at a checkpoint."""
    found = operator.parameters
    columns = "; ".join(text for name, text in found.items() if name.startswith("columns of"))
    return f"{readable(found.get('operator', '')).rpartition('.')[2]}({columns})"


def check_outputs(sink: Sink, publisher: PublisherBase, before: FlowShape | None, now: FlowShape) -> None:
    """Ask the publisher whether it can continue from what is published with the flow's present outputs."""
    had = [] if before is None else _places(before, NodeKind.OUTPUT)
    if publisher.check_outputs(had) is not False:
        return
    gone = [name for name in had if name not in _places(now, NodeKind.OUTPUT)]
    if gone:
        raise RecoveryError(
            f"flow '{now.name}': output '{gone[0]}' was dropped, and the sink {kind_of_sink(sink)} has "
            "no method check_outputs to accept that. Restore the output, add that method to the sink's "
            f"publisher, or {_NEW_PLACE}."
        )


# The shape.


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Let expressions be nested as deeply as they may be where they are written."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION_MAX))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def operator_shape(plan: Plan, node: Node, epochs: EpochColumn | None = None) -> OperatorShape:
    """Return the shape of one node of a plan."""
    words = Canonical(lambda source: _edge(plan, source))
    parameters: dict[str, str] = {"loops": str(len(node.scope))} if node.scope else {}
    for port in node.inputs:
        source = "nothing" if port.source is None else _edge(plan, port.source)
        pact = words.text(port.pact)
        parameters[f"input '{port.name}'"] = f"{source}, {pact}" if str(port.pact) else source
    for output in node.outputs:
        parameters[f"columns of '{output.name}'"] = schema_text(output.schema)
    if node.logic is not None:
        parameters.update(_logic(words, spec_of(node.logic)))
    for each in fields(node):
        value = getattr(node, each.name)
        if each.name not in _TOLD_APART and value:
            parameters[each.name] = words.text(value)
    parameters.update({f"setting {name}": value for name, value in node.settings.items()})
    if epochs is not None:
        parameters["epoch"] = words.text(epochs)
    is_stateless = node.kind is NodeKind.OPERATOR and node.logic is not None and _is_of_expressions(node)
    name = f"{node.kind.value} {node.name}"
    return OperatorShape(name, parameters, words.functions, has_state=not is_stateless)


def _is_of_expressions(node: Node) -> bool:
    """Return whether an operator keeps nothing and runs no code of the user: its signature says all of it.

    The time zone and the settings that it is evaluated in are not in its signature.
    """
    if node.time_zone or node.settings:
        return False
    made = spec_of(node.logic)
    if made.kind is PhysicalFilter:
        return isinstance(made.parameters["condition"], Compiled)
    return made.kind in (PhysicalProject, Appended, Negated, Weighed, InParts, FirstOfBatch)


def _edge(plan: Plan, source: SourcePort) -> str:
    """Return the text of an output: its node's place, and its own name if the node has several.

    Numbers of nodes are not in it: they change when an operator that stands before is removed.
    """
    node = plan.nodes[source.operator]
    name = node.outputs[source.port].name
    return place_of(node) if len(node.outputs) == 1 else f"{place_of(node)}, output '{name}'"


def _logic(words: Canonical, made: OperatorSpec | Prototype) -> Iterator[tuple[str, str]]:
    own = made.prototype if isinstance(made, Prototype) else made.kind
    if words.fields_of(own) is None:
        yield "operator", words.text(own)
    else:
        yield "operator", words.text(type(own))
        yield from _flat(words, "", own, 0)
    for name, value in made.parameters.items():
        yield from _flat(words, name, value, 1)
    yield from ((f"state '{name}'", way) for name, way in declared_state(own).items())


def _flat(words: Canonical, name: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    """Yield the parts of a value by name, as deep as helps to see what differs."""
    parts = words.fields_of(value) if depth < _DEPTH_MAX else None
    if parts is None:
        yield name, words.text(value)
        return
    if name:
        yield name, words.head(value)
    for part, each in parts:
        if each is not None:
            yield from _flat(words, f"{name}.{part}" if name else part, each, depth + 1)


# The differences.


def _check_layout(before: FlowShape, now: FlowShape) -> None:
    if before.layout == LAYOUT:
        return
    age = "an older" if before.layout < LAYOUT else "a newer"
    raise RecoveryError(
        f"flow '{now.name}': the checkpoint was written by {age} version of pointstamp, whose layout is "
        f"{before.layout}, expected {LAYOUT}. Resume with that version, or {_NEW_PLACE}."
    )


def _check_sources(before: FlowShape, now: FlowShape, moved_from: Mapping[str, str]) -> None:
    for name, source in now.sources.items():
        stored = before.sources.get(name)
        if stored is None:
            continue  # a new input is a new operator, too
        found = list(differences(stored, source, moved_from.get(name)))
        if not found:
            continue
        moved = next((stored[key] for key in ("place", "servers") if found == [key]), None)
        elsewhere = f"If these are the same rows at another place, pass moved_from={moved!r}. "
        raise RecoveryError(
            f"flow '{now.name}', input '{name}': the checkpoint belongs to {described(stored)}, got "
            f"{described(source)}. {elsewhere if moved else ''}Give the same source again, or {_NEW_PLACE}."
        )


def _differences(before: FlowShape, now: FlowShape) -> Iterator[str]:
    """Yield what is never accepted.

    An operator that only reads something else than before is not listed if what it reads is.
    """
    gone = {each.name: each for place, each in before.operators.items() if place not in now.operators}
    said: list[str] = []
    new: list[str] = []
    others: list[str] = []
    for place, operator in now.operators.items():
        stored = before.operators.get(place)
        compared = stored or gone.get(operator.name)
        if compared is None:
            new.append(f"{operator.name} is new")
            continue
        said += _parameters(before, compared, now, operator)
        if stored is None or not _is_same(stored, operator):
            others.append(f"{operator.name} computes something else")
    yield from [*said, *new] or others
    yield from _orphans(before, now)
    inputs = _places(now, NodeKind.INPUT)
    yield from (f"input {name} is missing" for name in _places(before, NodeKind.INPUT) if name not in inputs)


def _is_same(before: OperatorShape, now: OperatorShape) -> bool:
    names = {*before.parameters, *now.parameters}
    return all(
        before.parameters.get(name) == now.parameters.get(name)
        or _is_first_late(name, before.parameters.get(name))
        for name in names
    )


def _changed(before: FlowShape, now: FlowShape) -> set[str]:
    """Return the names of operators of which the new flow has another one."""
    names = {each.name for place, each in now.operators.items() if place not in before.operators}
    return {each.name for place, each in before.operators.items() if place not in now.operators} & names


def _orphans(before: FlowShape, now: FlowShape) -> Iterator[str]:
    """Yield operators that share a table with one that is missing, in whose state it was saved."""
    for table, places in _sharing(before).items():
        owner = before.operators[places[0]]
        left = [place for place in places if place in now.operators]
        if left and places[0] not in now.operators:
            name = before.operators[left[0]].name
            yield f"{owner.name} is missing, in whose state the table of {name} was saved"
        elif left and _sharing(now).get(table, left)[0] != places[0]:
            other = now.operators[_sharing(now)[table][0]].name
            yield f"{owner.name} was written before {other}, and the table that they share is in its state"


def _sharing(shape: FlowShape) -> dict[frozenset[tuple[str, str]], list[str]]:
    """Return the places of the operators that keep each table together, the one that saves it first."""
    found: dict[frozenset[tuple[str, str]], list[str]] = {}
    for place, operator in shape.operators.items():
        tables: dict[str, set[tuple[str, str]]] = {}
        for name, text in operator.parameters.items():
            kind, _, part = name.partition(".")
            if kind == "arranged" and part:
                table, _, what = part.partition(".")
                tables.setdefault(table, set()).add((what, text))
        for kept in tables.values():
            found.setdefault(frozenset(kept), []).append(place)
    return found


def _parameters(
    flow_before: FlowShape, before: OperatorShape, flow_now: FlowShape, now: OperatorShape
) -> Iterator[str]:
    """Yield the parameters in which two operators differ; what they read counts by its name.

    What was there before is called as it was, so that two operators of one name are told apart.
    """
    for name in dict.fromkeys([*before.parameters, *now.parameters]):
        old, new = before.parameters.get(name), now.parameters.get(name)
        if old == new or _is_first_late(name, old):
            continue
        known = {**flow_now.operators, **flow_before.operators}
        named = ["not set" if each is None else _with_names(known, each) for each in (old, new)]
        if named[0] == named[1]:
            continue
        shown = [readable(each) for each in named]
        if shown[0] == shown[1]:
            shown = [str(old), str(new)]
        yield f"{now.name}: {name} was {shown[0]}, is {shown[1]}"


def _with_names(operators: Mapping[str, OperatorShape], text: str) -> str:
    """Return a text with names in place of signatures."""

    def name(found: re.Match[str]) -> str:
        operator = operators.get(found[0])
        return found[0] if operator is None else operator.name

    return _SIGNED.sub(name, text)


def _is_first_late(name: str, old: str | None) -> bool:
    return name.rpartition(".")[2] == "late" and old == "'error'"


def _acceptable(before: FlowShape, now: FlowShape) -> Iterator[str]:
    """Yield what the user may accept."""
    for place, operator in now.operators.items():
        stored = before.operators.get(place)
        if stored is not None and stored.functions != operator.functions:
            yield f"{operator.name}: {USER_CODE} or a value that it captures has changed"
    changed = _changed(before, now)
    for place, operator in before.operators.items():
        is_input = place.startswith(f"{NodeKind.INPUT.value} ")
        if place not in now.operators and not is_input and operator.name not in changed:
            yield f"{operator.name} is missing"


def _other_versions(before: FlowShape, now: FlowShape, *, has_functions: bool) -> str:
    said = ""
    if has_functions and before.python != now.python:
        said = f"Python {before.python} wrote the checkpoint; its bytecode is not that of {now.python}. "
    if before.version != now.version:
        said += (
            f"pointstamp {before.version} wrote the checkpoint; {now.version} may make other operators of "
            "the same flow. "
        )
    return said


def _way_out(before: FlowShape, now: FlowShape, wrong: list[str]) -> str:
    outputs = _places(now, NodeKind.OUTPUT)
    dropped = [each for each in _places(before, NodeKind.OUTPUT) if each not in outputs]
    if wrong and dropped:
        return (
            f"If only output '{dropped[0]}' was dropped, others shared state with it that would be "
            f"another one without it: restore the output, or {_NEW_PLACE}."
        )
    if wrong:
        return f"Resume with the flow that wrote the checkpoint, or {_NEW_PLACE}."
    return (
        "Resume with the flow that wrote the checkpoint; or pass accept_changes=True: then what is missing "
        "loses its state, and changed code continues with the state that it finds."
    )


def _places(shape: FlowShape, kind: NodeKind) -> list[str]:
    """Return the names of the inputs or the outputs of a flow."""
    prefix = f"{kind.value} "
    return [place.removeprefix(prefix) for place in shape.operators if place.startswith(prefix)]
