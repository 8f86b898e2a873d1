"""Joins of every kind: which rows have a partner, and what comes of the others.

The rows of a side that have a partner are those whose key is among the keys of the other side; with a
condition besides, those that stand in a pair for which it holds. The others are the side without these. So
when the last partner of a row disappears, the row with nulls appears in the same epoch, and the other way
round.

Outside loops and without a condition an operator of its own looks for partners. Otherwise they are found by
inner joins with what is distinct, so that what holds of these in loops holds here.
"""

from collections.abc import Mapping

from pointstamp.expressions.tree import Expression, col
from pointstamp.flow.join_kind import How
from pointstamp.flow.stream import Stream
from pointstamp.tables.deltas import (
    equal_in,
    once,
    pairs,
    rows_schema,
    selected,
    together,
    without,
)
from pointstamp.tables.joining import Joining, joining
from pointstamp.tables.partners import with_partner


def joined(
    left: Stream, right: Stream, asked: Joining, how: How, where: Expression | None, name: str
) -> Stream:
    """The join of two tables."""
    if how in ("semi", "anti") and where is None:
        return _by_partner(left, right, asked.pairs, name, wanted=how == "semi")
    found = pairs(left, right, asked, name, where)
    if how in ("semi", "anti"):
        partners = _standing(left, found, asked.left_of_pairs(), f"{name}: left")
        return partners if how == "semi" else without(left, partners, f"{name}: others")
    made = found
    if how in ("left", "full"):
        others = _others(left, right, asked.pairs, found, asked.left_of_pairs(), where, f"{name}: left")
        made = together(made, _alone(others, asked.left_alone(), f"{name}: left"), f"{name}: with left")
    if how in ("right", "full"):
        on = {theirs: mine for mine, theirs in asked.pairs.items()}
        others = _others(right, left, on, found, asked.right_of_pairs(), where, f"{name}: right")
        made = together(made, _alone(others, asked.right_alone(), f"{name}: right"), f"{name}: with right")
    return made


def _others(
    side: Stream,
    other: Stream,
    on: Mapping[str, str],
    found: Stream,
    row: Mapping[str, Expression],
    where: Expression | None,
    name: str,
) -> Stream:
    """The rows of a side that have no partner."""
    if where is None:
        return _by_partner(side, other, on, name, wanted=False)
    return without(side, _standing(side, found, row, name), f"{name}: others")


def _by_partner(side: Stream, other: Stream, on: Mapping[str, str], name: str, *, wanted: bool) -> Stream:
    """The rows of a side whose key is among the keys of the other, or the others."""
    if not side.loops:
        return with_partner(side, other, on, name if wanted else f"{name}: others", wanted=wanted)
    partners = _having(side, other, on, name)
    return partners if wanted else without(side, partners, f"{name}: others")


def _having(side: Stream, other: Stream, on: Mapping[str, str], name: str) -> Stream:
    """The rows of a side whose key is among the keys of the other."""
    keys: dict[str, Expression] = {mine: col(theirs) for mine, theirs in on.items()}
    known = once(selected(other, f"{name}: keys", keys, name), f"{name}: distinct keys")
    asked = joining(name, rows_schema(side), rows_schema(known), tuple(keys), "")
    return pairs(side, known, asked, f"{name}: partners")


def _standing(side: Stream, found: Stream, row: Mapping[str, Expression], name: str) -> Stream:
    """The rows of a side that stand in a pair."""
    known = once(selected(found, f"{name}: in pairs", row, name), f"{name}: distinct in pairs")
    return equal_in(side, known, f"{name}: partners")


def _alone(others: Stream, row: Mapping[str, Expression], name: str) -> Stream:
    """The rows of a side that have no partner, with nulls for one."""
    return selected(others, f"{name}: alone", row, name)
