"""With POINTSTAMP_WHEEL=compiled, puts the compiled core into a wheel; every other one is pure Python."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledCore(BuildHookInterface[Any]):
    """Compiles into a folder of its own, and hands its files to the wheel."""

    def dependencies(self) -> list[str]:
        """What compiles, asked for only where something is to be compiled."""
        return ["mypy>=1.15", "setuptools>=75"] if _is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say that the wheel is for this Python and machine alone."""
        if version == "editable" or not _is_wanted():
            return
        self._built = tempfile.TemporaryDirectory()
        script = Path(self.root) / "scripts" / "compile_core.py"
        subprocess.run([sys.executable, str(script), self._built.name], check=True)
        compiled = sorted(file for file in Path(self._built.name).rglob("*") if file.is_file())
        if not compiled:
            raise RuntimeError(
                "POINTSTAMP_WHEEL=compiled asks for a wheel with the compiled core; it was not compiled."
            )
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for file in compiled:
            build_data["force_include"][str(file)] = file.relative_to(self._built.name).as_posix()


def _is_wanted() -> bool:
    return os.environ.get("POINTSTAMP_WHEEL") == "compiled"
