"""Run a bounded set of tests with the other versions of Python that are here: ``python scripts/pythons.py``.

It looks for Python 3.12 and 3.13 on PATH and among those of pyenv, and says which it has found. For each it
makes an environment (``.venv-3.13``) with what these tests need, in the locked versions, by their hashes, and
runs them there: without Spark, Kafka and a browser. The exit code is 0 if all have passed, and where no other
version is found.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
VERSIONS: Final = ("3.12", "3.13")
LOCKED: Final = "requirements/dev.txt"
NEEDED: Final = (
    *("pytest", "hypothesis", "scipy", "polars", "pandas"),
    *("hatchling", "editables", "cython", "mypy", "setuptools"),
)
"""What the tests and the build need besides what pointstamp needs."""
TESTS: Final = (
    *("tests/order", "tests/topology", "tests/progress", "tests/arrow", "tests/worker"),
    "tests/query/test_endings.py",
)
WITH_SPARK: Final = "tests/arrow/test_ddl.py"
"""Of these folders, the tests that pyspark judges."""
SECONDS_MAX: Final = 30


def found() -> dict[str, Path]:
    """The interpreters that are here, by their version."""
    own = ".".join(map(str, sys.version_info[:2]))
    places = {version: _interpreter(version) for version in VERSIONS if version != own}
    return {version: place for version, place in places.items() if place is not None}


def _interpreter(version: str) -> Path | None:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{version}")
    for place in (
        *sorted(pyenv.glob(f"{version}.*/bin/python{version}")),
        *([Path(on_path)] if on_path else []),
    ):
        asked = subprocess.run([place, "--version"], capture_output=True, text=True, timeout=SECONDS_MAX)
        if asked.returncode == 0 and asked.stdout.startswith(f"Python {version}."):
            return place
    return None


def passes(version: str, interpreter: Path) -> bool:
    """Whether the tests pass with an interpreter, in an environment that is made here."""
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    folder = ROOT / f".venv-{version}"
    python = str(folder / "bin" / "python")
    install = [uv, "pip", "install", "--quiet", "--python", python]
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    steps = [
        [uv, "venv", "--quiet", "--clear", "--python", str(interpreter), str(folder)],
        [*install, "--constraint", LOCKED, *NEEDED, *own],
        [*install, "--no-deps", "--no-build-isolation", "--editable", ".", "--editable", "models"],
        [python, "scripts/compile_core.py"],
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long", *_chosen()],
    ]
    return all(subprocess.call(step, cwd=ROOT) == 0 for step in steps)


def _chosen() -> list[str]:
    return [*TESTS, f"--ignore={WITH_SPARK}"]


def main() -> int:
    """Say what is here, and run the tests."""
    here = found()
    told = ", ".join(f"{version} at {place}" for version, place in here.items()) or "none"
    print(f"This is Python {sys.version.split()[0]}; of {' and '.join(VERSIONS)}, found besides: {told}.")
    results = {version: passes(version, place) for version, place in here.items()}
    for version, passed in results.items():
        print(f"Python {version}: {'passed' if passed else 'FAILED'}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
