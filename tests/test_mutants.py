"""The script that plants mistakes (``scripts/mutants.py``), tried on a project of two functions.

Families, and what only each can find:
- *mistakes*: which are planted, and where none are.
- *run*: the report of a project whose tests miss two mistakes; its tree stays as it is, the seed decides
  which mutants are tried, and a run continues where it was stopped.
"""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "mutants.py"


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


mutants = loaded()


def planted(body: str) -> set[str]:
    """The changed lines of a function with this body."""
    source = f"def f(a, b, c):\n    {body}\n"
    made = (each.applied(source).splitlines()[1].strip() for each in mutants.mutants_of("m.py", source))
    return set(made)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("return a <= b", {"return a < b"}),
        ("return a not in b", {"return a in b"}),
        ("return a is not b", {"return a is b"}),
        ("return a and b or c", {"return a or b or c", "return a and b and c"}),
        ("return not a", {"return a"}),
        ("return a + b - c", {"return a - b - c", "return a + b + c"}),
        ("return a[b:c]", {"return a[(b) + 1:c]", "return a[b:(c) + 1]"}),
        ("return a[1:]", {"return a[2:]"}),
        ("return a.min(True)", {"return a.max(True)", "return a.min(False)"}),
        ("a.b = c", {"pass"}),
        ("a += c", {"pass"}),
        ("a.append(b)", {"pass"}),
        ("return '\u00e4' if a < b else c", {"return '\u00e4' if a <= b else c"}),
        ("b = a", set()),
        ("return 'a' + f'{b + c}'", set()),
        ("assert a < b", set()),
        ("return zip(a, strict=True)", set()),
        ("raise a < b", set()),
    ],
)
def test_each_mistake_is_planted_alone(body: str, wanted: set[str]) -> None:
    assert planted(body) == wanted


def test_a_condition_is_negated() -> None:
    source = "def f(a):\n    if a:\n        return 1\n    return 2\n"
    whats = [each.what for each in mutants.mutants_of("m.py", source)]
    assert whats == ["the condition is negated", "1 becomes 2", "2 becomes 3"]


def test_sizes_and_types_are_left_alone() -> None:
    source = "SIZE: int = 5\nOTHER = 7\ndef f(a: 'int | None') -> 'int | None': ...\n"
    assert mutants.mutants_of("m.py", source) == []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two functions, of which one is tested well, one not, and one line by nothing."""
    files = {
        "src/tiny/sums/limits.py": (
            "def is_small(a):\n    return a < 10\n\n\n"
            "def is_large(a):\n    return a > 10\n\n\n"
            "def unused(a):\n    return a == 10\n"
        ),
        "tests/sums/test_limits.py": (
            "from tiny.sums.limits import is_large, is_small\n\n\n"
            "def test_small():\n    assert is_small(9) and not is_small(10) and not is_small(11)\n\n\n"
            "def test_large():\n    assert is_large(20) and not is_large(5)\n"
        ),
        "src/tiny/__init__.py": "",
        "src/tiny/sums/__init__.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "a"],
    ):
        git(tmp_path, *command)
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    command = [shutil.which("git") or "git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def run(project: Path, *arguments: str) -> list[dict[str, Any]]:
    told = project.parent / "told.json"
    command = [sys.executable, str(SCRIPT), "--root", str(project), "--json", str(told), *arguments]
    subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL)
    outcomes: list[dict[str, Any]] = json.loads(told.read_text())
    return outcomes


MODULE = "src/tiny/sums/limits.py"


def test_survivors_are_reported_and_the_tree_stays_as_it_is(project: Path) -> None:
    before = (project / MODULE).read_text()
    outcomes = run(project, "--module", MODULE)
    by_line = {(each["line"], each["what"]): each["outcome"] for each in outcomes}
    assert by_line == {
        (2, "'<' becomes '<='"): "killed",
        (2, "10 becomes 11"): "killed",
        (6, "'>' becomes '>='"): "survived",
        (6, "10 becomes 11"): "survived",
        (10, "'==' becomes '!='"): "not covered",
        (10, "10 becomes 11"): "not covered",
    }
    assert next(
        each["diff"] for each in outcomes if each["line"] == 6 and "'>'" in each["what"]
    ).splitlines()[1:] == [
        " def is_large(a):",
        "-    return a > 10",
        "+    return a >= 10",
        " ",
    ]
    assert (project / MODULE).read_text() == before
    assert git(project, "status", "--short", "src", "tests") == ""


@pytest.mark.long
def test_a_run_continues_and_the_seed_decides_what_is_tried(project: Path) -> None:
    (project / MODULE).write_text((project / MODULE).read_text().replace("20", "21") + "\n")
    first = run(project, "--base", "HEAD", "--limit", "2", "--seed", "3")
    assert len(first) == 2
    kept = (project / ".mutants" / "results.jsonl").read_text()
    more = run(project, "--base", "HEAD", "--limit", "3", "--seed", "3")
    assert more[:2] == first
    assert (project / ".mutants" / "results.jsonl").read_text().startswith(kept)
    assert len((project / ".mutants" / "results.jsonl").read_text().splitlines()) == 3
