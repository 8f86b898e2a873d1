"""Nothing in the package is there for nobody.

A name that is defined in src/pointstamp and stands nowhere else, neither there nor in the models, the tests,
the documents, the examples or the benchmarks, is used by nobody, and goes. What this cannot find is a name
that others have, too, and one that only its own tests use.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
READERS: Final = ("src", "models", "tests", "docs", "examples", "benchmarks", "scripts")

CALLED_BY_OTHERS: Final = {
    "_check_value": "argparse calls it for each argument that has choices",
    "_repr_html_": "notebooks call it to show a flow or a link",
    "do_GET": "the server of the standard library calls it for each request",
    "do_POST": "as do_GET",
    "initialOffset": "Spark calls it for a stream of a Python data source",
    "latestOffset": "as initialOffset",
    "streamReader": "as initialOffset",
    "handle_error": "the server of the standard library calls it where a request fails",
    "log_message": "the server of the standard library calls it to log a request",
    "_warn_unsupported": "sqlglot calls it for a statement that it does not know",
    "_parse_pipe_syntax_query": "sqlglot calls it for a query that continues with |>",
    "_parse_pipe_syntax_aggregate": "sqlglot calls it for |> AGGREGATE",
    "_parse_pipe_syntax_select": "sqlglot calls it for |> SELECT",
}


def definitions(tree: ast.Module) -> Iterator[str]:
    """The names of functions, classes, methods and fields; those that Python itself calls left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def words() -> Counter[str]:
    """How often each word stands in the repository, this file left out."""
    counted: Counter[str] = Counter()
    files = (file for folder in READERS for file in (ROOT / folder).rglob("*"))
    for file in (ROOT / "README.md", *files):
        if file.suffix in (".py", ".md") and file != Path(__file__):
            counted.update(re.findall(r"\w+", file.read_text()))
    return counted


def test_every_name_that_is_defined_is_used_somewhere() -> None:
    counted = words()
    unused = {
        f"{file.relative_to(ROOT)}::{name}"
        for file in (ROOT / "src" / "pointstamp").rglob("*.py")
        for name in definitions(ast.parse(file.read_text()))
        if counted[name] == 1 and name not in CALLED_BY_OTHERS and not name.startswith("__")
    }
    assert unused == set()
