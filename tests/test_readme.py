"""The README is true: its Python blocks run in order, and print what the text block after each says."""

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n```text\n(?P<printed>.*?)```)?", re.DOTALL)


def test_every_python_block_of_the_readme_prints_what_it_says() -> None:
    blocks = list(BLOCK.finditer(README.read_text()))
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(block["code"], str(README), "exec"), names)  # noqa: S102 - our own README
        if block["printed"] is not None:
            assert printed.getvalue() == block["printed"]


def test_every_make_target_of_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (README.parent / "Makefile").read_text(), re.MULTILINE))
    for target in re.findall(r"^make ([a-z-]+)", README.read_text(), re.MULTILINE):
        assert target in targets
