"""Every function, operator and cast over awkward values, compared with the stored answers of Spark.

What only this finds, without Spark: a value that differs from Spark's in any row, for any type of the grid
(tests/support/spark_grid.py), in four time zones. tests/spark/test_answers.py asks Spark itself.
"""

import re

import pytest

from pointstamp.expressions.signature import known_functions
from pointstamp.expressions.tree import Call, Expression
from pointstamp.sql_views.sql_functions import SCALARS
from support.catalyst_answers import ASKED_LIVE, functions_of_trees
from support.spark_answers import differences, load
from support.spark_expressions import EXPRESSIONS, KNOWN_DIFFERENCES
from support.spark_grid import Answers, Asked, answers_here, tree_of

STORED = load()
GROUPS = 24


@pytest.mark.parametrize("group", range(GROUPS))
def test_an_expression_gives_what_spark_gives(group: int) -> None:
    wrong = [
        words
        for each in EXPRESSIONS[group::GROUPS]
        for words in differences(each, answers_here(each), STORED[each])
    ]
    assert not wrong, "\n".join(wrong)


def test_what_is_known_to_differ_still_does() -> None:
    for asked in EXPRESSIONS:
        if asked.sql in KNOWN_DIFFERENCES:
            assert answers_here(asked) != STORED[asked], f"{asked.sql} is Spark's now: take it from the list"


def test_all_answers_are_stored_and_no_others() -> None:
    assert set(STORED) == set(EXPRESSIONS), "run scripts/spark_answers.py"


def test_every_function_of_sql_is_asked() -> None:
    asked = " ".join(each.sql for each in EXPRESSIONS)
    assert [name for name in SCALARS if not re.search(rf"\b{name}\(", asked)] == [
        "iff"
    ]  # of Databricks alone


def test_every_registered_function_is_asked() -> None:
    def functions(tree: object) -> set[str]:
        found = {tree.function} if isinstance(tree, Call) else set()
        for name in getattr(tree, "__match_args__", ()):
            value = getattr(tree, name)
            for part in value if isinstance(value, tuple) else (value,):
                for each in part if isinstance(part, tuple) else (part,):
                    if isinstance(each, Expression):
                        found |= functions(each)
        return found

    asked = set().union(*(functions(tree) for each in EXPRESSIONS if (tree := tree_of(each)) is not None))
    only_here = {"field", "tumbling", "date_trunc", "at_time_zone"}  # not functions of Spark's SQL
    assert set(known_functions()) - asked - functions_of_trees() - ASKED_LIVE - only_here == set()


def test_a_wrong_value_is_found() -> None:
    asked = Asked("i + 1")
    right = answers_here(asked)
    broken = Answers(right.type, [*right.values[:-1], "41"])
    assert list(differences(asked, broken, right))
    assert not list(differences(asked, right, right))
    assert list(differences(asked, Answers("long", right.values), right))
    assert list(differences(asked, Answers("rejected", ["why"]), right))
