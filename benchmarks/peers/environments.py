"""Where the peers come from: the Rust program is built by cargo, Python's are installed by uv from PyPI.

None is a dependency of this project. Each gets a folder of its own that git does not keep; what is there
already is used again. Where one cannot be had, ``PeerMissingError`` says why in a sentence.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
RUST: Final = Path(__file__).parent / "timely"
PYTHON_PEERS: Final = {"bytewax": "bytewax==0.21.1", "pathway": "pathway==0.33.0"}
BUILD_SECONDS_MAX: Final = 3_600


class PeerMissingError(Exception):
    """A peer cannot be had here; its text says why."""


def rust_program() -> Path:
    """The program with timely's cases, built with all optimizations."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise PeerMissingError("there is no cargo on the path, which builds it")
    _done([cargo, "build", "--release", "--quiet", "--manifest-path", str(RUST / "Cargo.toml")])
    folder = Path(os.environ.get("CARGO_TARGET_DIR", RUST / "target"))
    return folder / "release" / "peers"


def python_with(peer: str) -> Path:
    """The interpreter of an environment that has the peer, in ``.venv-PEER`` of this project."""
    python = ROOT / f".venv-{peer}" / "bin" / "python"
    if not _imports(python, peer):
        uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
        if not Path(uv).exists():
            raise PeerMissingError("there is no uv, which installs it; `make setup` gets one")
        if not python.exists():
            _done([uv, "venv", "--quiet", "--python", sys.executable, str(python.parent.parent)])
        _done([uv, "pip", "install", "--quiet", "--python", str(python), PYTHON_PEERS[peer]])
    if not _imports(python, peer):
        raise PeerMissingError(f"{python} cannot import it")
    return python


def _imports(python: Path, module: str) -> bool:
    """Whether an interpreter is there and knows a module."""
    code = f"import sys; from importlib.util import find_spec; sys.exit(find_spec({module!r}) is None)"
    command = [str(python), "-c", code]
    return python.exists() and not subprocess.run(command, check=False).returncode  # noqa: S603 - our own


def _done(command: Sequence[str]) -> None:
    """Run a command to its end; PeerMissingError with its last line if it fails."""
    what = f"`{Path(command[0]).name} {command[1]}`"
    try:
        ran = subprocess.run(  # noqa: S603 - commands of our own
            command, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        raise PeerMissingError(f"{what} did not end in {BUILD_SECONDS_MAX} s") from None
    if ran.returncode:
        said = ran.stderr.strip().splitlines() or ["it did not say why"]
        raise PeerMissingError(f"{what} failed: {said[-1]}")
