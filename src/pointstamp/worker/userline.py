"""The line of user code in a traceback.

A user's function calls libraries, and what they raise is raised inside them: the innermost frame is Arrow's.
So the line that is shown is the innermost one that is neither ours, nor of an installed package, nor of
Python's own library. Where there is none, the user's code is itself an installed package, and the line is the
one that we have called.
"""

import os
import sysconfig
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from pointstamp.compiled import CORE, SOURCE

# Compiled modules name their source without the folder that holds it.
_COMPILED: Final = frozenset(f"pointstamp/{name}" for name in CORE)
_OURS: Final = os.path.join(SOURCE, "")
_INSTALLED: Final = ("site-packages", "dist-packages")
# Names in angle brackets that no user has typed; others are cells, prompts and strings of theirs.
_GENERATED: Final = ("<frozen ", "<__array_function__ ")


def user_line(error: BaseException) -> traceback.FrameSummary | None:
    """Return the innermost line of user code in an error's traceback; None if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if _is_theirs(frame.filename)]
    return theirs[-1] if theirs else _called_by_us(frames)


def line_words(line: traceback.FrameSummary) -> str:
    """A line of code as text: its file, number and function, and what it says where that is known."""
    said = f": {line.line}" if line.line else ""
    return f"{line.filename}:{line.lineno}, in {line.name}{said}"


def _called_by_us(frames: Sequence[traceback.FrameSummary]) -> traceback.FrameSummary | None:
    ours = [number for number, frame in enumerate(frames) if _is_ours(frame.filename)]
    called = frames[ours[-1] + 1 :] if ours else frames
    return called[0] if called else (frames[-1] if frames else None)


def _is_ours(filename: str) -> bool:
    return filename.startswith(_OURS) or filename in _COMPILED


def _is_theirs(filename: str) -> bool:
    if filename.startswith("<"):
        return not filename.startswith(_GENERATED)
    # Compiled libraries name sources that are not here: pyarrow/error.pxi.
    if not filename.endswith(".py") or _is_ours(filename):
        return False
    is_installed = any(part in _INSTALLED for part in Path(filename).parts)
    return not is_installed and not filename.startswith(_standard_library())


@cache
def _standard_library() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({os.path.join(paths[name], "") for name in ("stdlib", "platstdlib")})
