"""The generated parts of docs/reference/sql: examples, rejected texts, differences.

    PYTHONPATH=tests:. .venv/bin/python -m support.sql_page

writes them again, between the marks that the page has for them; a test keeps them up to date.
"""

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pointstamp as ps
from pointstamp.errors import SqlError
from sql_views.test_refusals import REFUSED, TABLES
from support.sql_cases import CASES
from support.sql_differences import DIFFERENCES

FOLDER: Final = Path(__file__).parents[2] / "docs" / "reference" / "sql"


def pages() -> dict[Path, str]:
    """The pages with generated parts, as they should be."""
    made = {}
    for name, (file, block) in BLOCKS.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        text = (FOLDER / file).read_text()
        if text.count(begin) != 1 or text.count(end) != 1:
            raise LookupError(f"{file} needs '{begin}' and '{end}', each once.")
        before, rest = text.split(begin)
        made[FOLDER / file] = f"{before}{begin}\n{block()}\n{end}{rest.split(end)[1]}"
    return made


def supported() -> str:
    """What is asked of views and of DuckDB after every epoch."""
    return _table(["case", "query"], [[each.name, _code(each.sql)] for each in CASES])


def refused() -> str:
    """What is refused, and with which words."""
    return _table(["text", "message"], [[_code(text), _words(refusal(text))] for text in REFUSED if text])


def refusal(text: str) -> str:
    """What a text is refused with."""
    try:
        ps.sql(text, TABLES)
    except SqlError as error:
        return str(error)
    raise AssertionError(f"{text!r} is not refused.")


def differences() -> str:
    """Where engines mean different things."""
    rows = [
        [
            each.about,
            _code(each.sql),
            _code(_shown(each.spark)),
            _code(_shown(each.duckdb)),
        ]
        for each in DIFFERENCES
    ]
    return _table(["difference", "query", "pointstamp and Spark", "DuckDB"], rows)


BLOCKS: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    "supported": ("tested.md", supported),
    "refused": ("rejected.md", refused),
    "differences": ("semantics.md", differences),
}


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _code(text: str) -> str:
    """A text as code in a table, in one line."""
    return f"<code>{_words(text)}</code>"


def _words(text: str) -> str:
    """A text in a table, in one line, with nothing that Markdown would read as its own."""
    line = html.escape(re.sub(r"\s+", " ", text).strip(), quote=False)
    return re.sub(r"[|*_`\\\[\]]", lambda found: f"&#{ord(found[0])};", line)


def _shown(value: Any) -> str:  # noqa: ANN401 - a value of any type
    return "null" if value is None else str(value)


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
