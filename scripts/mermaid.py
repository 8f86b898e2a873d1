"""Get Mermaid, which draws the diagrams of the site: ``python scripts/mermaid.py`` prints its path.

It comes with npm as one package, whose checksum is below, and is kept in ``.servers/mermaid``. The site
includes
it, so that a page asks no other host.
"""

import hashlib
import shutil
import subprocess
import tarfile
from base64 import b64decode
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = "mermaid@11.17.2"
SHA512: Final = "V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg=="
SECONDS_MAX: Final = 300


def mermaid() -> Path:
    """The script, which is downloaded if it is not there; SystemExit says why it cannot be."""
    folder = ROOT / ".servers" / "mermaid"
    script = folder / "mermaid.min.js"
    if script.exists():
        return script
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("'mermaid' is downloaded with npm, which was not found. Install it.")
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", PACKAGE, "--silent"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    if done.returncode:
        raise SystemExit(f"npm could not download '{PACKAGE}': {done.stderr[-2000:]}")
    archive = folder / done.stdout.split()[-1]
    if hashlib.sha512(archive.read_bytes()).digest() != b64decode(SHA512):
        archive.unlink()
        raise SystemExit(f"'{PACKAGE}' has another checksum than expected.")
    with tarfile.open(archive) as files:
        member = files.extractfile("package/dist/mermaid.min.js")
        if member is None:
            raise SystemExit(f"'{PACKAGE}' has no dist/mermaid.min.js.")
        unfinished = folder / "mermaid.part"
        unfinished.write_bytes(member.read())
    unfinished.rename(script)
    archive.unlink()
    return script


if __name__ == "__main__":
    print(mermaid())
