"""What a user installs: the wheel and the sdist are built, installed elsewhere, and run from there.

Only these tests can find a module that the wheel forgets, or a file that only the repository has.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from pointstamp.compiled import FOLDER

ROOT = Path(__file__).parent.parent


def _uv() -> str:
    found = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    assert Path(found).exists(), "make setup puts uv there"
    return found


def _run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", folder)
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("installed")
    (wheel,) = built.glob("pointstamp-*.whl")
    _run(_uv(), "pip", "install", "--quiet", "--offline", "--no-deps", "--target", place, wheel)
    return place


def test_the_wheel_holds_every_module_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("pointstamp-*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    assert held == {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_an_installed_wheel_runs_a_flow_without_the_repository(installed: Path, tmp_path: Path) -> None:
    script = tmp_path / "flow.py"
    script.write_text(
        "import pointstamp as ps\n"
        "flow = ps.Dataflow('sums')\n"
        "flow.output('sums', flow.stream_input('n', 'k long, x long').group_by('k').agg(total=ps.sum('x')))\n"
        "if __name__ == '__main__':\n"
        "    print(ps.__file__)\n"
        "    rows = [[{'k': 1, 'x': 2}, {'k': 1, 'x': 3}]]\n"
        "    print(flow.run(n=rows, processes=2)['sums'].table().to_pylist())\n"
    )
    said = _run(sys.executable, script, cwd=tmp_path, PYTHONPATH=str(installed))
    place, result = said.splitlines()
    assert Path(place).is_relative_to(installed)
    assert result == "[{'epoch': 0, 'k': 1, 'total': 5}]"


def test_the_command_of_an_installed_wheel_answers(installed: Path, tmp_path: Path) -> None:
    said = _run(sys.executable, installed / "bin" / "pointstamp", "--version", PYTHONPATH=str(installed))
    assert said.startswith("pointstamp ")


def test_a_wheel_of_the_sdist_is_the_wheel(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("pointstamp-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", cwd=source)
    (wheel,) = built.glob("pointstamp-*.whl")
    (again,) = (tmp_path / "again").glob("*.whl")
    assert set(zipfile.ZipFile(again).namelist()) == set(zipfile.ZipFile(wheel).namelist())


def test_a_wheel_that_is_asked_for_the_compiled_core_brings_it_and_runs_it(tmp_path: Path) -> None:
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no C compiler '{compiler}' to compile the core with")
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path)
    _run(*build, POINTSTAMP_WHEEL="compiled")
    (wheel,) = tmp_path.glob("pointstamp-*.whl")
    assert not wheel.name.endswith("-none-any.whl")
    place = tmp_path / "installed"
    _run(_uv(), "pip", "install", "--quiet", "--offline", "--no-deps", "--target", place, wheel)
    asked = "import pointstamp.progress.tracker; print(pointstamp.progress.tracker.__file__)"
    environment = {"PYTHONPATH": str(place), "POINTSTAMP_CORE": "compiled"}
    found = Path(_run(sys.executable, "-c", asked, cwd=tmp_path, **environment).strip())
    assert found.is_relative_to(place / FOLDER)
