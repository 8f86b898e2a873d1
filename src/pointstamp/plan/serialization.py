"""Plans as JSON: all fields of operators, and functions by identity.

The operators of a plan stand in a list, inputs before those that read them, and are named by their position
in it, so that what is shared stays shared. An operator, an expression, an aggregate or any other dataclass is
an object with its class as ``is`` and its fields; a field that is None is left out. Nothing is listed by hand
for an operator, so a new one needs no code here.

A user's function cannot be written. Its identity stands in its place: module, qualified name, and a digest of
its code, its constants and the values that it captures. ``read_plan`` takes the functions; an operator whose
function is not given can be looked at, compared and explained, but raises ``FlowError`` when it is called.

Invariant: equal plans give equal text, in every process that runs the same version of Python. Reading finds
classes, enumerations and functions of this package by name; it imports and executes nothing else.

>>> from pointstamp.expressions.tree import col
>>> from pointstamp.plan.logical import Filter, Scan
>>> orders = Scan("orders", pa.schema({"price": pa.int64()}))
>>> text = write_plan({"large": Filter(orders, col("price") > 10)})
>>> str(read_plan(text)["large"].condition)
"(col('price') > 10)"
"""

import base64
import enum
import importlib
import json
import platform
import sys
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import partial
from typing import Any, Final, NoReturn
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.expressions import tree
from pointstamp.incremental.window_functions import OrderFunction, RowFrame
from pointstamp.plan import streams
from pointstamp.plan.arrow_json import (
    Json,
    array_of,
    batch_json,
    batch_of,
    field_json,
    field_of,
    float_json,
    float_of,
    schema_json,
    schema_of,
    type_json,
    type_of,
    values_json,
)
from pointstamp.plan.canonical import identity_digest
from pointstamp.plan.logical import LogicalOperator, walk
from pointstamp.reduce.aggregate import Aggregate, FunctionAggregate

LAYOUT: Final = 1
"""The version of the JSON; a text of another one is rejected."""

_OURS: Final = "pointstamp"
del streams  # its operators can be read because it is imported
_RECURSION_MAX: Final = 20_000
_SHORT: Final[Mapping[str, type]] = {
    each.__name__: each
    for each in (
        *(tree.Column, tree.Literal, tree.Call, tree.CastTo, tree.Named, tree.Choice, tree.Lambda),
        *(Aggregate, FunctionAggregate, OrderFunction, RowFrame),
    )
}
"""Classes that have a short name in the JSON; every other one has its module, too."""


def write_plan(roots: Mapping[str, LogicalOperator], *, indent: int | None = None) -> str:
    """Return the JSON text of the plan of these outputs.

    Args:
        roots: The operator of each output, by name.
        indent: Spaces for each level; default: one line.

    Raises:
        FlowError: A field has a value that cannot be written.

    """
    with deep_recursion():
        return json.dumps(plan_json(roots), indent=indent, ensure_ascii=False, allow_nan=False)


def read_plan(text: str, functions: Mapping[str, Any] | Sequence[Any] = ()) -> dict[str, LogicalOperator]:
    """Return the operators of the outputs in a JSON text of ``write_plan``.

    Args:
        text: The JSON.
        functions: The users' functions and objects that the plan needs: a list, or a mapping from the
            ``module.name`` that stands in the JSON. Default: none; their operators raise when they run.

    Raises:
        FlowError: The text is not a plan, is of another layout, or a given function is not the one that the
            plan was written with.

    """
    try:
        given = json.loads(text)
    except ValueError as error:
        raise FlowError(f"read_plan: the text is not JSON: {error}. Give what write_plan wrote.") from None
    if not isinstance(given, dict) or given.get("layout") != LAYOUT:
        found = given.get("layout") if isinstance(given, dict) else None
        raise FlowError(
            f"read_plan: the layout of the plan is {found!r}, expected {LAYOUT}. Write it with this version."
        )
    try:
        with deep_recursion():
            return PlanReader(functions).plan(given)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise FlowError(f"read_plan: the text is not a plan: {what}. Give what write_plan wrote.") from error


