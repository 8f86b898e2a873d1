"""Canonical text of plan values: equal text for equal meaning, in every process.

The shape of a flow is made of these texts, so a parameter that is missing here could change without notice.
Therefore nothing is listed by hand: partials, dataclasses, mappings, functions and objects are walked
generically, and a value of this package that cannot be walked is an error.

- Classes and functions of this package and of libraries count by their qualified names, closures of this
  package also by the values that they capture.
- Functions, classes and objects of the user count by what they compute: bytecode, constants, defaults,
  captured values, and the functions, classes and constants of their modules that they use, if these are the
  user's, too; of installed packages only their own. Names of variables, docstrings, line numbers and files do
  not count. They are collected apart from the other text, because a user may accept that they have changed.
- Objects of libraries count by what pickle would store of them, and by their class if that is nothing.

Invariant: no text depends on an address in memory, on the order of a set, or on where a file lies.
"""

import dis
import enum
import pickle
import re
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from hashlib import blake2b
from inspect import signature
from pathlib import PurePath
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.errors import FlowError
from pointstamp.expressions.compiler import Compiled
from pointstamp.expressions.tree import Expression
from pointstamp.operators.interface import DeclaresState
from pointstamp.operators.spec import Label
from pointstamp.optional import conforms
from pointstamp.state.saved import Saving
from pointstamp.topology.ports import SourcePort

Function: TypeAlias = types.FunctionType

_PLAIN: Final = (str, bytes, bool, int, float, complex, type(None), type(...), range, slice)
_VALUES: Final = (date, datetime, time, timedelta, Decimal, PurePath, re.Pattern)
_BUILT_IN: Final = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    np.ufunc,
)
_OURS: Final = "pointstamp"
_LIBRARIES: Final = sys.stdlib_module_names | {
    *("pyarrow", "numpy", "pandas", "pyspark", "py4j", "msgspec", "fsspec")
}
_INSTALLED: Final = ("site-packages", "dist-packages")
_TEXT_MAX: Final = 160
_ROWS_LISTED_MAX: Final = 10_000
_DIGEST: Final = re.compile(r" ?#[0-9a-f]{16}")
_FLAGS: Final = 0x2AC
"""The flags of a code object that change what a call does: varargs, generators, coroutines."""

USER_CODE: Final = "user code"
"""The text of a user's function or object; what it computes is collected apart."""


