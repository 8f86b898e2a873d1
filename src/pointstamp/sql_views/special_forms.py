"""Functions whose arguments are separated by words: LIKE with ESCAPE, EXTRACT, SUBSTRING and TRIM."""

from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp

from pointstamp.expressions import functions as F  # noqa: N812 - as PySpark's users call it
from pointstamp.expressions.tree import Expression
from pointstamp.sql_views import literals
from pointstamp.sql_views.refusing import refused

Translate: TypeAlias = Callable[[exp.Expr], Expression]
"""What makes an expression of a node."""


def like(translate: Translate, node: exp.Like | exp.ILike | exp.RegexpLike) -> Expression:
    """LIKE, ILIKE and RLIKE with a pattern that stands in the text."""
    pattern, value = literals.constant_text(node.expression, "a pattern"), translate(node.this)
    if isinstance(node, exp.RegexpLike):
        return value.rlike(pattern)
    found = F.lower(value).like(pattern.lower()) if isinstance(node, exp.ILike) else value.like(pattern)
    return ~found if node.args.get("negate") else found


def escape(translate: Translate, node: exp.Escape) -> Expression:
    """LIKE with a character of its own that takes the meaning from the next one."""
    mark = literals.constant_text(node.expression, "the character of ESCAPE")
    inner = node.this
    if len(mark) != 1 or not isinstance(inner, exp.Like | exp.ILike):
        raise refused(node, "ESCAPE takes one character, behind LIKE or ILIKE")
    pattern = literals.constant_text(inner.expression, "a pattern")
    made = inner.copy()
    made.set("expression", exp.Literal.string(literals.unescaped(node, pattern, mark)))
    return like(translate, made)


def extract(translate: Translate, node: exp.Extract) -> Expression:
    """EXTRACT(unit FROM time)."""
    unit = node.this.name.lower()
    made = {
        "year": F.year,
        "quarter": F.quarter,
        "month": F.month,
        "day": F.day,
        "hour": F.hour,
        "minute": F.minute,
        "second": F.second_with_fraction,
        "week": F.week_of_year,
        "doy": F.day_of_year,
        "dayofweek": F.day_of_week,
    }.get(unit)
    if made is None:
        raise refused(node, f"EXTRACT({unit.upper()} ...) is not supported")
    return made(translate(node.expression))


def substring(translate: Translate, node: exp.Substring) -> Expression:
    """SUBSTRING(text FROM start FOR length)."""
    start = literals.constant_int(node.args["start"], "the position of SUBSTRING")
    length = node.args.get("length")
    return F.substring(
        translate(node.this),
        start,
        None if length is None else literals.constant_int(length, "the length of SUBSTRING"),
    )


def trim(translate: Translate, node: exp.Trim) -> Expression:
    """TRIM(BOTH characters FROM text)."""
    made = {"LEADING": F.ltrim, "TRAILING": F.rtrim}.get(node.text("position").upper(), F.trim)
    said = node.args.get("expression")
    return made(
        translate(node.this), " " if said is None else literals.constant_text(said, "what is trimmed")
    )


def position(translate: Translate, node: exp.StrPosition) -> Expression:
    """POSITION(part IN text)."""
    part = literals.constant_text(node.args["substr"], "the text that POSITION looks for")
    start = node.args.get("position")
    return F.instr(
        translate(node.this),
        part,
        1 if start is None else literals.constant_int(start, "where POSITION begins"),
    )


def at_time_zone(translate: Translate, node: exp.AtTimeZone) -> Expression:
    """A timestamp AT TIME ZONE zone."""
    return F.at_time_zone(translate(node.this), literals.constant_text(node.args["zone"], "a time zone"))
