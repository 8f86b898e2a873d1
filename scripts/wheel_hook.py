"""Puts the compiled kernels and the compiled core into every wheel, but not into an editable install."""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Compiled(BuildHookInterface[Any]):
    """Compiles into a folder of its own, and hands its files to the wheel."""

    def dependencies(self) -> list[str]:
        """What compiles: with a compiler of PyPI where the system has none."""
        needed = ["mypy>=1.15", "setuptools>=75", "cython>=3.1", "numpy>=2.0"]
        return needed if _script(Path(self.root)).has_compiler() else [*needed, "ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say that the wheel is for this Python and machine alone."""
        if version == "editable":
            return
        self._built = tempfile.TemporaryDirectory()
        command = [sys.executable, str(Path(self.root) / "scripts" / "compile_core.py"), self._built.name]
        around = {name: value for name, value in os.environ.items() if name != "POINTSTAMP_CORE"}
        done = subprocess.run(command, env=around, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the wheel cannot be made without its compiled modules.\n{done.stdout}")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for file in sorted(Path(self._built.name).rglob("*")):
            if file.is_file():
                build_data["force_include"][str(file)] = file.relative_to(self._built.name).as_posix()


def _script(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("compile_core", root / "scripts" / "compile_core.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script
