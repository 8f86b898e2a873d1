"""Joins of every kind, made of inner joins: which rows have a partner, and what comes of the others.

The rows of a side that have a partner are those whose key is among the distinct keys of the other side; with
a condition besides, those that stand in a pair for which it holds. The others are the side without these. So
when the last partner of a row disappears, the row with nulls appears in the same epoch, and the other way
round: both are one change of one sum.
"""

from collections.abc import Mapping

from pointstamp.expressions.tree import Expression, col
from pointstamp.flow.join_kind import How
from pointstamp.flow.stream import Stream
from pointstamp.tables.deltas import equal_in, once, pairs, rows_schema, selected, together, without
from pointstamp.tables.joining import Joining, joining


def joined(
    left: Stream, right: Stream, asked: Joining, how: How, where: Expression | None, name: str
) -> Stream:
    """The join of two tables."""
    if how in ("semi", "anti") and where is None:
        partners = _having(left, right, asked.pairs, name)
        return partners if how == "semi" else without(left, partners, f"{name}: others")
    found = pairs(left, right, asked, name, where)
    if how in ("semi", "anti"):
        partners = _standing(left, found, asked.left_of_pairs(), f"{name}: left")
        return partners if how == "semi" else without(left, partners, f"{name}: others")
    made = found
    if how in ("left", "full"):
        partners = (
            _having(left, right, asked.pairs, f"{name}: left")
            if where is None
            else _standing(left, found, asked.left_of_pairs(), f"{name}: left")
        )
        made = together(
            made, _alone(left, partners, asked.left_alone(), f"{name}: left"), f"{name}: with left"
        )
    if how in ("right", "full"):
        mirrored = {theirs: mine for mine, theirs in asked.pairs.items()}
        partners = (
            _having(right, left, mirrored, f"{name}: right")
            if where is None
            else _standing(right, found, asked.right_of_pairs(), f"{name}: right")
        )
        alone = _alone(right, partners, asked.right_alone(), f"{name}: right")
        made = together(made, alone, f"{name}: with right")
    return made


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


def _alone(side: Stream, partners: Stream, row: Mapping[str, Expression], name: str) -> Stream:
    """The rows of a side that have no partner, with nulls for one."""
    return selected(without(side, partners, f"{name}: others"), f"{name}: alone", row, name)
