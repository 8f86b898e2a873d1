"""The core as machine code: the modules of ``CORE``, compiled by mypyc from the source that stands here.

``make setup`` compiles them where there is a C compiler, and a wheel may bring them; without either, Python
runs the source. What was compiled lies outside the source, in ``pointstamp_compiled`` on the path of modules,
in a folder that is named after the digest of the sources, and is taken only while they have that digest. So
an edit is never hidden by what was compiled before it: until it is compiled again, Python runs the source.

The variable ``POINTSTAMP_CORE`` of the environment decides otherwise: ``python`` runs the source in any case,
``compiled`` refuses to continue without the compiled modules.
"""

import os
import sys
from collections.abc import Mapping, Sequence
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
    *("worker/inbox.py", "worker/input.py", "worker/instance.py", "worker/worker.py"),
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

FOLDER: Final = "pointstamp_compiled"
VARIABLE: Final = "POINTSTAMP_CORE"
SOURCE: Final = Path(__file__).parent


def digest_of_core(source: Path = SOURCE) -> str:
    """The digest of everything that decides what the compiled modules do."""
    files = {source / name for name in CORE}
    for name in SEEN:
        place = source / name
        files.update(place.glob("*.py") if place.is_dir() else (place,))
    digest = sha256(repr(CORE).encode())
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


def is_compiled() -> bool:
    """Whether this process runs the compiled core."""
    return any(isinstance(finder, CoreFinder) for finder in sys.meta_path)


def choose_core() -> None:
    """Let the core be imported compiled, where it is compiled; called once, before all other imports."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "python", "compiled"):
        raise UsageError(
            f"the environment has {VARIABLE}={wanted}; it is 'python' or 'compiled', or not there at all."
        )
    files = {} if wanted == "python" or is_compiled() else _compiled_files()
    if files:
        sys.meta_path.insert(0, CoreFinder(files))
    elif wanted == "compiled" and not is_compiled():
        raise UsageError(
            f"the environment has {VARIABLE}=compiled, but the core was not compiled for these sources and "
            "this Python. Run scripts/compile_core.py, or unset the variable."
        )


def _compiled_files() -> dict[str, Path]:
    """The compiled modules by name; none where they are not there, or were compiled from other sources."""
    place = PathFinder.find_spec(FOLDER)
    if place is None or place.submodule_search_locations is None:
        return {}
    suffix = EXTENSION_SUFFIXES[0]
    try:
        digest = digest_of_core()
    except OSError:  # the sources are in an archive
        return {}
    for location in place.submodule_search_locations:
        folder = Path(location) / digest
        found = {
            file.relative_to(folder).as_posix().removesuffix(suffix).replace("/", "."): file
            for file in folder.rglob(f"*{suffix}")
        }
        if found:
            return found
    return {}
