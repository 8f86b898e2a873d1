"""The tests of the kernels once more, watched by AddressSanitizer and UndefinedBehaviorSanitizer.

Only this can find a read or a write beside an array that changes no answer, and arithmetic that C leaves
undefined.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TESTS = [f"tests/arrow/test_{name}.py" for name in ("batches", "columns", "hashing", "index", "runs")]
TESTS.append("tests/incremental/test_sums.py")


def _library(name: str) -> str | None:
    """A library of the compiler's; None where it has none, as on macOS."""
    command = [shutil.which("cc") or "cc", f"-print-file-name={name}"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    found = Path(said.stdout.strip())
    return str(found.resolve()) if found.is_absolute() else None


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which Python runs kernels that are watched."""
    place = tmp_path_factory.mktemp("sanitized")
    libraries = [_library("libasan.so"), _library("libubsan.so")]
    assert all(libraries), "the C compiler has no sanitizers; Debian's gcc brings them"
    script = ROOT / "scripts" / "compile_core.py"
    command = [sys.executable, str(script), "--sanitized", str(place)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    around = {
        **os.environ,
        "PYTHONPATH": str(place),
        "LD_PRELOAD": " ".join(map(str, libraries)),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own, at its end
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",  # so that every object has borders of its own
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    seen = "import pointstamp.arrow.runs as r; print(r.__file__)"
    asked = [sys.executable, "-c", seen]
    found = subprocess.run(asked, env=around, capture_output=True, text=True, timeout=120, check=True).stdout
    assert Path(found.strip()).is_relative_to(place)
    return around


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the sanitizers are loaded as Linux does")
@pytest.mark.parametrize("tests", TESTS)
def test_the_tests_of_the_kernels_pass_under_sanitizers(tests: str, around: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
    done = subprocess.run(
        command, cwd=ROOT, env=around, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6_000:]
