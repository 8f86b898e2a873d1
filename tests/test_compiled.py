"""The compiled core: when it is taken, and when not.

Families, and what only each can find:
- stand-ins for compiled files beside a copy of the sources: an edit that old machine code would hide;
- the variable of the environment: a choice that is ignored;
- the sources of the core, read: what the compiler takes without a word, and what then crashes.
That compiled modules do what their sources say is found by the tests of their packages, which run both ways.
"""

import ast
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import pointstamp
from pointstamp.compiled import CORE, FOLDER, SEEN, VARIABLE, digest_of_core

SOURCE = Path(pointstamp.__file__).parent
ASKED = "import pointstamp.compiled; print(pointstamp.compiled.is_compiled(), pointstamp.__file__)"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the sources, and beside it a file that stands for their compiled core; it is not imported."""
    place = tmp_path / "pointstamp"
    shutil.copytree(SOURCE, place, ignore=shutil.ignore_patterns("__pycache__"))
    compiled = tmp_path / FOLDER / digest_of_core(place) / f"pointstamp/order/frontier{EXTENSION_SUFFIXES[0]}"
    compiled.parent.mkdir(parents=True)
    compiled.touch()
    return place


def asked(place: Path, core: str | None) -> subprocess.CompletedProcess[str]:
    """What a new process says that imports these sources: whether it has the compiled core, and its place."""
    environment = {**os.environ, "PYTHONPATH": str(place.parent)}
    environment.pop(VARIABLE, None)
    if core is not None:
        environment[VARIABLE] = core
    command = [sys.executable, "-c", ASKED]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_the_compiled_core_is_taken_where_it_is_of_these_sources(copied: Path) -> None:
    assert asked(copied, None).stdout == f"True {copied / '__init__.py'}\n"


@pytest.mark.parametrize("edited", [CORE[0], "topology/domain.py", "errors.py"])
def test_an_edit_is_never_hidden_by_what_was_compiled_before_it(copied: Path, edited: str) -> None:
    with (copied / edited).open("a") as file:
        file.write("\n")
    assert asked(copied, None).stdout == f"False {copied / '__init__.py'}\n"
    refused = asked(copied, "compiled").stderr
    assert (
        "the core was not compiled for these sources and this Python. Run scripts/compile_core.py" in refused
    )


def test_an_edit_of_what_the_compiler_does_not_see_leaves_the_core_compiled(copied: Path) -> None:
    with (copied / "flow" / "plan.py").open("a") as file:
        file.write("\n")
    assert asked(copied, "compiled").stdout.startswith("True ")


def test_a_module_more_that_the_compiler_sees_is_an_edit(copied: Path) -> None:
    before = digest_of_core(copied)
    (copied / SEEN[-1] / "another.py").touch()
    assert digest_of_core(copied) != before


def test_the_environment_can_ask_for_python_and_for_nothing_unknown(copied: Path) -> None:
    assert asked(copied, "python").stdout.startswith("False ")
    assert "it is 'python' or 'compiled', or not there at all" in asked(copied, "fast").stderr


def test_no_class_of_the_core_has_what_cannot_be_compiled() -> None:
    bases = {"Generic", "NamedTuple", "Protocol"}
    for name in CORE:
        for node in ast.walk(ast.parse((SOURCE / name).read_text())):
            if isinstance(node, ast.ClassDef):
                assert not node.decorator_list, f"{name}: {node.name} is decorated"
                above = {ast.unparse(base).partition("[")[0] for base in node.bases}
                assert above <= bases, (
                    f"{name}: {node.name} is made of {above - bases}, which is not compiled"
                )
