"""Get servers that long tests start, by name and version: ``python scripts/servers.py azurite``.

Azurite, which speaks as Azure's blobs do, comes with npm, by ``requirements/servers/azurite``, where each
package has its checksum. fake-gcs-server, which speaks as Google's storage does, is built with Go, whose own
database of checksums is asked; no package of PyPI, npm, Maven or Debian has it. They are kept in
``.servers/``.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SECONDS_MAX: Final = 3_600  # Go builds some hundred packages
GCS: Final = "github.com/fsouza/fake-gcs-server@v1.56.0"
TOOLS: Final = {"azurite": "npm", "fake-gcs-server": "go"}


def server(name: str) -> Path:
    """The program of a server, which is got if it is not there; SystemExit says why not."""
    folder = ROOT / ".servers" / name
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / ("node_modules/.bin/azurite-blob" if name == "azurite" else name)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes of tests may want it at once
        if not program.exists():
            _get(name, folder)
    return program


def _get(name: str, folder: Path) -> None:
    tool = shutil.which(TOOLS[name])
    if tool is None:
        raise SystemExit(f"'{name}' is got with {TOOLS[name]}, which was not found. Install it.")
    if name == "azurite":
        for file in (ROOT / "requirements/servers/azurite").iterdir():
            shutil.copy(file, folder)
        command = [tool, "ci", "--no-audit", "--no-fund"]
    else:
        command = [tool, "install", GCS]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "GOBIN": str(folder)},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    if done.returncode:
        raise SystemExit(f"{TOOLS[name]} could not get '{name}': {done.stderr[-2000:]}")


if __name__ == "__main__":
    print(server(sys.argv[1]))
