"""Pickle a flow for the workers, and name the operator that cannot be pickled.

Functions travel by name where a worker can import their module, and by value otherwise: those of a script or
a notebook, lambdas, closures with what they hold, and those of a module that was loaded from a place which is
not on the module path. What a module holds besides is not sent: a worker imports it again.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import cloudpickle

from pointstamp.errors import FlowError
from pointstamp.flow.plan import Plan

Dumps: TypeAlias = Callable[[object], bytes]


def packed(plan: Plan, sent: object) -> bytes:
    """``sent``, which holds the plan, as a worker of this machine can load it; FlowError where it cannot."""
    with _by_value():
        return pack_with(cloudpickle.dumps, plan, sent)


def pack_with(dumps: Dumps, plan: Plan, sent: object) -> bytes:
    """``sent`` as this pickler writes it; FlowError where it cannot, with the operator at fault."""
    try:
        return dumps(sent)
    except Exception as error:  # pickling raises whatever a class of the user's raises
        whole = _in_words(error)
    for node in plan.nodes:
        try:
            dumps(node)
        except Exception as error:
            raise FlowError(
                f"operator '{node.name}' of flow '{plan.name}' cannot be sent to the workers: "
                f"{_in_words(error)}. Create locks, open files, connections and sessions inside the "
                "function, or in a module that it imports."
            ) from None
    raise FlowError(
        f"flow '{plan.name}' cannot be sent to the workers: {whole}. Sources, sink and times are pickled: "
        "open files and connections where they are used."
    )


def _in_words(error: Exception) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__


@contextmanager
def _by_value() -> Iterator[None]:
    """Let what modules define that only this process can have travel by value."""
    registered = cloudpickle.list_registry_pickle_by_value()
    found = [
        module
        for name, module in list(sys.modules.items())
        if name not in registered and name != "__main__" and _is_only_here(name, module)
    ]
    for module in found:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in found:
            cloudpickle.unregister_pickle_by_value(module)


def _is_only_here(name: str, module: ModuleType) -> bool:
    """Whether another process with the same module path would not find a module where this one came from."""
    place = getattr(module, "__file__", None)
    if place is None or getattr(module, "__name__", None) != name or name.split(".")[0] == "pointstamp":
        return False
    if place.startswith((sys.prefix, sys.base_prefix)):
        return False  # installed, or of Python itself
    path: list[str] | None = None
    origin: str | None = None
    for depth in range(1, name.count(".") + 2):
        spec = PathFinder.find_spec(".".join(name.split(".")[:depth]), path)
        if spec is None:
            return True
        path, origin = list(spec.submodule_search_locations or ()), spec.origin
    return origin is None or Path(origin) != Path(place)
