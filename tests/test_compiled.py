"""The compiled core and the kernels: when they are taken, and when not.

Families, and what only each can find:
- stand-ins for compiled files beside a copy of the sources: an edit that old machine code would hide;
- the variable of the environment: a choice that is ignored;
- the sources of the core, read: what the compiler takes without a word, and what then crashes;
- a process that strains the compiled core: a crash that no rule foresaw.
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
from pointstamp.compiled import CORE, FOLDER, KERNELS, SEEN, VARIABLE, digest_of_core, folder_of

SOURCE = Path(pointstamp.__file__).parent
SCRIPTS = Path(__file__).parent.parent / "scripts"
STRAINED = Path(__file__).parent / "support" / "strained_core.py"
ASKED = "import pointstamp.compiled; print(pointstamp.compiled.is_compiled(), pointstamp.__file__)"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the sources, and beside it a file that stands for their compiled core; it is not imported."""
    place = tmp_path / "pointstamp"
    shutil.copytree(SOURCE, place, ignore=shutil.ignore_patterns("__pycache__"))
    for what, module in (("core", "order/frontier"), ("kernels", "arrow/runs")):
        compiled = tmp_path / FOLDER / folder_of(what, place) / f"pointstamp/{module}{EXTENSION_SUFFIXES[0]}"
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


def test_sources_in_an_archive_run_as_python(copied: Path, tmp_path: Path) -> None:
    archive = Path(shutil.make_archive(str(tmp_path / "zipped"), "zip", copied.parent, "pointstamp"))
    environment = {**os.environ, "PYTHONPATH": f"{archive}{os.pathsep}{copied.parent}"}
    environment.pop(VARIABLE, None)
    command = [sys.executable, "-c", ASKED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith(f"False {archive}")


@pytest.mark.parametrize("edited", [f"arrow/{KERNELS[0]}.pyx", "arrow/common.pxd"])
def test_kernels_of_other_sources_are_refused_and_nothing_else_runs(copied: Path, edited: str) -> None:
    with (copied / edited).open("a") as file:
        file.write("\n")
    program = "import pointstamp.compiled as c; print(c.has_kernels()); import pointstamp.arrow.runs"
    done = process(copied, program)
    assert done.stdout == "False\n"
    assert "UsageError: the kernels were not compiled for these sources and Python" in done.stderr
    assert "Run `make setup` in a clone, or install a wheel" in done.stderr


def test_an_edit_of_python_leaves_the_kernels_compiled(copied: Path) -> None:
    with (copied / "arrow" / "__init__.py").open("a") as file:
        file.write("\n")
    assert process(copied, "import pointstamp.compiled as c; print(c.has_kernels())").stdout == "True\n"


def process(place: Path, program: str) -> subprocess.CompletedProcess[str]:
    """What a new process says that runs a program with these sources."""
    environment = {**os.environ, "PYTHONPATH": str(place.parent)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_without_a_compiler_setup_says_what_to_do_and_stops(copied: Path, tmp_path: Path) -> None:
    source = shutil.move(copied, tmp_path / "src" / "pointstamp")
    with (Path(source) / "arrow" / "common.pxd").open("a") as file:
        file.write("\n")
    scripts = shutil.copytree(SCRIPTS, tmp_path / "scripts")
    environment = {**os.environ, "CC": str(tmp_path / "no compiler"), VARIABLE: "python"}
    hidden = "import sys; sys.modules['ziglang'] = None; import runpy; "
    script = str(Path(scripts) / "compile_core.py")
    run = f"sys.argv = ['compile_core']; runpy.run_path({script!r}, run_name='__main__')"
    command = [sys.executable, "-c", hidden + run]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("setup: there is no C compiler '")
    assert "apt-get install gcc" in done.stdout
    assert "requirements/compiler.txt" in done.stdout


def test_no_class_of_the_core_has_a_base_or_a_decorator() -> None:
    for name in CORE:
        for node in ast.walk(ast.parse((SOURCE / name).read_text())):
            if isinstance(node, ast.ClassDef):
                assert not node.decorator_list, f"{name}: {node.name} is decorated"
                assert not node.bases, f"{name}: {node.name} has a base"
                assert not node.keywords, f"{name}: {node.name} has a metaclass"


def test_no_function_of_the_core_is_made_inside_of_another_or_yields() -> None:
    for name in CORE:
        tree = ast.parse((SOURCE / name).read_text())
        for outer in ast.walk(tree):
            where = f"{name}:{getattr(outer, 'lineno', 0)}"
            assert not isinstance(outer, ast.Lambda), f"{where} is a lambda"
            assert not isinstance(outer, ast.Yield | ast.YieldFrom | ast.Await), f"{where} yields"
            assert not isinstance(outer, ast.AsyncFunctionDef), f"{where} is a coroutine"
            if isinstance(outer, ast.FunctionDef):
                inner = [each for each in ast.walk(outer) if isinstance(each, ast.FunctionDef | ast.ClassDef)]
                assert inner == [outer], f"{where}: {outer.name} makes {inner[-1].name}"


def test_no_error_of_the_core_is_raised_from_another() -> None:
    """The compiler leaves out the cause without a word; ``__cause__`` is set by hand."""
    for name in CORE:
        for node in ast.walk(ast.parse((SOURCE / name).read_text())):
            assert not isinstance(node, ast.Raise) or node.cause is None, f"{name}:{node.lineno} has a cause"


def test_no_weak_reference_calls_a_function_of_the_core() -> None:
    for name in CORE:
        for node in ast.walk(ast.parse((SOURCE / name).read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                named = [getattr(node, "module", None), *(each.name for each in node.names)]
                assert "weakref" not in named, f"{name} makes weak references"
    # What is called when a capability is collected stands in a module that is not compiled.
    assert "operators/rights.py" not in CORE


def test_the_compiled_core_survives_what_crashes_one_that_breaks_the_rules() -> None:
    if asked_here("import pointstamp").returncode != 0:
        pytest.skip("the core is not compiled here; `make setup` does so where there is a C compiler")
    done = asked_here(STRAINED.read_text(), "-X", "faulthandler")
    assert (done.returncode, done.stdout) == (0, "unharmed\n"), done.stderr[-4_000:]


def asked_here(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """What a process with the compiled core of these sources says."""
    environment = {**os.environ, VARIABLE: "compiled", "PYTHONMALLOC": "debug"}
    command = [sys.executable, *options, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
