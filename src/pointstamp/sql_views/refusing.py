"""What is refused, and where it stands: every message begins with the line and the column in the text.

A node of the parsed tree knows its place if it was a word; others are where the first word in them is. Errors
of the tables and expressions that a query is made of get the place of the part that made them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from pointstamp.errors import FlowError, SqlError


def refused(node: exp.Expr, what: str, instead: str = "") -> SqlError:
    """The error that says where, what, and what to write instead."""
    return SqlError(f"{place(node)}: {what}.{' ' if instead else ''}{instead}")


@contextmanager
def placed(node: exp.Expr) -> Iterator[None]:
    """Give errors of what is built in this block the place of a node."""
    try:
        yield
    except SqlError:
        raise
    except FlowError as error:
        raise SqlError(f"{place(node)}: {error}") from error


def place(node: exp.Expr) -> str:
    """The line and the column at which a part of the text begins."""
    at: exp.Expr | None = node
    while at is not None:
        words = [each for each in at.walk() if "line" in each.meta]
        if words:
            first = min(words, key=lambda each: int(each.meta["start"]))
            column = first.meta["col"] - (first.meta["end"] - first.meta["start"])
            return f"line {first.meta['line']}, column {max(column, 1)}"
        at = at.parent
    return "line 1, column 1"
