"""Joins of Catalyst: conditions taken apart into keys and the rest, and columns kept apart.

The key of a logical join comes out once, under the name that it has on the left. Catalyst keeps both sides,
and where a side has no partner its columns are null. So a side whose key must stay gets a copy of it to join
by; only the key of an inner join on plain columns needs none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyarrow import types

from pointstamp.expressions.functions import coalesce
from pointstamp.expressions.tree import Expression, Literal, col, lit
from pointstamp.flow.plan import How
from pointstamp.plan import logical
from pointstamp.reduce.aggregate import Aggregate
from pointstamp.spark.catalyst.relation import BoundRelation, fresh_name, id_of
from pointstamp.spark.catalyst.translation import Translation, all_of, conjuncts, references, rejected
from pointstamp.spark.catalyst.trees import ExpressionNode, PlanNode

_KINDS: Final[dict[str, How]] = {
    "Inner": "inner",
    "Cross": "inner",
    "LeftOuter": "left",
    "RightOuter": "right",
    "FullOuter": "full",
    "LeftSemi": "semi",
    "LeftAnti": "anti",
}


@dataclass(frozen=True, slots=True)
class EqualPair:
    """Two expressions, one over each side, that are equal in a pair."""

    left: ExpressionNode
    right: ExpressionNode
    nulls_match: bool


def join(translation: Translation, node: PlanNode) -> BoundRelation:
    """Return the join of two relations."""
    left, right = (translation.operators.exact(translation.relation(each)) for each in node.children)
    said = node.fields["joinType"]
    is_existence = "exists" in said
    name = str(said.get("object") or said.get("product-class")).removesuffix("$").rsplit(".", 1)[-1]
    if not is_existence and name not in _KINDS:
        raise rejected(node, f"of kind {name} is not supported", "Aggregate the subquery, or write a join.")
    condition = node.fields.get("condition")
    left, found = translation.without_subqueries(left, [] if condition is None else [condition])
    conditions = [part for each in found for part in conjuncts(each)]
    right = translation.renamed(right, left.operator.schema.names)
    if is_existence:
        return _existence(translation, left, right, conditions, id_of(said["exists"]))
    return _joined(translation, left, right, conditions, _KINDS[name])


def _existence(
    translation: Translation,
    left: BoundRelation,
    right: BoundRelation,
    conditions: list[ExpressionNode],
    exists: int,
) -> BoundRelation:
    """Return the rows of the left side, each with whether it has a partner."""
    name = fresh_name("exists", left.operator.schema.names)
    parts = []
    for kind, value in (("semi", True), ("anti", False)):
        part = translation.operators.exact(_joined(translation, left, right, conditions, kind))  # type: ignore[arg-type]
        parts.append(translation.operators.with_columns(part, {name: lit(value)}).operator)
    union = translation.operators.make(logical.Union, tuple(parts))
    return BoundRelation(union, {**left.columns, exists: name}, (*left.output, exists))


def _joined(
    translation: Translation,
    left: BoundRelation,
    right: BoundRelation,
    conditions: Sequence[ExpressionNode],
    kind: How,
) -> BoundRelation:
    keys: list[EqualPair] = []
    rest: list[ExpressionNode] = []
    mine, theirs = set(left.columns), set(right.columns)
    for each in conditions:
        used = references(each)
        if (pair := _key_pair(each, mine, theirs)) is not None:
            keys.append(pair)
        elif used and used <= theirs and kind in ("inner", "left", "semi", "anti"):
            right = _filtered(translation, right, each)
        elif used and used <= mine and kind in ("inner", "right", "semi"):
            left = _filtered(translation, left, each)
        else:
            rest.append(each)
    if not keys and kind == "anti" and len(rest) == 1 and (pair := _null_aware(rest[0], mine, theirs)):
        return _not_in(translation, left, right, pair)
    if not keys and kind == "inner":
        return _crossed(translation, left, right, rest)
    return _by_keys(translation, left, right, keys, rest, kind)


def _filtered(translation: Translation, relation: BoundRelation, condition: ExpressionNode) -> BoundRelation:
    expression = translation.expression(condition, relation.columns)
    return replace(
        relation, operator=translation.operators.make(logical.Filter, relation.operator, expression)
    )


def _key_pair(node: ExpressionNode, mine: set[int], theirs: set[int]) -> EqualPair | None:
    if node.kind not in ("EqualTo", "EqualNullSafe"):
        return None
    one, other = node.children
    nulls_match = node.kind == "EqualNullSafe"
    first, second = references(one), references(other)
    if first and second and first <= mine and second <= theirs:
        return EqualPair(one, other, nulls_match)
    if first and second and first <= theirs and second <= mine:
        return EqualPair(other, one, nulls_match)
    return None


def _null_aware(node: ExpressionNode, mine: set[int], theirs: set[int]) -> EqualPair | None:
    """Return the pair of ``a = b or isnull(a = b)``, which NOT IN becomes."""
    if node.kind != "Or":
        return None
    equal, null = sorted(node.children, key=lambda each: each.kind == "IsNull")
    if null.kind != "IsNull" or equal.kind != "EqualTo":
        return None
    pair, other = (_key_pair(each, mine, theirs) for each in (equal, null.children[0]))
    return pair if pair is not None and other is not None else None


def _not_in(
    translation: Translation, left: BoundRelation, right: BoundRelation, pair: EqualPair
) -> BoundRelation:
    """Return the rows whose value is not in a list: none if the list has a null, all if it is empty."""
    operators = translation.operators
    right, column = translation.column(right, pair.right, "value")
    total, known = (fresh_name(name, left.operator.schema.names) for name in ("rows", "values"))
    aggregates = ((total, Aggregate("count")), (known, Aggregate("count", column)))
    counts = operators.make(logical.Aggregate, right.operator, (), aggregates)
    crossed = operators.make(logical.Join, left.operator, counts, "cross")
    value = translation.expression(pair.left, left.columns)
    is_sure = (col(total) == col(known)) & value.is_not_null()
    filtered = operators.make(logical.Filter, crossed, (col(total) == 0) | is_sure)
    kept = operators.project(filtered, {name: col(name) for name in left.operator.schema.names})
    return _by_keys(translation, replace(left, operator=kept), right, [pair], [], "anti")


def _crossed(
    translation: Translation, left: BoundRelation, right: BoundRelation, rest: Sequence[ExpressionNode]
) -> BoundRelation:
    columns = {**left.columns, **right.columns}
    where = all_of([translation.expression(each, columns) for each in rest])
    # The right side is the one that is copied: that with one row, if there is one.
    sides = (
        (right.operator, left.operator)
        if left.is_single and not right.is_single
        else (
            left.operator,
            right.operator,
        )
    )
    made = translation.operators.make(logical.Join, *sides, "cross", (), where)
    is_single = left.is_single and right.is_single and not rest
    return BoundRelation(made, columns, (*left.output, *right.output), is_single)


def _by_keys(
    translation: Translation,
    left: BoundRelation,
    right: BoundRelation,
    keys: Sequence[EqualPair],
    rest: Sequence[ExpressionNode],
    kind: How,
) -> BoundRelation:
    on: dict[str, str] = {}
    merged: dict[int, str] = {}
    pairs = [each for pair in keys for each in _columns_of(translation, left, right, pair)]
    if not pairs:
        pairs = [(None, None, lit(0).cast("long"), lit(0).cast("long"))]
    added: tuple[dict[str, Expression], dict[str, Expression]] = {}, {}
    names = [*left.operator.schema.names, *right.operator.schema.names]
    for one, other, mine, theirs in pairs:
        own = None if one is None else left.columns[one]
        copy = None if other is None else right.columns[other]
        is_free = own is not None and own not in on
        if kind == "inner" and is_free and copy is not None and copy not in on.values():
            assert own is not None
            assert other is not None
            on[own] = copy
            merged.update({each: own for each, name in right.columns.items() if name == copy})
            continue
        if not is_free or kind not in ("inner", "left", "semi", "anti"):
            own = fresh_name("left key", [*names, *added[0], *added[1]])
            added[0][own] = mine
        assert own is not None
        on[own] = fresh_name("right key", [*names, *added[0], *added[1]])
        added[1][on[own]] = theirs
    left = translation.operators.with_columns(left, added[0])
    right = translation.operators.with_columns(right, added[1])
    columns = {**left.columns, **right.columns, **merged}
    where = all_of([translation.expression(each, columns) for each in rest])
    made = translation.operators.make(
        logical.Join, left.operator, right.operator, kind, tuple(on.items()), where
    )
    if kind in ("semi", "anti"):
        return BoundRelation(made, left.columns, left.output)
    return BoundRelation(made, columns, (*left.output, *right.output))


def _columns_of(
    translation: Translation, left: BoundRelation, right: BoundRelation, pair: EqualPair
) -> list[tuple[int | None, int | None, Expression, Expression]]:
    """Return the columns by which a pair of keys is joined: ids of plain columns, and expressions."""
    one = translation.expression(pair.left, left.columns)
    other = translation.expression(pair.right, right.columns)
    kinds = (translation.type_of(one, left.operator), translation.type_of(other, right.operator))
    if kinds[0] != kinds[1]:
        other = other.cast(kinds[0])
    if pair.nulls_match:
        nothing = _anything(kinds[0])
        return [
            (None, None, one.is_null(), other.is_null()),
            (None, None, coalesce(one, nothing), coalesce(other, nothing)),
        ]
    plain = [id_of(each) if each.kind == "AttributeReference" else None for each in (pair.left, pair.right)]
    return [(plain[0], plain[1] if kinds[0] == kinds[1] else None, one, other)]


def _anything(kind: pa.DataType) -> Expression:
    """Return some value of a type, the same always."""
    if types.is_string(kind):
        return lit("")
    if types.is_boolean(kind):
        return lit(False)
    if types.is_binary(kind):
        return lit(b"")
    if types.is_date(kind):
        return lit("1970-01-01").cast(kind)
    if types.is_timestamp(kind):
        return lit("1970-01-01 00:00:00").cast(kind)
    if types.is_struct(kind):
        return Literal(pa.scalar(dict.fromkeys(each.name for each in kind), kind))
    if types.is_list(kind):
        return Literal(pa.scalar([], kind))
    return lit(0).cast(kind)
