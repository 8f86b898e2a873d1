"""The notebook of communities shows what is stored in it: its cells print and draw the same again."""

import ast
import contextlib
import io
from pathlib import Path
from typing import Any

import nbformat

NOTEBOOK = Path(__file__).parents[2] / "examples" / "communities.ipynb"


def run(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and the value of its last line."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)  # noqa: S102 - our own notebook
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)  # noqa: S307
    return printed.getvalue(), value


def test_the_notebook_prints_and_draws_what_is_stored_in_it() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    names: dict[str, Any] = {}
    compared = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        printed, value = run(cell.source, names)
        shown = "".join(each.text for each in cell.outputs if each.output_type == "stream")
        assert printed == shown
        for each in cell.outputs:
            if each.output_type == "execute_result":
                assert value._repr_svg_() == each.data["image/svg+xml"]
                assert repr(value) == each.data["text/plain"]
                compared += 1
    assert compared == 1
