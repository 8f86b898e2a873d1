"""What an operator was told to compute, as text: the same text for the same flow, in every process.

Two flows may have the same places, columns and types, and yet mean something else: the least value in place
of the greatest, another order, another condition. So the plans with which operators are made are written
out: words, numbers and expressions as they are, values by their fields. Functions are named and not looked
into: whoever changes their code knows best whether what is kept still means the same.

Invariant: nothing here depends on an address in memory or on the order of a set.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any

import pyarrow as pa

from pointstamp.expressions.compiling import Compiled
from pointstamp.expressions.tree import Expression

_PLAIN = (str, bytes, bool, int, float, type(None), date, datetime, timedelta, Decimal)


def computes(logic: Any) -> str:  # noqa: ANN401 - whatever makes an operator
    """What a built-in operator is told to compute; nothing where that is a user's code."""
    if not isinstance(logic, partial) or logic.func.__module__.partition(".")[0] != "pointstamp":
        return ""
    # What is shared with whom says by its numbers where operators stand, and nothing of what they compute.
    named = [each for name, each in logic.keywords.items() if name != "arranged"]
    told = [_words(each) for each in (*logic.args, *named)]
    return ", ".join(each for each in told if each)


def _words(value: Any) -> str:  # noqa: ANN401 - any part of a plan
    """A part of a plan in words; columns and types are left out, for they are told of the operator itself."""
    if isinstance(value, pa.Schema | pa.DataType | pa.RecordBatch):
        return ""
    if isinstance(value, Compiled):
        return value.text
    if isinstance(value, Expression):
        return str(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, Mapping):
        return _listed([f"{_words(key)}: {_words(each)}" for key, each in value.items()], "{}")
    if isinstance(value, AbstractSet):
        return _listed(sorted(_words(each) for each in value), "{}")
    if isinstance(value, Sequence):
        return _listed([_words(each) for each in value], "()")
    return _made(value)


def _made(value: Any) -> str:  # noqa: ANN401 - any part of a plan
    if isinstance(value, partial):
        told = [_words(each) for each in (*value.args, *value.keywords.values())]
        return _words(value.func) + _listed(told, "()")
    if is_dataclass(value) and not isinstance(value, type):
        found = {each.name: getattr(value, each.name) for each in fields(value)}
        told = [f"{name}={_words(each)}" for name, each in found.items() if _says(each)]
        return type(value).__name__ + _listed(told, "()")
    return str(getattr(value, "__name__", type(value).__name__))


def _says(value: object) -> bool:
    return value is not None and value is not False and _words(value) != ""


def _listed(words: Sequence[str], brackets: str) -> str:
    return brackets[0] + ", ".join(words) + brackets[1]
