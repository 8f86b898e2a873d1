"""Where Spark and DuckDB mean different things by the same words: Spark's meaning is ours.

Each is a value that is asked of a table with one row, or the first of some rows; ``error`` is what is asked
where a query fails. The page of SQL shows this list.
"""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final

ERROR: Final = "error"
ROWS: Final = [{"n": 1, "d": date(2024, 3, 3)}]
SCHEMA: Final = "n long, d date"


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is said, and what it is."""

    about: str
    sql: str
    """An expression, or a query."""
    spark: Any
    duckdb: Any

    @property
    def query(self) -> str:
        """The query that asks it of the table ``one``."""
        return self.sql if self.sql.startswith("select") else f"select {self.sql} as v from one"  # noqa: S608


DIFFERENCES: Final = [
    Difference("a division by zero is an error", "n / 0", ERROR, float("inf")),
    Difference(
        "decimals that are divided stay decimals",
        "cast(1 as decimal(10, 2)) / cast(8 as decimal(10, 2))",
        Decimal("0.1250000000000"),
        0.125,
    ),
    Difference(
        "an integer beside a decimal has its own digits",
        "cast(n as decimal(10, 2)) / 3",
        Decimal("0.333333"),
        1 / 3,
    ),
    Difference("a decimal that becomes an integer is cut", "cast(2.7 as int)", 2, 3),
    Difference("a double that becomes an integer is cut", "cast(2.7e0 as int)", 2, 3),
    Difference("concat of a null is null", "concat('a', cast(null as string))", None, "a"),
    Difference("log is the natural logarithm", "round(log(100.0e0), 3)", 4.605, 2.0),
    Difference("a substring from 0 begins with the first letter", "substring('abc', 0, 2)", "ab", "a"),
    Difference("a week begins with Sunday, as 1", "dayofweek(d)", 1, 0),
    Difference("a backslash in LIKE takes the next letter as it is", "'a%' like 'a\\\\%'", True, False),
    Difference(
        "nulls come first in an order",
        "select s.m as v from one cross join (values (1), (null)) as s(m) order by s.m limit 1",
        None,
        1,
    ),
    Difference(
        "ROLLUP of no rows has no total",
        "select count(*) as v from (select count(*) as c from one where n > 1 group by rollup(n)) s",
        0,
        1,
    ),
    Difference(
        "the average of decimals has four digits more",
        "select avg(s.m) as v from one cross join (values (1.00), (2.00), (2.00)) as s(m)",
        Decimal("1.666667"),
        5 / 3,
    ),
    Difference(
        "so has that of a window",
        "select distinct avg(s.m) over () as v from one cross join (values (-1.0), (-2.0), (-2.0)) as s(m)",
        Decimal("-1.66667"),
        -5 / 3,
    ),
]
