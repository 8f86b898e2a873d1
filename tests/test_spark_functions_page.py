"""docs/reference/spark_functions.md shows what was compared with Spark.

- the page is what its data make, and the data have every use of a function once;
- a function that is rejected says why, and none that is different from Spark can be listed.
"""

from collections import Counter
from pathlib import Path

import pytest

from support.catalyst_examples import Example
from support.function_page import FREQUENT, PAGE, is_supported, load, page, supported, uses


def test_the_page_is_made_of_the_data() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(load()), "run scripts/spark_functions.py"


def test_each_function_is_there_once_and_the_most_frequent_first() -> None:
    functions = load()
    assert len({each.name for each in functions}) == len(functions)
    assert [each.uses for each in functions] == sorted((each.uses for each in functions), reverse=True)


def test_what_is_rejected_says_why() -> None:
    assert [each.name for each in load() if each.status == "rejected" and not each.why] == []


def test_at_least_two_hundred_functions_are_supported() -> None:
    assert sum(map(is_supported, load())) >= FREQUENT


def test_calls_in_comments_and_texts_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(
        "select upper(x), UPPER (y), 'upper(z)' -- upper(a)\n, lower(/* upper(b) */ s)"
    )
    assert uses(tmp_path, ["upper", "lower"]) == Counter(upper=2, lower=1)


def test_a_function_that_differs_from_spark_is_not_listed() -> None:
    with pytest.raises(AssertionError, match="f gives something else than Spark"):
        supported([Example("f", "select f()", "different")], Counter(), ["f"])
