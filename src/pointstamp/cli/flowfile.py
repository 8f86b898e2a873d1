"""Reading a user's flow file: a Python module with a ``flow`` and its ``inputs``.

    import pointstamp as ps

    flow = ps.Dataflow("words")
    words = flow.stream_input("words", "word string")
    flow.output("counts", words.count("word"))

    def inputs():                       # or a plain dictionary
        return {"words": [[{"word": "to"}, {"word": "be"}], [{"word": "or"}]]}

``inputs`` has for each input of the flow a list with the rows of each epoch: lists of dictionaries, Arrow
batches or tables, pandas or polars frames. Where the flow has custom times, it is a list of (time, rows)
pairs.
"""

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from pointstamp.dataflow import Dataflow
from pointstamp.errors import FlowError, UsageError
from pointstamp.flow.plan import NodeKind
from pointstamp.verify.plan_shape import has_own_times

_MODULE = "pointstamp_flow_file"


class FlowFile(NamedTuple):
    """A flow and what it is to be fed."""

    flow: Dataflow
    inputs: Any


def load(name: str) -> FlowFile:
    """Run the file and take ``flow`` and ``inputs`` from it; a UsageError says what is missing."""
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"{name}: there is no such file; give a Python file with a flow and its inputs.")
    module = _run(path)
    flow = getattr(module, "flow", None)
    if flow is None:
        raise UsageError(f"{name} has no flow; write flow = ps.Dataflow(...) at the top level of the file.")
    if not isinstance(flow, Dataflow):
        raise UsageError(f"{name}: flow must be a pointstamp.Dataflow, not a {type(flow).__name__}.")
    inputs = getattr(module, "inputs", None)
    if inputs is None:
        raise UsageError(
            f"{name} has no inputs; write inputs = {{{_example(flow)}}}, or a function that returns it."
        )
    if callable(inputs):
        try:
            inputs = inputs()
        except Exception as error:
            raise UsageError(f"{name}: inputs() failed: {_where(path, error)}") from error
    return FlowFile(flow, inputs)


def _run(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module
    sys.path.insert(0, str(path.resolve().parent))  # as when it is run by itself
    try:
        spec.loader.exec_module(module)
    except FlowError as error:
        raise UsageError(f"{path}: {error}") from error
    except Exception as error:
        raise UsageError(f"{path} cannot be run: {_where(path, error)}") from error
    return module


def _where(path: Path, error: Exception) -> str:
    """The error in one line, with the line of the user's file."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} (line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).name == path.name]
    place = f" (line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {error}{place}"


def _example(flow: Dataflow) -> str:
    each = "(time, rows)" if has_own_times(flow.plan) else "rows"
    return ", ".join(f"{name!r}: [{each}, {each}]" for name in flow.plan.named(NodeKind.INPUT))
