"""Errors of SQL, with the line and column in the text.

A node of the parsed tree knows its place if it was a word; others are where the first word in them is. Errors
of the tables and expressions that a query is made of get the place of the part that made them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

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


# Which parts of a statement are looked at: a part that nothing here reads is refused, and not left out.
#
# The parser knows more than Spark, and adds parts to nodes where engines differ. What is listed here is what
# the compiler reads of each kind of node; a kind that is not listed is refused where it is met.

_TWO: Final = {"this", "expression"}

PARTS: Final[dict[type[exp.Expr], set[str]]] = {
    exp.Select: {
        "with_", "expressions", "from_", "joins", "laterals", "where", "group", "having", "windows",
        "qualify", "distinct", "order", "limit", "offset", "hint",
    },
    exp.From: {"this"},
    exp.Table: {"this", "alias", "db", "catalog", "joins", "pivots"},
    exp.Pivot: {"expressions", "fields", "columns", "alias", "unpivot", "pivot_column_naming"},
    exp.PivotAlias: {"this", "alias"},
    exp.Subquery: {"this", "alias", "with_", "order", "limit", "offset", "pivots", "joins"},
    exp.TableAlias: {"this", "columns"},
    exp.Join: {"this", "side", "kind", "on", "using", "method"},
    exp.Lateral: {"this", "alias", "outer", "view"},
    exp.Where: {"this"},
    exp.Having: {"this"},
    exp.Qualify: {"this"},
    exp.Group: {"expressions", "rollup", "cube", "grouping_sets", "all"},
    exp.Rollup: {"expressions"},
    exp.Cube: {"expressions"},
    exp.GroupingSets: {"expressions"},
    exp.Order: {"expressions"},
    exp.Ordered: {"this", "desc", "nulls_first"},
    exp.Limit: {"expression"},
    exp.Offset: {"expression"},
    exp.Distinct: {"expressions"},
    exp.Union: {"this", "expression", "distinct", "with_", "order", "limit", "offset"},
    exp.Except: {"this", "expression", "distinct", "with_", "order", "limit", "offset"},
    exp.Intersect: {"this", "expression", "distinct", "with_", "order", "limit", "offset"},
    exp.With: {"expressions", "recursive"},
    exp.CTE: {"this", "alias"},
    exp.Values: {"expressions", "alias"},
    exp.Window: {"this", "partition_by", "order", "spec", "alias", "over"},
    exp.WindowSpec: {"kind", "start", "start_side", "end", "end_side"},
    exp.Create: {"this", "kind", "expression", "properties", "replace", "with_"},
    exp.Insert: {"this", "expression", "overwrite"},
    exp.Delete: {"this", "where"},
    exp.Update: {"this", "expressions", "where"},
    exp.Drop: {"this", "tables", "kind"},
    exp.WatermarkColumnConstraint: _TWO,
    exp.ColumnDef: {"this", "kind", "constraints"},
    exp.Alias: {"this", "alias"},
    exp.Column: {"this", "table", "db", "catalog"},
    exp.Star: {"except_"},
    exp.Anonymous: {"this", "expressions"},
    exp.Filter: _TWO,
    exp.WithinGroup: _TWO,
    exp.Case: {"this", "ifs", "default"},
    exp.If: {"this", "true", "false"},
    exp.Cast: {"this", "to"},
    exp.TryCast: {"this", "to", "requires_string", "safe"},
    exp.Between: {"this", "low", "high"},
    exp.In: {"this", "expressions", "query"},
    exp.Like: {"this", "expression", "negate"},
    exp.ILike: {"this", "expression", "negate"},
    exp.RegexpLike: _TWO,
    exp.Escape: _TWO,
    exp.All: {"this"},
    exp.Any: {"this"},
    exp.Is: _TWO,
    exp.Interval: {"this", "unit"},
    exp.Extract: _TWO,
    exp.Substring: {"this", "start", "length"},
    exp.Trim: {"this", "expression", "position"},
    exp.Placeholder: {"this"},
    exp.Exists: {"this"},
    exp.Paren: {"this"},
    exp.Not: {"this"},
    exp.Neg: {"this"},
    exp.Div: {"this", "expression", "typed", "safe"},
    **{
        kind: {"this", "expression", "safe"}
        for kind in (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv, exp.And, exp.Or, exp.DPipe, exp.EQ,
                     exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Dot)
    },
}  # fmt: skip

_WORDS: Final = {"sample": "TABLESAMPLE", "on": "DISTINCT ON"}


def check_parts(statement: exp.Expr) -> None:
    """Refuse parts that the compiler would not look at."""
    for node in statement.walk():
        known = PARTS.get(type(node))
        if known is None:
            continue
        for part, found in node.args.items():
            if part not in known and found not in (None, False, "", [], ()):
                words = _WORDS.get(part, part.strip("_").upper().replace("_", " "))
                first = found[0] if isinstance(found, list) else found
                at = first if isinstance(first, exp.Expr) else node
                raise refused(
                    at, f"{words} in {type(node).__name__.upper()} is not supported", "Leave it out."
                )