def digest_of(text: str) -> str:
    """Return 16 hexadecimal digits that stand for a text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def identity_digest(value: Any) -> str:  # noqa: ANN401 - a function, a class or an object
    """Return 32 hexadecimal digits that stand for what a function or an object of the user computes."""
    words = Canonical()
    text = repr((words.text(value), words.functions))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def short(text: str) -> str:
    """Return a text itself, or its beginning and its digest if it is long."""
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}... #{digest_of(text)}"


def readable(text: str) -> str:
    """Return a text without the digests in it."""
    return _DIGEST.sub("", text)


def arguments_of(made: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - whatever makes an operator
    """Yield the arguments of a partial by name, as far as the function names them."""
    try:
        names = [each.name for each in signature(made.func).parameters.values()]
    except (TypeError, ValueError):
        names = []
    for number, value in enumerate(made.args):
        yield names[number] if number < len(names) else str(number), value
    yield from made.keywords.items()


class Canonical:
    """Writes values of one plan as text, and collects the user's code that it meets.

    Args:
        edge: The text of an output of the plan; default: values have none.

    """

    def __init__(self, edge: Callable[[SourcePort], str] = str) -> None:
        self._edge = edge
        self._inside: list[int] = []
        self.functions: list[str] = []
        """A digest for each function or object of the user, in the order in which they were met."""

    def text(self, value: Any) -> str:  # noqa: ANN401 - any part of a plan
        """Return the text of a value; FlowError for one that has none."""
        plain = self._plain(value)
        if plain is not None:
            return plain
        if id(value) in self._inside:
            return f"<{len(self._inside) - self._inside.index(id(value))} levels up>"
        self._inside.append(id(value))
        try:
            return short(self._composed(value))
        finally:
            self._inside.pop()

    def fields_of(self, value: Any) -> Iterator[tuple[str, Any]] | None:  # noqa: ANN401 - any part of a plan
        """Return the named parts of a value, for those who tell what differs; None if it has none."""
        if isinstance(value, Compiled | Expression) or self._plain(value) is not None:
            return None
        if _is_code(value) or self._is_users(value):
            return None
        if isinstance(value, partial):
            return arguments_of(value)
        if is_dataclass(value) and not isinstance(value, type):
            return ((each.name, getattr(value, each.name)) for each in fields(value))
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return iter(value.items())
        if _package(type(value)) == _OURS and not isinstance(value, Collection | msgspec.Struct):
            return iter(self._attributes(value))
        return None

    def head(self, value: Any) -> str:  # noqa: ANN401 - a value that has fields
        """Return what a value is, without its named parts."""
        return self.text(value.func) if isinstance(value, partial) else type(value).__name__

    def users(self, value: Any) -> str:  # noqa: ANN401 - a function, a class or an object
        """Collect a user's function, class or object."""
        self.functions.append(digest_of(_UserCode(self._edge).whole(value)))
        return USER_CODE

    # Inside.

    def _is_users(self, value: Any) -> bool:  # noqa: ANN401
        return _is_users(value)

    def _plain(self, value: Any) -> str | None:  # noqa: ANN401
        if isinstance(value, enum.Enum):
            return f"{type(value).__name__}.{value.name}"
        if isinstance(value, SourcePort):
            return self._edge(value)
        if isinstance(value, Label):
            return "a name"
        if type(value) in _PLAIN:
            return short(repr(value))
        if isinstance(value, _VALUES):
            return short(f"{type(value).__name__}:{value!r}")
        if isinstance(value, np.generic):
            return f"{value.dtype}:{value.item()!r}"
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        return _arrow(value)

    def _composed(self, value: Any) -> str:  # noqa: ANN401 - one rule for each kind
        if isinstance(value, Expression):
            return f"{value} #{digest_of(self._object(value))}"
        if isinstance(value, Compiled):
            kept = [each.name for each in fields(value) if each.name != "_step"]  # the tree says the same
            return f"{value.text} #{digest_of(self._listed((n, getattr(value, n)) for n in kept))}"
        if isinstance(value, partial):
            return f"{self.text(value.func)}({self._listed(arguments_of(value))})"
        if isinstance(value, np.ndarray):
            is_plain = value.dtype.kind in "biufcmMSU"
            content = value.tobytes() if is_plain else repr(value.tolist()).encode()
            return f"{value.dtype}{value.shape} #{blake2b(content, digest_size=8).hexdigest()}"
        if isinstance(value, Mapping):
            entries = (f"{self.text(key)}: {self.text(each)}" for key, each in value.items())
            return f"{{{', '.join(entries)}}}"
        if isinstance(value, AbstractSet):
            return f"{{{', '.join(sorted(self.text(each) for each in value))}}}"
        if isinstance(value, list | tuple):
            name = "" if type(value) in (list, tuple) else type(value).__name__
            return f"{name}({', '.join(self.text(each) for each in value)})"
        if _is_code(value) or isinstance(value, types.GenericAlias):
            return self._code(value)
        return self.users(value) if self._is_users(value) else self._object(value)

    def _code(self, value: Any) -> str:  # noqa: ANN401 - a function, a method or a class
        if isinstance(value, types.GenericAlias):
            return f"{self.text(value.__origin__)}[{', '.join(self.text(each) for each in value.__args__)}]"
        if isinstance(value, types.MethodType):
            return f"{self.text(value.__func__)} of {self.text(value.__self__)}"
        if isinstance(value, types.BuiltinFunctionType) and not _is_free(value):
            return f"{value.__name__} of {self.text(value.__self__)}"
        if isinstance(value, (staticmethod, classmethod)):
            return f"{type(value).__name__} {self.text(value.__func__)}"
        if isinstance(value, property):
            return f"property({self.text((value.fget, value.fset, value.fdel))})"
        if self._is_users(value):
            return self.users(value)
        name = f"{_module(value)}.{getattr(value, '__qualname__', None) or value.__name__}"
        is_closure = isinstance(value, Function) and "<" in value.__qualname__
        return name + self._captured(value) if is_closure or _package(value) == _OURS else name

    def _captured(self, function: Any) -> str:  # noqa: ANN401 - a function or a class
        """What a function of this package or of a library captures, and what tells it from its siblings."""
        if not isinstance(function, Function):
            return ""
        captured = [cell.cell_contents for cell in function.__closure__ or ()]
        # Two lambdas of one function have one name; bytecode differs between versions of Python.
        code = function.__code__
        is_plain = "<" not in function.__qualname__
        told = "" if is_plain else digest_of(repr((function.__name__, _outline(code))))
        parts = (captured, function.__defaults__, function.__kwdefaults__)
        return f"{f' #{told}' if told else ''}{self.text(parts) if any(parts) else ''}"

    def _object(self, value: Any) -> str:  # noqa: ANN401 - an object that is not the user's
        kind = type(value)
        if is_dataclass(value):
            return f"{kind.__name__}({self._listed((f.name, getattr(value, f.name)) for f in fields(value))})"
        if isinstance(value, msgspec.Struct):
            names = value.__struct_fields__
            return f"{kind.__name__}({self._listed((name, getattr(value, name)) for name in names)})"
        if _package(kind) == _OURS:
            return f"{kind.__name__}({self._listed(self._attributes(value))})"
        return self._pickled(value)

    def _attributes(self, value: Any) -> Iterable[tuple[str, Any]]:  # noqa: ANN401
        found = list(attributes(value))
        if not found and not _has_no_state(type(value)):
            raise FlowError(
                f"{type(value).__module__}.{type(value).__qualname__}: the attributes of this object "
                "cannot be read, so a change of the flow could not be detected. Make it a dataclass."
            )
        # Arrays in an object of this package are its working memory, which may not even be filled.
        return [(n, f"array of {v.dtype}" if isinstance(v, np.ndarray) else v) for n, v in found]

    def _pickled(self, value: Any) -> str:  # noqa: ANN401 - an object of a library
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        try:
            pickle.dumps(value)  # a connection or a lock may be far inside, and differs from start to start
            stored = value.__reduce_ex__(4)
        except Exception:  # whatever a library raises for what cannot be pickled
            return name
        if isinstance(stored, str):
            return f"{name} {stored}"
        make, arguments, *rest = stored
        state = [list(each) if isinstance(each, Iterator) else each for each in rest[:3]]
        return f"{name}({self.text(make)}, {self.text(arguments)}, {self.text(state)})"

    def _listed(self, named: Iterable[tuple[str, Any]]) -> str:
        return ", ".join(f"{name}={self.text(value)}" for name, value in named)


