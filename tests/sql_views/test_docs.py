"""docs/sql.md says what there is: its examples print what it says, and it lists the functions that exist.

Its tables of examples, refusals and differences are made of what other tests ask.
"""

import contextlib
import io
import re
from pathlib import Path

from pointstamp.sql_views.aggregates import AGGREGATES
from pointstamp.sql_views.functions import SCALARS
from pointstamp.sql_views.ranking import WINDOW_FUNCTIONS
from pointstamp.sql_views.rewriting import REWRITTEN_FUNCTIONS
from support import sql_page

PAGE = (Path(__file__).parent.parent.parent / "docs" / "sql.md").read_text()


def test_the_examples_print_what_the_page_says() -> None:
    found = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(found) == 8
    names: dict[str, object] = {}
    for code, wanted in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)  # noqa: S102 - our own page
        assert printed.getvalue() == wanted


def test_the_page_lists_the_functions_that_there_are() -> None:
    for words, known in (
        ("Functions", SCALARS),
        ("Aggregates", AGGREGATES),
        ("Over windows of rows", WINDOW_FUNCTIONS | REWRITTEN_FUNCTIONS),
    ):
        block = next(part for part in PAGE.split("\n\n") if part.startswith(f"{words}: "))
        assert set(re.findall(r"`(\w+)`", block)) == set(known), words


def test_the_tables_of_the_page_are_made_of_what_is_tested() -> None:
    assert sql_page.page() == PAGE, "run: PYTHONPATH=tests:. .venv/bin/python -m support.sql_page"
