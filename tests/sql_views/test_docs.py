"""docs/reference/sql lists the functions that exist, and its tables are what other tests ask."""

import re

from pointstamp.sql_views.desugaring import REWRITTEN_FUNCTIONS
from pointstamp.sql_views.over_clause import WINDOW_FUNCTIONS
from pointstamp.sql_views.sql_functions import AGGREGATES, SCALARS
from support import sql_page

PAGE = (sql_page.FOLDER / "index.md").read_text()


def test_the_page_lists_the_functions_that_there_are() -> None:
    for heading, known in (
        ("Scalar functions", SCALARS),
        ("Aggregate functions", AGGREGATES),
        ("Window functions", WINDOW_FUNCTIONS | REWRITTEN_FUNCTIONS),
    ):
        section = PAGE.partition(f"### {heading}\n")[2].partition("\n#")[0]
        assert set(re.findall(r"`(\w+)`", section)) == set(known), heading


def test_the_tables_of_the_page_are_made_of_what_is_tested() -> None:
    for path, text in sql_page.pages().items():
        assert path.read_text() == text, "run: PYTHONPATH=tests:. .venv/bin/python -m support.sql_page"