def plan_json(roots: Mapping[str, LogicalOperator]) -> Json:
    """Return the plan of these outputs as the data that ``write_plan`` writes."""
    operators = list(walk(list(roots.values())))
    places = {id(each): place for place, each in enumerate(operators)}
    writer = PlanWriter(lambda operator: {"operator": places[id(operator)]})
    return {
        "layout": LAYOUT,
        "outputs": {name: places[id(root)] for name, root in roots.items()},
        "operators": [writer.fields_json(each) for each in operators],
    }


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Let expressions be nested as deeply as they may be where they are written."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION_MAX))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@dataclass(frozen=True, slots=True)
class MissingFunction:
    """A function or an object that a plan was written with, and that was not given when it was read."""

    name: str
    digest: str
    python: str

    def __call__(self, *given: Any, **options: Any) -> NoReturn:  # noqa: ANN401 - as the function has them
        """Raise FlowError."""
        del given, options
        self._raise()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._raise()

    def _raise(self) -> NoReturn:
        raise FlowError(
            f"the plan needs '{self.name}', which cannot be read from JSON. "
            "Give it: read_plan(text, functions=[...])."
        )


class PlanWriter:
    """Writes the values in the fields of operators as JSON.

    Args:
        reference: The JSON of an operator that another one reads.
        functions: The JSON of a user's function or object; default: its identity.

    """

    def __init__(
        self,
        reference: Callable[[LogicalOperator], Json],
        function: Callable[[Any], Json] | None = None,
    ) -> None:
        self._reference = reference
        self._function = function or function_json

    def fields_json(self, value: Any, without: Collection[str] = ()) -> dict[str, Json]:  # noqa: ANN401
        """Return the class of an operator or of another dataclass, and its fields without some of them."""
        found: dict[str, Json] = {"is": _name_of(type(value))}
        for name, default in _defaults_of(type(value)).items():
            each = getattr(value, name)
            if name not in without and not (each is None and default is None):
                found[name] = self.json(each)
        return found

    def json(self, value: Any) -> Json:  # noqa: ANN401 - one rule for each kind of value
        """Return the JSON of a value."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return float_json(value)
        if kind is tuple:
            return [self.json(each) for each in value]
        if isinstance(value, LogicalOperator):
            return self._reference(value)
        if kind is MissingFunction:
            return self._function(value)
        if isinstance(value, np.generic):
            return {"numpy": value.dtype.str, "bytes": _base64(value.tobytes())}
        if isinstance(value, enum.Enum) and _is_ours(kind):
            return {"enum": _path_of(kind), "member": value.name}
        if _is_ours(kind) and (is_dataclass(value) or hasattr(kind, "_fields")):
            return self.fields_json(value)
        return self._collection(value)

    def _collection(self, value: Any) -> Json:  # noqa: ANN401
        kind = type(value)
        if kind is list:
            return {"list": [self.json(each) for each in value]}
        if kind is dict or kind is types.MappingProxyType:
            return {"mapping": [[self.json(key), self.json(each)] for key, each in value.items()]}
        if kind is set or kind is frozenset:
            return {kind.__name__: sorted((self.json(each) for each in value), key=_sorting_text)}
        if kind is partial:
            given = [self.json(each) for each in value.args]
            named = [[name, self.json(each)] for name, each in value.keywords.items()]
            return {"partial": self.json(value.func), "arguments": given, "named": named}
        if kind is range:
            return {"range": [value.start, value.stop, value.step]}
        found = _python_json(value)
        if found is None:
            found = _arrow_json(value)
        if found is not None:
            return found
        if isinstance(value, types.FunctionType | type) and _is_ours(value) and _can_be_found(value):
            return {"ours": _path_of(value)}
        return self._function(value)


def function_json(value: Any) -> Json:  # noqa: ANN401 - a function, a class or an object
    """Return the identity of a function or an object of the user."""
    if isinstance(value, MissingFunction):
        return {"function": value.name, "digest": value.digest, "python": value.python}
    named = value if hasattr(value, "__qualname__") else type(value)
    name = f"{getattr(named, '__module__', None)}.{getattr(named, '__qualname__', type(value).__name__)}"
    return {"function": name, "digest": identity_digest(value), "python": _PYTHON}


_PYTHON: Final = ".".join(platform.python_version_tuple()[:2])


# Values that Python and Arrow have.


def _python_json(value: Any) -> Json | None:  # noqa: ANN401
    kind = type(value)
    if kind is bytes:
        return {"bytes": _base64(value)}
    if kind is Decimal:
        return {"decimal": str(value)}
    if kind is timedelta:
        return {"microseconds": value // timedelta(microseconds=1)}
    if kind is date:
        return {"date": value.isoformat()}
    if kind is datetime or kind is time:
        fold = {"fold": 1} if value.fold else {}
        zone = {} if value.tzinfo is None else {"zone": _zone_json(value.tzinfo)}
        return {kind.__name__: value.replace(tzinfo=None).isoformat(), **zone, **fold}
    if kind is UUID:
        return {"uuid": str(value)}
    return _zone_json(value) if isinstance(value, ZoneInfo | timezone) else None


def _zone_json(zone: tzinfo) -> Json:
    if isinstance(zone, ZoneInfo) and zone.key is not None:
        return {"zone": zone.key}
    if isinstance(zone, timezone):
        offset = zone.utcoffset(None) // timedelta(microseconds=1)
        return {"offset": offset}
    raise FlowError(f"a plan cannot hold the time zone {zone!r}. Use zoneinfo.ZoneInfo.")


def _zone_of(given: Json) -> tzinfo:
    if "zone" in given:
        return ZoneInfo(given["zone"])
    return timezone(timedelta(microseconds=given["offset"]))


def _arrow_json(value: Any) -> Json | None:  # noqa: ANN401
    if isinstance(value, pa.DataType):
        return {"type": type_json(value)}
    if isinstance(value, pa.Field):
        return {"field": field_json(value)}
    if isinstance(value, pa.Schema):
        return {"schema": schema_json(value)}
    if isinstance(value, pa.Scalar):
        return {"scalar": values_json(pa.repeat(value, 1))[0], "type": type_json(value.type)}
    if isinstance(value, pa.Array):
        return {"array": values_json(value), "type": type_json(value.type)}
    return {"batch": batch_json(value)} if isinstance(value, pa.RecordBatch) else None


def _base64(given: bytes) -> str:
    return base64.b64encode(given).decode("ascii")


def _sorting_text(given: Json) -> str:
    return json.dumps(given, sort_keys=True)


# Classes and functions of this package, by name.


def _is_ours(value: Any) -> bool:  # noqa: ANN401 - a function or a class
    return str(getattr(value, "__module__", "")).partition(".")[0] == _OURS


def _can_be_found(value: Any) -> bool:  # noqa: ANN401 - a function or a class of this package
    found: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _path_of(value: Any) -> str:  # noqa: ANN401 - a function or a class
    return f"{value.__module__}:{value.__qualname__}"


def _found(path: str) -> Any:  # noqa: ANN401 - a function or a class
    module, _, name = path.partition(":")
    if module.partition(".")[0] == _OURS and name:
        try:
            found: Any = importlib.import_module(module)
            for each in name.split("."):
                found = getattr(found, each)
        except (ImportError, AttributeError):
            pass
        else:
            if isinstance(found, types.FunctionType | type) and _is_ours(found):
                return found
    raise FlowError(f"read_plan: there is no '{path}' in this version of pointstamp. Write the plan again.")


def _name_of(kind: type) -> str:
    if issubclass(kind, LogicalOperator) or _SHORT.get(kind.__name__) is kind:
        return kind.__name__
    return _path_of(kind)


def _defaults_of(kind: type) -> dict[str, Any]:
    """Return the fields of a dataclass or a named tuple with their defaults; the class itself is none."""
    if is_dataclass(kind):
        return {each.name: each.default for each in fields(kind) if each.init}
    return {name: kind._field_defaults.get(name, kind) for name in kind._fields}  # type: ignore[attr-defined]


def operator_kinds() -> dict[str, type[LogicalOperator]]:
    """Return the classes of operators, by name."""
    found: dict[str, type[LogicalOperator]] = {}
    waiting: list[type[LogicalOperator]] = [LogicalOperator]
    while waiting:
        for each in waiting.pop().__subclasses__():
            waiting.append(each)
            # A class with slots replaces the one that it was made of.
            found[each.__name__] = each
    return found


# Reading.


class PlanReader:
    """Reads the values of one plan; ``functions`` as of ``read_plan``."""

    def __init__(self, functions: Mapping[str, Any] | Sequence[Any] = ()) -> None:
        self._operators: list[LogicalOperator] = []
        self._by_name: Mapping[str, Any] = functions if isinstance(functions, Mapping) else {}
        values = functions.values() if isinstance(functions, Mapping) else functions
        self._is_incomplete = False
        """Whether a function was missing: then what reads it has no schema, perhaps."""
        self._by_digest = {identity_digest(each): each for each in values}

    def plan(self, given: Json) -> dict[str, LogicalOperator]:
        """Return the operators of the outputs."""
        kinds = operator_kinds()
        for entry in given["operators"]:
            kind = kinds.get(entry["is"])
            if kind is None:
                raise FlowError(f"read_plan: there is no operator '{entry['is']}'. Write the plan again.")
            self._operators.append(self._made(kind, entry))
        return {name: self._operators[place] for name, place in given["outputs"].items()}

    def value(self, given: Json) -> Any:  # noqa: ANN401 - whatever was written
        """Return the value of some JSON."""
        if isinstance(given, list):
            return tuple(self.value(each) for each in given)
        if not isinstance(given, dict):
            return given
        if "is" in given:
            name = given["is"]
            return self._made(_SHORT.get(name) or _found(name), given)
        kind = next((each for each in self._READERS if each in given), None)
        if kind is None:
            raise FlowError(f"read_plan: there is no value {given}. Write the plan again.")
        return self._READERS[kind](self, given)

    def _made(self, kind: Any, given: Json) -> Any:  # noqa: ANN401 - a dataclass
        if not (is_dataclass(kind) or hasattr(kind, "_fields")):
            raise FlowError(f"read_plan: '{given['is']}' is not a dataclass. Write the plan again.")
        parts = {name: self.value(each) for name, each in given.items() if name != "is"}
        if self._is_incomplete and issubclass(kind, LogicalOperator):
            return _unchecked(kind, parts)
        try:
            return kind(**parts)
        except TypeError as error:
            raise FlowError(
                f"read_plan: '{given['is']}' does not fit: {error}. Write the plan again."
            ) from None

    def _function(self, given: Json) -> Any:  # noqa: ANN401
        name, digest = given["function"], given["digest"]
        found = self._by_digest.get(digest)
        if found is not None:
            return found
        if name not in self._by_name:
            self._is_incomplete = True
            return MissingFunction(name, digest, given["python"])
        other = "" if given["python"] == _PYTHON else f", in Python {given['python']}"
        raise FlowError(
            f"read_plan: '{name}' is not the function that the plan was written with{other}: its digest is "
            f"{identity_digest(self._by_name[name])}, expected {digest}. Give that function, or write the "
            "plan again."
        )

    def _partial(self, given: Json) -> Any:  # noqa: ANN401
        named = {name: self.value(each) for name, each in given["named"]}
        return partial(self.value(given["partial"]), *map(self.value, given["arguments"]), **named)

    def _enum(self, given: Json) -> Any:  # noqa: ANN401
        return _found(given["enum"])[given["member"]]

    def _moment(self, kind: type[datetime | time], given: Json) -> datetime | time:
        made = kind.fromisoformat(given[kind.__name__])
        zone = _zone_of(given["zone"]) if "zone" in given else None
        return made.replace(tzinfo=zone, fold=given.get("fold", 0))

    _READERS: Final[Mapping[str, Callable[["PlanReader", Json], Any]]] = {
        # Those that stand beside other names come first.
        "partial": _partial,
        "enum": _enum,
        "function": _function,
        "numpy": lambda _, given: np.frombuffer(base64.b64decode(given["bytes"]), given["numpy"])[0],
        "datetime": lambda self, given: self._moment(datetime, given),
        "time": lambda self, given: self._moment(time, given),
        "scalar": lambda _, given: array_of([given["scalar"]], type_of(given["type"]))[0],
        "array": lambda _, given: array_of(given["array"], type_of(given["type"])),
        "operator": lambda self, given: self._operators[given["operator"]],
        "list": lambda self, given: [self.value(each) for each in given["list"]],
        "mapping": lambda self, given: {self.value(key): self.value(each) for key, each in given["mapping"]},
        "set": lambda self, given: {self.value(each) for each in given["set"]},
        "frozenset": lambda self, given: frozenset(self.value(each) for each in given["frozenset"]),
        "range": lambda _, given: range(*given["range"]),
        "float": lambda _, given: float_of(given),
        "bytes": lambda _, given: base64.b64decode(given["bytes"]),
        "decimal": lambda _, given: Decimal(given["decimal"]),
        "microseconds": lambda _, given: timedelta(microseconds=given["microseconds"]),
        "date": lambda _, given: date.fromisoformat(given["date"]),
        "uuid": lambda _, given: UUID(given["uuid"]),
        "zone": lambda _, given: _zone_of(given),
        "offset": lambda _, given: _zone_of(given),
        "type": lambda _, given: type_of(given["type"]),
        "field": lambda _, given: field_of(given["field"]),
        "schema": lambda _, given: schema_of(given["schema"]),
        "batch": lambda _, given: batch_of(given["batch"]),
        "ours": lambda _, given: _found(given["ours"]),
    }


def _unchecked(kind: type[LogicalOperator], parts: Mapping[str, Any]) -> LogicalOperator:
    """Return an operator whose schema is derived, and checked, when it is asked for."""
    made = object.__new__(kind)
    for name, default in _defaults_of(kind).items():
        object.__setattr__(made, name, parts.get(name, default))
    return made
