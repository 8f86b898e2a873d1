"""Separate the inputs of a call from its options.

Inputs are a mapping by name, ``run({"orders": ...})``; a flow with one input takes its value itself,
``run(orders)``; and verbs such as ``run`` take inputs as keywords beside their own options. An input may have
the name of an option, ``workers`` or ``output``; it is then given in the mapping, where every name is that of
an input. A user who forgets that is told so, in place of an error about something else.

Invariant: every name in the result was given once.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pointstamp.errors import FlowError
from pointstamp.flow.plan import NodeKind, Plan


def given_inputs(
    plan: Plan,
    verb: Callable[..., Any],
    inputs: Any,  # noqa: ANN401 - a mapping, or anything that holds rows
    streams: Mapping[str, Any],
) -> dict[str, Any]:
    """All inputs by name; FlowError where one was given twice, or was taken for an option of the verb."""
    given = inputs if inputs is not None else {}
    if not isinstance(given, Mapping):
        names = list(plan.named(NodeKind.INPUT))
        if len(names) != 1:
            raise FlowError(
                f"flow '{plan.name}' has {len(names)} inputs, and {verb.__name__}() was given a "
                f"{type(inputs).__name__} without a name. Give a mapping: {verb.__name__}({{'name': ...}})."
            )
        given = {names[0]: given}
    if twice := [name for name in streams if name in given]:
        raise FlowError(
            f"flow '{plan.name}': {verb.__name__}() got the input '{twice[0]}' twice, in the mapping and "
            "as a keyword. Leave one of them out."
        )
    data = {**given, **streams}
    parameters = inspect.signature(verb).parameters.values()
    options = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
    for name in plan.named(NodeKind.INPUT):
        if name in options and name not in data:
            raise FlowError(
                f"flow '{plan.name}' has an input '{name}', and '{name}' is also an option of "
                f"{verb.__name__}(). Give the input in the mapping: {verb.__name__}({{'{name}': ...}})."
            )
    return data
