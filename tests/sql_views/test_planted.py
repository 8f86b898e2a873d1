"""Mistakes that were planted in the compiler are found: each by the cases that a comment of it names.

What only this can find: a law whose questions never reach a part of SQL, and so say nothing about it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.dataflow.table import Table
from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.reduce.constructors import count
from pointstamp.sql_views import (
    condition_parts,
    expression_translation,
    from_clause,
    group_by,
    join_pool,
    queries,
    select_clause,
    subqueries,
    with_recursive,
)
from support.batch_answers import judge
from support.sql_cases import CASES, Case, declared, fed, used_in

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake, how it is planted, and the cases that find it."""

    name: str
    plant: Patch
    cases: tuple[str, ...]


def copies_once(patch: pytest.MonkeyPatch) -> None:
    def once(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(batch.schema.names[:-1])

    patch.setattr(queries, "_repeated", once)


def copies_of_the_left(patch: pytest.MonkeyPatch) -> None:
    def least(mine: str, theirs: str) -> Expression:
        del theirs
        return col(mine)

    patch.setattr("pointstamp.sql_views.queries.functions.least", least)


def using_is_of_the_left(patch: pytest.MonkeyPatch) -> None:
    real = join_pool.merged_names
    patch.setattr(from_clause, "merged_names", lambda one, other, names, how: real(one, other, names, "left"))


def nulls_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    def none(where: Expression | None = None) -> Any:  # noqa: ANN401 - an aggregate
        return count(where=None if where is None else lit(False))

    patch.setattr(subqueries, "count", none)


def rest_of_some_branches(patch: pytest.MonkeyPatch) -> None:
    def without(branches: list[Expression]) -> Iterator[Expression]:
        taken = [{str(part): part for part in condition_parts.parts_of(branch)} for branch in branches]
        common = [words for words in taken[0] if all(words in each for each in taken)]
        yield from (taken[0][words] for words in common)
        rests = [
            condition_parts.all_of(part for words, part in each.items() if words not in common)
            for each in taken
        ]
        if some := [rest for rest in rests if rest is not None]:
            yield condition_parts.any_of(some)

    patch.setattr(condition_parts, "_without_common_parts", without)


def step_by_name(patch: pytest.MonkeyPatch) -> None:
    def by_name(step: Any, made: Table, start: Table) -> Table:  # noqa: ANN401 - a node
        del step
        own = made.schema.names
        names = [each if each in own else own[n] for n, each in enumerate(start.schema.names)]
        return made.select(
            *(
                col(mine).cast(field.type).alias(field.name)
                for mine, field in zip(names, start.schema, strict=True)
            )
        )

    patch.setattr(with_recursive, "like_start", by_name)


def parts_of_the_subquery_are_lost(patch: pytest.MonkeyPatch) -> None:
    real = condition_parts.split
    patch.setattr(select_clause, "split", lambda *given: replace(real(*given), right=[]))


def where_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(from_clause, "_makes_nulls", lambda joins: False)


def keys_by_their_text(patch: pytest.MonkeyPatch) -> None:
    for module in (group_by, select_clause, expression_translation):
        patch.setattr(module, "canonical", str)


def nulls_are_equal_to_zero(patch: pytest.MonkeyPatch) -> None:
    real = condition_parts.null_safe_keys
    patch.setattr(condition_parts, "null_safe_keys", lambda *given: real(*given)[1:])


def neighbours_across_groups(patch: pytest.MonkeyPatch) -> None:
    from pointstamp.incremental import window_operator

    real = window_operator._neighbour_with_value
    patch.setattr(
        window_operator, "_neighbour_with_value", lambda each, valid: np.maximum(real(each, valid), 0)
    )


MISTAKES = [
    Mistake("copies once", copies_once, ("copies that are in both", "copies that are left")),
    Mistake("copies of the left", copies_of_the_left, ("copies that are in both",)),
    Mistake("using is of the left", using_is_of_the_left, ("right using", "full using of three")),
    Mistake("nulls are not counted", nulls_are_not_counted, ("not in of what is never null",)),
    Mistake("rest of some branches", rest_of_some_branches, ("alternatives that imply each other",)),
    Mistake("step by name", step_by_name, ("recursive step with other names",)),
    Mistake("parts are lost", parts_of_the_subquery_are_lost, ("factored not exists", "factored value")),
    Mistake("where does not wait", where_does_not_wait, ("where behind a left and a full join",)),
    Mistake("keys by their text", keys_by_their_text, ("sets of one meaning",)),
    Mistake("null is zero", nulls_are_equal_to_zero, ("full join on a null safe equality",)),
    Mistake("across groups", neighbours_across_groups, ("lag without nulls",)),
]


def case(name: str) -> Case:
    (found,) = [each for each in CASES if each.name == name]
    return found


def is_right(asked: Case) -> bool:
    try:
        flow = ps.sql(declared(*used_in(asked.sql)) + asked.sql)
        judge(flow, asked.theirs, fed(CASES.index(asked), epochs=3), 1 + CASES.index(asked) % 2)
    except (AssertionError, ps.errors.PointstampError):
        return False
    return True


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name.replace(" ", "_"))
def test_a_planted_mistake_is_found(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [case(name) for name in mistake.cases]
    assert all(map(is_right, asked))
    mistake.plant(monkeypatch)
    assert not all(map(is_right, asked)), f"no case of {mistake.cases} finds it"
