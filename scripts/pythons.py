"""Run a bounded set of tests with the other versions of Python that are here: ``python scripts/pythons.py``.

It looks for Python 3.12 and 3.13 on PATH and among pyenv's, says which it has found, makes an environment of
the locked dependencies for each (``.venv-3.13``), and runs the tests of the parts and of queries there,
without Spark. With ``--list`` it only says what is there. The exit code is 0 if all have passed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
VERSIONS: Final = ("3.12", "3.13")
TESTS: Final = (
    *("rows", "expressions", "keyed", "operators", "state", "reduce", "flow", "worker", "order", "topology"),
    *("progress", "storage", "sources", "journal", "mesh", "query"),
)
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
    uv = shutil.which("uv") or str(ROOT / ".uv/bin/uv")
    folder = ROOT / f".venv-{version}"
    python = folder / "bin" / "python"
    into = ["--quiet", "--python", str(python)]
    own = ["--no-deps", "--no-build-isolation", "--editable", ".", "--editable", "models"]
    only = "not spark and not kafka and not browser and not long"
    steps = [
        *([] if python.exists() else [[uv, "venv", "--quiet", "--python", str(interpreter), str(folder)]]),
        [uv, "pip", "sync", *into, "--require-hashes", "requirements/dev.txt"],
        [uv, "pip", "install", *into, *own],
        [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", only, *_folders()],
    ]
    return all(subprocess.call(step, cwd=ROOT) == 0 for step in steps)


def _folders() -> list[str]:
    return [f"tests/{name}" for name in TESTS]


def main() -> int:
    """Say what is here, and run the tests."""
    here = found()
    told = ", ".join(f"{version} at {place}" for version, place in here.items()) or "none"
    print(f"This is Python {sys.version.split()[0]}; of {' and '.join(VERSIONS)}, found besides: {told}.")
    if "--list" in sys.argv[1:]:
        return 0
    results = {version: passes(version, place) for version, place in here.items()}
    print(", ".join(f"Python {version}: {'passed' if ok else 'FAILED'}" for version, ok in results.items()))
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
