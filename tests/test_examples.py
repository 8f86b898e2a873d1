"""The examples run, and print what their last comment lines say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("[0-9]*.py"))


def expected(source: str) -> str:
    """The block of comment lines at the very end."""
    lines: list[str] = []
    for line in reversed(source.rstrip().splitlines()):
        if not line.startswith("#"):
            break
        lines.append(line[2:])
    return "\n".join(reversed(lines))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_prints_what_it_says(path: Path) -> None:
    source = path.read_text()
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(path)], capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.rstrip() == expected(source)


def test_examples_are_numbered_without_gaps_and_short() -> None:
    numbers = [int(path.name[:2]) for path in EXAMPLES]
    assert numbers == list(range(1, len(numbers) + 1))
    for path in EXAMPLES:
        code = [line for line in path.read_text().splitlines() if line.strip() and not re.match(r"#", line)]
        assert len(code) < 60, f"{path.name} has {len(code)} lines of text"