class _UserCode(Canonical):
    """Writes one function, class or object of the user, with all code of the user that it uses.

    Functions and classes may refer to each other in circles. So each is written once, and is a number in the
    text of the others.
    """

    def __init__(self, edge: Callable[[SourcePort], str]) -> None:
        super().__init__(edge)
        self._numbers: dict[int, int] = {}
        self._waiting: list[Any] = []
        self._package = ""

    def whole(self, value: Any) -> str:  # noqa: ANN401
        """Return the text of a value and of all code that it refers to."""
        self._package = _family(value if isinstance(value, Function | type) else type(value))
        texts = [self.users(value)]
        for each in self._waiting:  # which grows meanwhile
            self._inside = []
            texts.append(self._function(each) if isinstance(each, Function) else self._class(each))
        return "\n".join(texts)

    def _is_users(self, value: Any) -> bool:  # noqa: ANN401
        """Code of other installed packages counts by its name."""
        whose = value if isinstance(value, Function | type) else type(value)
        return _is_users(value) and _family(whose) in ("", self._package)

    def users(self, value: Any) -> str:  # noqa: ANN401
        """Return the number of a function or a class, and an object with its attributes."""
        if isinstance(value, Function | type):
            number = self._numbers.setdefault(id(value), len(self._numbers))
            if number == len(self._waiting):
                self._waiting.append(value)
            return f"<{number}>"
        if (wrapped := _wrapped(value)) is not None:
            return f"{type(value).__name__}({self.text(wrapped)})"
        state = declared_state(value)  # what is restored counts by its kind
        found = [(name, type(each) if name in state else each) for name, each in attributes(value)]
        return f"object {self.text(type(value))}({self._listed(found)})" if found else self.text(type(value))

    def _function(self, function: Function) -> str:
        captured = [_content(cell) for cell in function.__closure__ or ()]
        used = {
            name: function.__globals__[name]
            for name in sorted(set(_globals_used(function.__code__)))
            if name in function.__globals__ and not _is_dunder(name)
        }
        more = {name: each for name, each in vars(function).items() if name != "__wrapped__"}
        parts = (captured, function.__defaults__, function.__kwdefaults__, used, more)
        return f"{self._bytecode(function.__code__)} {self.text(parts)}"

    def _class(self, kind: type) -> str:
        bases = [self.text(each) for each in kind.__bases__]
        own = {name: each for name, each in sorted(vars(kind).items()) if _is_written(name, each)}
        told = [f"{name}={self.text(each)}" for name, each in own.items()]
        names = [each.name for each in fields(kind)] if is_dataclass(kind) else []
        return f"class {kind.__qualname__}({', '.join(bases)}) {names} {', '.join(told)}"

    def _bytecode(self, code: types.CodeType) -> str:
        has_docstring = code.co_name == "<lambda>" or not code.co_name.startswith("<")
        constants = [
            self._bytecode(each) if isinstance(each, types.CodeType) else self.text(each)
            for number, each in enumerate(code.co_consts)
            if number or not (has_docstring and isinstance(each, str | None))
        ]
        counts = (code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags & _FLAGS)
        return f"{code.co_code.hex()} {counts} {code.co_names} ({', '.join(constants)})"


