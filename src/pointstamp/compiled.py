"""Compiled code: the core by mypyc and the kernels by Cython.

``make setup`` compiles both, and a wheel brings both. What was compiled lies outside the source, in
``pointstamp_compiled`` on the path of modules, in folders that are named after the digests of the sources,
and is taken only while they have that digest. So an edit is never hidden by what was compiled before it.

Of the core, the modules of ``CORE``, Python can run the source, too: it does so after an edit, until that is
compiled. The variable ``POINTSTAMP_CORE`` of the environment decides otherwise: ``python`` runs the source in
any case, ``compiled`` refuses to continue without the compiled modules. The kernels, ``KERNELS`` in the
package ``arrow``, have no other form: without them what moves rows cannot be imported, and says why.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

from pointstamp.errors import UsageError

CORE: Final = (
    *("order/frontier.py", "order/multiset.py"),
    *("progress/direct.py", "progress/loops.py", "progress/tracker.py", "progress/view.py"),
    *("operators/authority.py", "operators/notify.py", "operators/portstate.py"),
    *("worker/instance.py", "worker/input.py", "worker/worker.py"),
)
"""The modules that are compiled: those in which a flow that moves few rows spends its time.

What a user calls is not among them: it would refuse a wrong argument before we can say what is wrong. What
mypyc compiles well is not all that Python has, and Python 3.11 crashes where these modules do not keep four
rules, which tests/test_compiled.py checks: no class has a base; no function is made inside of another, nor
as a lambda; none yields; and none is what a weak reference calls when its object is gone. The first two get a
slot for weak references, and free what stands in it as if they owned it (mypyc/mypyc#1102).
"""

SEEN: Final = ("errors.py", "order", "topology", "progress", "operators", "worker")
"""Modules, and packages as a whole, whose types and constants the compiler looks up for the core."""

KERNELS: Final = ("batches", "columns", "hashing", "runs", "slots", "sums")
"""The modules of the package ``arrow`` that are compiled."""

FOLDER: Final = "pointstamp_compiled"
VARIABLE: Final = "POINTSTAMP_CORE"
SOURCE: Final = Path(__file__).parent


def folder_of(what: str, source: Path = SOURCE) -> str:
    """The name of the folder with the compiled ``core`` or ``kernels`` of these sources."""
    return f"{what}-{digest_of_core(source) if what == 'core' else digest_of_kernels(source)}"


def digest_of_kernels(source: Path = SOURCE) -> str:
    """The digest of the sources of the kernels."""
    place = source / "arrow"
    return _digest(repr(KERNELS), [*place.glob("*.pyx"), *place.glob("*.pxd")], source)


def digest_of_core(source: Path = SOURCE) -> str:
    """The digest of everything that decides what the compiled modules of the core do."""
    files = {source / name for name in CORE}
    for name in SEEN:
        place = source / name
        files.update(place.glob("*.py") if place.is_dir() else (place,))
    return _digest(repr(CORE), files, source)


def _digest(names: str, files: Iterable[Path], source: Path) -> str:
    digest = sha256(names.encode())
    for file in sorted(files):
        digest.update(f"{file.relative_to(source).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:20]


class CoreFinder:
    """Finds the modules of the core in a folder of compiled ones; immutable."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The compiled module of this name; None for every other one."""
        file = self._files.get(fullname)
        if file is None:
            return None
        return spec_from_file_location(fullname, file, loader=ExtensionFileLoader(fullname, str(file)))


class KernelFinder:
    """Finds the kernels, compiled or not at all; reads their sources when it is first asked."""

    def __init__(self) -> None:
        self._names = {f"pointstamp.arrow.{name}" for name in KERNELS}
        self._files: dict[str, Path] | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The kernel of this name; None for every other module, and UsageError for one that is not there."""
        if fullname not in self._names:
            return None
        if self._files is None:
            self._files = _compiled_files("kernels")
        file = self._files.get(fullname)
        if file is None:
            raise UsageError(
                f"the kernels were not compiled for these sources and Python {sys.version.split()[0]} on "
                f"{sys.platform}, of which '{fullname}' is one. Run `make setup` in a clone, or install a "
                "wheel; to executors of Spark send an environment with pointstamp installed, not a zip."
            )
        return spec_from_file_location(fullname, file, loader=ExtensionFileLoader(fullname, str(file)))


def has_kernels() -> bool:
    """Return whether the kernels are compiled for these sources."""
    return bool(_compiled_files("kernels"))


def is_compiled() -> bool:
    """Return whether this process runs the compiled core."""
    return any(isinstance(finder, CoreFinder) for finder in sys.meta_path)


def choose_core() -> None:
    """Let the core be imported compiled, where it is compiled; called once, before all other imports."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "python", "compiled"):
        raise UsageError(
            f"the environment has {VARIABLE}={wanted}; it is 'python' or 'compiled', or not there at all."
        )
    if not any(isinstance(finder, KernelFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, KernelFinder())
    files = {} if wanted == "python" or is_compiled() else _compiled_files("core")
    if files:
        sys.meta_path.insert(0, CoreFinder(files))
    elif wanted == "compiled" and not is_compiled():
        raise UsageError(
            f"the environment has {VARIABLE}=compiled, but the core was not compiled for these sources and "
            "this Python. Run scripts/compile_core.py, or unset the variable."
        )


def _compiled_files(what: str) -> dict[str, Path]:
    """The compiled modules by name; none where they are not there, or were compiled from other sources."""
    place = PathFinder.find_spec(FOLDER)
    if place is None or place.submodule_search_locations is None:
        return {}
    suffix = EXTENSION_SUFFIXES[0]
    try:
        name = folder_of(what)
    except OSError:  # the sources are in an archive
        return {}
    for location in place.submodule_search_locations:
        folder = Path(location) / name
        found = {
            file.relative_to(folder).as_posix().removesuffix(suffix).replace("/", "."): file
            for file in folder.rglob(f"*{suffix}")
        }
        if found:
            return found
    return {}
