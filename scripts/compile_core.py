"""Compile the kernels with Cython and the core with mypyc, each once for each state of its sources.

    .venv/bin/python scripts/compile_core.py [FOLDER]
    .venv/bin/python scripts/compile_core.py --check-compiler
    .venv/bin/python scripts/compile_core.py --sanitized FOLDER

The compiled modules go to this Python's own modules, or to FOLDER; see pointstamp/compiled.py. Where they are
there already, nothing is done. The compiler is $CC, else Python's own, else that of ``ziglang`` from PyPI if
it is installed. Where there is none, or it fails, nothing works: that is said, and the exit code is 1; with
--check-compiler nothing else is done. POINTSTAMP_CORE=python leaves the core out, and never the kernels.

--sanitized compiles the kernels with AddressSanitizer and UndefinedBehaviorSanitizer.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
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
ADVICE: Final = """\
setup: {problem}
setup: pointstamp needs a C compiler once, to build its kernels. Install one (Debian: apt-get install gcc
setup: python3-dev; macOS: xcode-select --install), name one in CC, or install the one from PyPI:
setup: {python} -m pip install --require-hashes -r requirements/compiler.txt
"""
SANITIZED: Final = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
)


def main(given: Sequence[str]) -> int:
    """Compile, unless it is done; say where that is not possible."""
    if given[:1] == ["--check-compiler"]:
        return 0 if has_compiler() else 1
    if given[:1] == ["--sanitized"]:
        return _made("kernels", Path(given[1]), SANITIZED)
    wanted = ["kernels"] if os.environ.get("POINTSTAMP_CORE") == "python" else ["kernels", "core"]
    # The core that is to be replaced is not to be in use.
    os.environ["POINTSTAMP_CORE"] = "python"
    place = Path(given[0]) if given else None
    return max(_made(what, place) for what in wanted)


def _made(what: str, place: Path | None, flags: Sequence[str] = ()) -> int:
    """Compile the kernels or the core into a folder, or for this Python; the exit code."""
    sys.path.insert(0, str(SOURCE))
    from pointstamp.compiled import FOLDER, folder_of

    here = Path(sysconfig.get_path("platlib")) / FOLDER / folder_of(what)
    target = here if place is None else place / FOLDER / here.name
    if any(here.rglob(f"*{EXTENSION_SUFFIXES[0]}")) and not flags:
        if target != here:
            shutil.copytree(here, target)
        return 0
    compiler = _compiler()
    if compiler is None:
        name = _wanted_compiler()[0]
        print(
            ADVICE.format(problem=f"there is no C compiler '{name}', nor ziglang.", python=sys.executable),
            end="",
        )
        return 1
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        print(
            ADVICE.format(
                problem="there is no Python.h, which a package like python3-dev brings.",
                python=sys.executable,
            ),
            end="",
        )
        return 1
    print(
        f"setup: compiling the {what} with {compiler[0]}, which takes a minute", file=sys.stderr, flush=True
    )
    try:
        with tempfile.TemporaryDirectory() as build:
            _build(what, Path(build), compiler, flags)
            _put_in_place(Path(build) / "lib", target)
    except Exception as error:
        print(ADVICE.format(problem=f"compiling the {what} failed. {error}", python=sys.executable), end="")
        return 1
    return 0


def has_compiler() -> bool:
    """Whether there is a compiler: the system's, or that of ziglang."""
    return _compiler() is not None


def _wanted_compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def _compiler() -> list[str] | None:
    """The command of the compiler: the system's, or that of ziglang; None without any."""
    command = _wanted_compiler()
    if shutil.which(command[0]) is not None:
        return command
    if "CC" not in os.environ and shutil.which("cc") is not None:
        return ["cc"]
    # For every processor of its kind, and not for this one alone: what is made may be sent to other hosts.
    return ["zig"] if find_spec("ziglang") is not None else None


def _build(what: str, folder: Path, compiler: Sequence[str], flags: Sequence[str]) -> None:
    """Compile into ``lib`` of a folder; in a process of its own, which the compiler may end."""
    command = shlex.join(compiler)
    if compiler == ["zig"]:
        script = folder / "zig-cc"
        script.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ziglang cc -mcpu=baseline "$@"\n'
        )
        script.chmod(0o755)
        command = str(script)
    linked = "-bundle -undefined dynamic_lookup" if sys.platform == "darwin" else "-shared"
    around = {**os.environ, "CC": command, "LDSHARED": f"{command} {linked}"}
    done = subprocess.run(
        [sys.executable, __file__, "--in", what, str(folder), *flags],
        env=around,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError((done.stdout + done.stderr)[-2_000:])


def _compile_in(what: str, folder: Path, flags: Sequence[str]) -> None:
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    os.chdir(SOURCE)  # errors of compiled modules name their files from here
    extensions = _core_extensions(folder) if what == "core" else _kernel_extensions(folder, flags)
    command = build_ext(Distribution({"name": f"pointstamp-{what}", "ext_modules": extensions}))
    command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "temp")
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()


def _core_extensions(folder: Path) -> list[object]:
    from mypyc.build import mypycify

    from pointstamp.compiled import CORE, SEEN

    seen = [f"pointstamp.{name.removesuffix('.py')}{'' if name.endswith('.py') else '.*'}" for name in SEEN]
    config = folder / "mypy.ini"
    config.write_text(CONFIG.format(seen=",".join(seen)))
    made: list[object] = mypycify(
        [
            f"--config-file={config}",
            f"--cache-dir={folder / 'cache'}",
            *(f"pointstamp/{each}" for each in CORE),
        ],
        opt_level="2",
        debug_level="0",
        target_dir=str(folder / "c"),
    )
    return made


def _kernel_extensions(folder: Path, flags: Sequence[str]) -> list[object]:
    import numpy as np
    from Cython.Build import cythonize
    from setuptools import Extension

    from pointstamp.compiled import KERNELS

    own = [
        Extension(
            f"pointstamp.arrow.{name}",
            [f"pointstamp/arrow/{name}.pyx"],
            include_dirs=[np.get_include()],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
            extra_compile_args=["-O1", "-g", *flags] if flags else ["-O3", "-g0"],
            extra_link_args=list(flags),
        )
        for name in KERNELS
    ]
    built = cythonize(own, build_dir=str(folder / "c"), quiet=True)  # type: ignore[no-untyped-call]
    made: list[object] = built
    return made


def _put_in_place(built: Path, place: Path) -> None:
    """Put what was built where it is looked for, whole or not at all, and take away what was there before."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, ignore_cleanup_errors=True) as beside:
        whole = Path(beside) / "whole"
        shutil.copytree(built, whole)
        if not place.exists():
            whole.rename(place)
    stays = {"core-", "kernels-"} - {f"{place.name.partition('-')[0]}-"}
    for other in place.parent.iterdir():
        if other != place and not other.name.startswith(tuple(stays)):
            shutil.rmtree(other, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in"]:
        os.environ["POINTSTAMP_CORE"] = "python"
        sys.path.insert(0, str(SOURCE))
        _compile_in(sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
        sys.exit(0)
    sys.exit(main(sys.argv[1:]))
