"""Operators of a user's own in a plan: an object with methods, copied for each worker."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.flow.logic import NamedSchemas, OneSchema, OperatorLike
from pointstamp.flow.outlet import add_operator
from pointstamp.flow.stream import Stream
from pointstamp.operators.spec import OperatorSpec, Prototype
from pointstamp.rows.schema import as_schema
from pointstamp.state.declared import declares_state
from pointstamp.topology.summary import Summary, identity


def add_custom(
    name: str,
    logic: OperatorLike,
    inputs: Mapping[str, Stream],
    outputs: OneSchema | NamedSchemas | None,
    summaries: Mapping[tuple[str, str], Sequence[Summary]] | None,
) -> list[Stream]:
    """Add an operator of a user's own; return its outputs.

    ``outputs`` and ``summaries`` may also be attributes of the object.
    """
    declared = outputs if outputs is not None else getattr(logic, "outputs", {})
    named = dict(declared) if isinstance(declared, Mapping) else {"out": declared}
    schemas = {output: as_schema(schema) for output, schema in named.items()}
    _check_methods(name, logic, schemas)
    given = summaries if summaries is not None else getattr(logic, "summaries", None)
    rounds = len(next(iter(inputs.values())).loops)
    return add_operator(
        name,
        OperatorSpec(logic) if isinstance(logic, type) else Prototype(logic),
        inputs,
        schemas,
        _numbered(name, given, list(inputs), list(schemas), rounds),
        given,
        in_order=_takes_times_in_order(name, logic),
    )


def _check_methods(name: str, logic: Any, schemas: Mapping[str, pa.Schema]) -> None:  # noqa: ANN401
    methods = ("on_start", "on_receive", "on_notify", "on_frontier")
    if not any(callable(getattr(logic, method, None)) for method in methods):
        raise FlowError(
            f"operator '{name}' is a {type(logic).__name__} without any of {', '.join(methods)}, so it would "
            "never do anything."
        )


def _takes_times_in_order(name: str, logic: Any) -> bool:  # noqa: ANN401
    said = getattr(logic, "takes_times_in_order", None)
    if said is None:
        return callable(getattr(logic, "on_notify", None)) and declares_state(logic)
    if not isinstance(said, bool):
        raise FlowError(
            f"operator '{name}' has takes_times_in_order = {said!r}, but it must be True or False. Set it to "
            "one of them, or leave it out."
        )
    return said


def _numbered(
    name: str,
    given: Mapping[tuple[str, str], Sequence[Summary]] | None,
    inputs: list[str],
    outputs: list[str],
    rounds: int,
) -> dict[tuple[int, int], tuple[Summary, ...]] | None:
    """Summaries by number; pairs that are not mentioned are the identity."""
    if given is None:
        return None
    for input_name, output_name in given:
        if input_name not in inputs or output_name not in outputs:
            raise FlowError(
                f"operator '{name}' declares a summary from '{input_name}' to '{output_name}'; it has the "
                f"inputs {inputs} and the outputs {outputs}."
            )
    return {
        (i, o): tuple(given.get((input_name, output_name), (identity(rounds),)))
        for i, input_name in enumerate(inputs)
        for o, output_name in enumerate(outputs)
    }
