"""Calls of functions: the arguments of a function are matched with its signature."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from sqlglot import exp

from pointstamp.expressions.tree import Expression
from pointstamp.sql_views.aggregates import AGGREGATES
from pointstamp.sql_views.event_time import is_now, refused_now
from pointstamp.sql_views.functions import CHANGING, GENERATORS, SCALARS
from pointstamp.sql_views.literals import constant_int, constant_text
from pointstamp.sql_views.refusing import placed, refused


def called(node: exp.Anonymous, translate: Callable[[exp.Expr], Expression]) -> Expression:
    """What a call of a function is; SqlError if there is no such function, or if its arguments do not fit."""
    name = str(node.this).lower()
    _check_known(node, name)
    function = SCALARS[name]
    given = list(node.expressions)
    signatures = function.takes.split("|")
    takes = next((each for each in signatures if len(each) == len(given)), signatures[0])
    required, _, optional = takes.partition("?")
    letters = required + optional
    if letters.endswith("*"):
        letters = letters[:-1] + letters[-2] * (len(given) - len(letters) + 1)
        required = required.removesuffix("*")
    if not len(required) <= len(given) <= len(letters):
        wanted = f"{len(required)}" if len(required) == len(letters) else f"{len(required)} to {len(letters)}"
        raise refused(node, f"{name} takes {wanted} arguments, and has {len(given)}")
    made: list[Any] = []
    for position, (letter, argument) in enumerate(zip(letters, given, strict=False), 1):
        words = f"argument {position} of {name}"
        if letter == "e":
            made.append(translate(argument))
        else:
            made.append((constant_text if letter == "s" else constant_int)(argument, words))
    with placed(node):
        return function.make(*made)


def constant_number(node: exp.Expr, words: str) -> float:
    """A number that stands in the text."""
    if isinstance(node, exp.Literal) and not node.is_string:
        return float(Decimal(str(node.this)))
    raise refused(node, f"{words} must be a number that stands in the text")


def _check_known(node: exp.Anonymous, name: str) -> None:
    if is_now(node):
        raise refused_now(node)
    if name in CHANGING:
        raise refused(
            node,
            f"{name}() changes while nothing happens, so a view of it cannot be kept up to date",
            "Use a column of the input that says it.",
        )
    if name in GENERATORS:
        raise refused(
            node,
            f"{name} makes several rows of one, so it cannot stand inside of something",
            "Write lateral view explode(...) t as x, or select explode(...) as x.",
        )
    if name in AGGREGATES:
        raise refused(node, f"the aggregate {name} cannot stand here", "Filter groups with HAVING.")
    if name not in SCALARS:
        raise refused(node, f"there is no function '{name}' here", "The SQL reference lists them.")
