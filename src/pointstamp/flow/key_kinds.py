"""Kinds of keys: two columns are of one kind where equal values of theirs have equal hashes.

A row goes to the worker that the hash of its key names (``pointstamp.rows.hashing``), and the hash looks
at how a value is stored: the long 1 and the double 1.0 are equal and live on different workers, most of the
time. So rows of two streams that are to meet by key must have keys of one kind, and where they have not, the
flow is refused when it is written. Within one stream there is one type.

Invariant: no operator of a plan reads two streams that are exchanged by keys of different kinds.

Of one kind are integers of every width and decimals of scale 0; floats of every width; decimals of one scale;
text, in offsets of any width; binary, of fixed length or not; instants in one unit, whatever their time
zones; lists and maps of one kind; structs with fields of one kind, in order. An encoding (dictionary,
run-end, view, extension) is of the kind of what it holds. A column that is always null is of every kind.
"""

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
from pyarrow import types

from pointstamp.errors import FlowError
from pointstamp.flow.pact import ExchangeBy, StayHere
from pointstamp.flow.plan import InputPort, Plan

_KINDS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], str]], ...]] = (
    (types.is_boolean, lambda kind: "boolean"),
    (types.is_integer, lambda kind: "integer"),
    (types.is_floating, lambda kind: "float"),
    (types.is_decimal, lambda kind: f"decimal of scale {kind.scale}" if kind.scale else "integer"),
    (types.is_timestamp, lambda kind: f"{'naive' if kind.tz is None else 'zoned'} timestamp in {kind.unit}"),
    (types.is_time, lambda kind: f"time in {kind.unit}"),
    (types.is_duration, lambda kind: f"duration in {kind.unit}"),
    (types.is_date32, lambda kind: "date in days"),
    (types.is_date64, lambda kind: "date in milliseconds"),
    (lambda kind: kind in (pa.string(), pa.large_string(), pa.string_view()), lambda kind: "text"),
    (lambda kind: kind in (pa.binary(), pa.large_binary(), pa.binary_view()), lambda kind: "binary"),
    (types.is_fixed_size_binary, lambda kind: "binary"),
    (types.is_struct, lambda kind: f"struct of ({', '.join(str(key_kind(each.type)) for each in kind)})"),
    (types.is_map, lambda kind: f"map of ({key_kind(kind.key_type)}, {key_kind(kind.item_type)})"),
)


def key_kind(kind: pa.DataType) -> str | None:
    """The kind of a type, as text; None for one that is always null.

    >>> key_kind(pa.int32()), key_kind(pa.dictionary(pa.int8(), pa.string())), key_kind(pa.timestamp("us"))
    ('integer', 'text', 'naive timestamp in us')
    """
    if types.is_null(kind):
        return None
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return key_kind(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return key_kind(kind.storage_type)
    if "list" in str(kind).partition("<")[0]:
        return f"list of {key_kind(kind.value_type)}"
    return next((words(kind) for is_so, words in _KINDS if is_so(kind)), str(kind))


def check_keys_meet(plan: Plan, name: str, ports: Sequence[InputPort]) -> None:
    """Refuse two inputs of an operator that are exchanged by keys, one for one, of different kinds."""
    exchanged = [(port, found) for port in ports if (found := _keys_of(plan, port))]
    for number, (first, keys) in enumerate(exchanged):
        for second, others in exchanged[number + 1 :]:
            if len(keys) != len(others):
                continue
            for one, other in zip(keys, others, strict=True):
                kinds = {key_kind(each.type) for each in (one, other)} - {None}
                if len(kinds) > 1:
                    raise FlowError(
                        f"operator '{name}' reads input '{first.name}' exchanged by '{one.name}' "
                        f"({one.type}), and input '{second.name}' by '{other.name}' ({other.type}). Equal "
                        "values of these types are sent to different workers, so rows would meet only by "
                        "chance. Cast one of the columns before the exchange."
                    )


def check_all_keys_meet(plan: Plan) -> None:
    """The same for every operator of a plan, as when a cycle is closed."""
    for node in plan.nodes:
        if not node.kind.is_door and len(node.inputs) > 1:
            check_keys_meet(plan, node.name, node.inputs)


def _keys_of(plan: Plan, port: InputPort) -> list[pa.Field] | None:
    """The key columns of the exchange that rows take to an input: its own, or the last before it."""
    for _ in range(len(plan.nodes) + 1):  # a variable that is fed with itself leads nowhere
        if port.source is None:
            return None
        node = plan.nodes[port.source.operator]
        if isinstance(port.pact, ExchangeBy):
            schema = node.outputs[port.source.port].schema
            return [schema.field(key) for key in port.pact.keys]
        if not node.kind.is_door or not isinstance(port.pact, StayHere):
            return None
        port = node.inputs[0]
    return None
