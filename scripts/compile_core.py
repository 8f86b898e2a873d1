"""Compile the core with mypyc, once for each state of its sources: see pointstamp/compiled.py.

    .venv/bin/python scripts/compile_core.py [FOLDER]

The compiled modules go to this Python's own modules, or to FOLDER. Where they are there already, nothing is
done. Where there is no C compiler, or it fails, that is said in a sentence and is no error: Python runs the
same source.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parent.parent / "src"
CONFIG: Final = """\
[mypy]
follow_imports = skip
ignore_missing_imports = true
[mypy-{seen}]
follow_imports = silent
"""
"""What the compiler does not see is used as Python uses it, and can change without it."""


def main() -> int:
    """Compile, unless it is done; say where that is not possible."""
    given = sys.argv[1:]
    # The core that is to be replaced is not to be in use.
    os.environ["POINTSTAMP_CORE"] = "python"
    sys.path.insert(0, str(SOURCE))
    from pointstamp.compiled import FOLDER, digest_of_core

    here = Path(sysconfig.get_path("platlib")) / FOLDER / digest_of_core()
    place = Path(given[0]) / FOLDER / here.name if given else here
    if any(here.rglob(f"*{EXTENSION_SUFFIXES[0]}")):
        if place != here:
            shutil.copytree(here, place)
        return 0
    missing = _missing()
    if missing:
        print(f"setup: the core stays Python, which is slower and does the same: there is {missing}.")
        return 0
    print("setup: compiling the core, which takes a minute", file=sys.stderr, flush=True)
    try:
        with tempfile.TemporaryDirectory() as build:
            _build(Path(build))
            _put_in_place(Path(build) / "lib", place)
    except Exception as error:
        print(f"setup: the core stays Python, which is slower and does the same: compiling failed. {error}")
    return 0


def _missing() -> str | None:
    """What is not there to compile with; None where everything is."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"no C compiler, '{compiler}'"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "no Python.h, which a package like python3-dev brings"
    return None


def _build(folder: Path) -> None:
    """Compile into ``lib`` of a folder; in a process of its own, which the compiler may end."""
    done = subprocess.run(
        [sys.executable, __file__, "--in", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError((done.stdout + done.stderr)[-2_000:])


def _compile_in(folder: Path) -> None:
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    from pointstamp.compiled import CORE, SEEN

    seen = [f"pointstamp.{name.removesuffix('.py')}{'' if name.endswith('.py') else '.*'}" for name in SEEN]
    config = folder / "mypy.ini"
    config.write_text(CONFIG.format(seen=",".join(seen)))
    os.chdir(SOURCE)  # errors of compiled modules name their files from here
    extensions = mypycify(
        [
            f"--config-file={config}",
            f"--cache-dir={folder / 'cache'}",
            *(f"pointstamp/{each}" for each in CORE),
        ],
        opt_level="2",
        debug_level="0",
        target_dir=str(folder / "c"),
    )
    command = build_ext(Distribution({"name": "pointstamp-core", "ext_modules": extensions}))
    command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "temp")
    command.ensure_finalized()
    command.run()


def _put_in_place(built: Path, place: Path) -> None:
    """Put what was built where it is looked for, whole or not at all, and take away what was there before."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, ignore_cleanup_errors=True) as beside:
        whole = Path(beside) / "whole"
        shutil.copytree(built, whole)
        if not place.exists():
            whole.rename(place)
    for other in place.parent.iterdir():
        if other != place:
            shutil.rmtree(other, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in"]:
        os.environ["POINTSTAMP_CORE"] = "python"
        sys.path.insert(0, str(SOURCE))
        _compile_in(Path(sys.argv[2]))
        sys.exit(0)
    sys.exit(main())