def schema_text(schema: pa.Schema) -> str:
    """Return the columns of a schema with their types, which of them may be null, and their metadata."""
    return ", ".join(map(_field_text, schema))


def declared_state(logic: Any) -> dict[str, str]:  # noqa: ANN401 - a user's object, or its class
    """Return the attributes that a user's operator declares as state, and how each is saved."""
    state = logic.state if conforms(logic, DeclaresState) else None
    ways = state.items() if isinstance(state, Mapping) else ()
    return {name: type(way).__name__.strip("_").lower() for name, way in ways if isinstance(way, Saving)}


def attributes(value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - any object
    """Yield the attributes of an object, those in slots too, by name."""
    names = {
        name
        for kind in type(value).__mro__
        for slots in [vars(kind).get("__slots__", ())]
        for name in ([slots] if isinstance(slots, str) else slots)
    }
    found = {name: getattr(value, name) for name in names if hasattr(value, name)}
    yield from sorted({**found, **getattr(value, "__dict__", {})}.items())


def _arrow(value: Any) -> str | None:  # noqa: ANN401 - any part of a plan
    if isinstance(value, pa.DataType):
        return str(value)
    if isinstance(value, pa.Field):
        return _field_text(value)
    if isinstance(value, pa.Schema):
        return short(f"schema({schema_text(value)})")
    if isinstance(value, pa.Scalar):
        return short(f"{value.type}({_rows_text([value])})")
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return short(f"{value.type}{_rows_text(value)}")
    if isinstance(value, pa.RecordBatch | pa.Table):
        columns = [f"{name} {_rows_text(value.column(name))}" for name in value.schema.names]
        return short(f"rows of ({schema_text(value.schema)}): {'; '.join(columns)}")
    if isinstance(value, pc.Function):
        return f"pyarrow.compute.{value.name}"
    return f"pyarrow {value}" if isinstance(value, pc.Expression) else None


def _rows_text(values: Any) -> str:  # noqa: ANN401 - an array, or a list of scalars
    if len(values) <= _ROWS_LISTED_MAX:
        return repr([each.value if _is_fine(each.type) else each.as_py() for each in values])
    # Take makes values that were sliced, or that lie in chunks, one after the other.
    whole = pa.table({"": values}).take(pa.array(np.arange(len(values)))).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, whole.schema) as writer:
        writer.write_table(whole)
    return f"{len(values)} values #{blake2b(sink.getvalue(), digest_size=8).hexdigest()}"


