"""Expressions of Catalyst's trees, compared with Spark.

- the trees of all expressions of the SQL front end, and of functions that only Spark's SQL has, give Spark's
  types and values, over a grid of awkward values, in four time zones, with and without ANSI mode; trees and
  answers are stored (tests/support/catalyst_answers.json, catalyst_trees.json);
- Spark itself still gives these trees and answers (long);
- the examples of Spark's own manual are equal here or rejected, for every function that there is (long).
"""

import re
from collections import Counter
from functools import partial

import pytest
from pyspark.sql import SparkSession

from pointstamp.errors import FlowError
from pointstamp.spark.catalyst.trees import TreeNode
from support import catalyst_answers
from support.catalyst_answers import CatalystSession, Question, answers_of, differences, expression_of
from support.catalyst_examples import compared_examples
from support.catalyst_expressions import QUESTIONS
from support.spark_answers import differences as differences_of_sql
from support.spark_answers import load as load_sql_answers
from support.spark_expressions import EXPRESSIONS
from support.spark_grid import ERROR, REJECTED, answers_here

STORED = catalyst_answers.load()
TREES = catalyst_answers.load_trees()
GROUPS = 16

CONSTANTS_THAT_FAIL = ("b and 1 / 0 > 1", "b or 1 / 0 > 1")
"""Spark raises for constants in branches that no row takes; here they are not evaluated."""

INTERVALS_REJECTED = 12
"""How many expressions of the SQL front end may be rejected: texts of intervals and patterns of times."""


@pytest.mark.parametrize("group", range(GROUPS))
def test_a_tree_gives_what_spark_gives(group: int) -> None:
    wrong = [
        words
        for question, answered in list(STORED.items())[group::GROUPS]
        if answered.tree is not None
        for words in differences(question, answers_of(answered.tree, question), answered)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_tree_with_stored_answers_is_rejected() -> None:
    rejected = [
        each.sql
        for each, answered in STORED.items()
        if answered.tree is not None and answers_of(answered.tree, each)[0] == REJECTED
    ]
    assert rejected == []


@pytest.mark.parametrize("group", range(GROUPS))
def test_the_trees_of_the_sql_front_end_give_what_spark_gives(group: int) -> None:
    answers = load_sql_answers()
    wrong: list[str] = []
    for asked in EXPRESSIONS[group::GROUPS]:
        question = Question(asked.sql, asked.zone)
        tree = TREES[question]
        here = answers_here(asked, partial(expression_of, tree, question))
        if here.type != REJECTED and asked.sql not in CONSTANTS_THAT_FAIL:
            wrong.extend(differences_of_sql(asked, here, answers[asked]))
    assert not wrong, "\n".join(wrong)


def test_few_trees_of_the_sql_front_end_are_rejected() -> None:
    answers = load_sql_answers()
    rejected = []
    for question, tree in TREES.items():
        here = answers_here(question.asked, partial(expression_of, tree, question))
        there = answers[question.asked]
        if here.type == REJECTED and ERROR not in there.values and there.type != REJECTED:
            rejected.append(f"{question.sql}: {here.values[0]}")
    assert len(rejected) <= INTERVALS_REJECTED, "\n".join(rejected)


def test_all_answers_are_stored_and_no_others() -> None:
    assert set(STORED) == set(QUESTIONS), "run scripts/catalyst_answers.py"
    assert set(TREES) == {Question(each.sql, each.zone) for each in EXPRESSIONS}


def test_a_tree_that_was_not_completed_is_rejected() -> None:
    def without_mode(node: TreeNode) -> TreeNode:
        fields = {**node.fields, "evalMode": None, "evalContext": None}
        return TreeNode(node.kind, node.class_name, fields, tuple(map(without_mode, node.children)))

    for sql in ("try_add(i, i2)", "try_cast(n as int) + 1"):
        tree = STORED[Question(sql)].tree
        assert tree is not None
        with pytest.raises(FlowError, match="evaluation mode is not known"):
            expression_of(without_mode(tree), Question(sql))


def test_what_changes_without_the_input_is_rejected_by_name() -> None:
    for kind, name in (("Rand", "rand()"), ("CurrentTimestamp", "current_timestamp()"), ("Uuid", "uuid()")):
        tree = TreeNode(kind, kind, {}, ())
        with pytest.raises(FlowError, match=re.escape(name)):
            expression_of(tree, Question(name))


def test_a_class_that_is_not_known_is_rejected_with_its_arguments() -> None:
    literal = TreeNode("Literal", "Literal", {"value": "1", "dataType": "integer"}, ())
    with pytest.raises(FlowError, match=re.escape("FutureFunction(1): it is not supported")):
        expression_of(TreeNode("FutureFunction", "FutureFunction", {}, (literal,)), Question("future(1)"))


@pytest.mark.spark
@pytest.mark.long
def test_the_stored_trees_and_answers_are_sparks(spark: SparkSession) -> None:
    ask = CatalystSession(spark)
    changed = []
    for question in QUESTIONS:
        found, stored = ask(question), STORED[question]
        if (found.type, found.values) != (stored.type, stored.values):
            changed.append(question.sql)
    assert changed == []


@pytest.mark.spark
@pytest.mark.long
def test_the_examples_of_sparks_manual_are_equal_here_or_rejected(spark: SparkSession) -> None:
    compared = compared_examples(spark)
    assert [each for each in compared if each.outcome == "different"] == []
    counts = Counter(each.outcome for each in compared)
    assert counts["equal"] > 600, counts
