"""Say which other versions of Python are here, on PATH and among pyenv's: ``python scripts/pythons.py``.

Each of them can run the tests, in an environment that is made with it: ``make test-resolution`` shows how.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

VERSIONS: Final = ("3.12", "3.13")
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


def main() -> int:
    """Say what is here."""
    here = found()
    told = ", ".join(f"{version} at {place}" for version, place in here.items()) or "none"
    print(f"This is Python {sys.version.split()[0]}; of {' and '.join(VERSIONS)}, found besides: {told}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