def _is_fine(kind: pa.DataType) -> bool:
    """Whether values have nanoseconds, for which Python has no type."""
    is_time = pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind)
    return bool(is_time and kind.unit == "ns")


def _field_text(field: pa.Field) -> str:
    marks = "" if not field.metadata else f" {sorted(field.metadata.items())}"
    return f"{field.name} {field.type}{'' if field.nullable else ' not null'}{marks}"


def _is_code(value: Any) -> bool:  # noqa: ANN401
    return isinstance(
        value, (Function, type, types.MethodType, staticmethod, classmethod, property, *_BUILT_IN)
    )


def _is_free(function: Any) -> bool:  # noqa: ANN401 - a built-in function
    return function.__self__ is None or isinstance(function.__self__, types.ModuleType)


def _is_users(value: Any) -> bool:  # noqa: ANN401
    """Whether a function or class, or the class of an object, is neither of this package nor of a library."""
    if isinstance(value, (types.MethodType, staticmethod, classmethod, property, *_BUILT_IN)):
        return False
    if (wrapped := _wrapped(value)) is not None:
        return _is_users(wrapped)
    whose = value if isinstance(value, Function | type) else type(value)
    return _package(whose) not in (_LIBRARIES | {_OURS}) and _is_source(whose)


def _family(value: Any) -> str:  # noqa: ANN401 - a function or a class
    """The package of installed code; all other code of the user is one family."""
    package = _package(value)
    module = sys.modules.get(package)
    places = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", ())]
    return package if any(each in place for place in places for each in _INSTALLED) else ""


def _is_source(value: Any) -> bool:  # noqa: ANN401 - a function or a class
    """Whether code was written in Python, and not in an extension module."""
    if isinstance(value, Function):
        return True
    file = getattr(sys.modules.get(_module(value)), "__file__", None)
    return _module(value) == "__main__" or str(file or "").endswith((".py", ".pyc", ".ipynb"))


def _wrapped(value: Any) -> Any:  # noqa: ANN401
    """The function in a wrapper that is not a function itself, such as a cache; None for anything else.

    Asked in this way, because proxies and mocks have every attribute.
    """
    if isinstance(value, Function | type):
        return None
    try:
        return object.__getattribute__(value, "__dict__").get("__wrapped__")
    except AttributeError:
        return None


def _module(value: Any) -> str:  # noqa: ANN401
    return str(getattr(value, "__module__", None) or type(value).__module__)


def _package(value: Any) -> str:  # noqa: ANN401
    return _module(value).partition(".")[0]


def _has_no_state(kind: type) -> bool:
    return all("__slots__" in vars(each) or hasattr(kind, "__dict__") for each in kind.__mro__[:-1])


def _is_written(name: str, value: Any) -> bool:  # noqa: ANN401 - an attribute of a class
    """Whether the user wrote an attribute: Python adds others, and so does the dataclass decorator."""
    if isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType) or name == "_abc_impl":
        return False
    if isinstance(value, Function):
        return not value.__code__.co_qualname.startswith("__create_fn__")
    return not _is_dunder(name)


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _content(cell: Any) -> Any:  # noqa: ANN401 - a cell of a closure
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return ...


def _outline(code: types.CodeType) -> list[Any]:
    """What tells two functions of one name apart, in every version of Python."""
    return [
        (code.co_varnames, code.co_names, code.co_freevars),
        [_outline(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts],
    ]


def _globals_used(code: types.CodeType) -> Iterator[str]:
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield each.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_used(constant)
