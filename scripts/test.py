"""Run the tests in some processes side by side, because each of them waits for others much of its time.

One runs the tests that start Spark, one those of the parts by themselves, one worlds, models and views, one
tables and graphs, one queries, and one all others. Where the core was compiled, all these run it so. One
process more then runs with the core as Python what needs its source, and the tests of its own packages once
more (conftest.py says which they are).

The long tests are left out; with ``--long`` it is them that run, in four processes, and properties with
more examples besides; then the quick tests of ``IN_ZONES`` once more in other time zones and
another locale. With ``--coverage`` the tests of the parts run alone, and which lines of each package
they run is told at the end; that takes them 1.7 times as long. The exit code is 0 if all have passed.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PARTS: Final = (
    *("arrow", "expressions", "operators", "state", "reduce", "flow", "worker"),
    *("order", "topology", "progress", "storage", "connectors", "show"),
)
"""The packages whose tests need no other package, by the names of their folders."""
PYTEST: Final = ["-m", "pytest", "-p", "no:cacheprovider", "--durations=15", "--durations-min=4"]


TABLES: Final = ("tests/incremental", "tests/sql_views")
"""Where thousands of random queries are."""
TABLES_AND_GRAPHS: Final = ("tests/incremental", "tests/graphs")
"""What is made of tables, without SQL."""
MODELS: Final = ("tests/simulate", "tests/verify", "tests/sql_views", "models/tests")
"""What works and never waits, besides the parts."""
QUERIES: Final = ("tests/query", "tests/journal", "tests/torture")
"""What waits most of its time: for processes that start, end and are killed."""
AS_PYTHON: Final = "(as_python or both_ways) and not spark and not long"
"""What runs with the core as Python where all others run it compiled."""
MORE: Final = {
    "long": ("order", "topology", "progress"),
    "more": ("arrow", "reduce", "show"),
}
"""The profiles of hypothesis, and the packages whose properties are tried with their many examples."""
IN_ZONES: Final = tuple(
    f"tests/{part}" for part in ("expressions", "sql_views", "arrow", "connectors", "incremental")
)
"""What could depend on the time zone and the locale of the machine, and must not."""
ELSEWHERE: Final = (
    {"TZ": "America/St_Johns", "LC_ALL": "POSIX"},
    {"TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8"},
)
"""Environments of other machines: their offsets are no whole hours, and POSIX knows ASCII alone."""


def main() -> int:
    """Run all, and say how they ended."""
    # Hundreds of processes are started, and each would compile the same modules for itself.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if "--coverage" in sys.argv[1:]:
        return _coverage()
    return _long() if "--long" in sys.argv[1:] else _short()


def _long() -> int:
    with tempfile.TemporaryDirectory() as folder:
        apart = [f"--ignore={place}" for place in ("tests/simulate", *TABLES)]
        runs = {
            "with Spark": [*PYTEST, "-m", "spark and long"],
            "models, runs": [*PYTEST, "-m", "not spark and long", *apart],
            "worlds": [*PYTEST, "-m", "not spark and long", "tests/simulate"],
            "tables": [*PYTEST, "-m", "not spark and long", *TABLES],
        }
        codes = _run_both_ways(runs, [*PYTEST, "-m", "as_python and not spark and long"], Path(folder))
    for profile, packages in MORE.items():
        properties = [f"tests/{package}" for package in packages]
        command = [*PYTEST, f"--hypothesis-profile={profile}", "-m", "not spark and not long", *properties]
        codes[f"examples of {profile}"] = subprocess.call([sys.executable, *command], cwd=ROOT)
    for changes in ELSEWHERE:
        command = [*PYTEST, "-m", "not spark and not long", *IN_ZONES]
        around = {**os.environ, **changes}
        codes[f"in {changes['TZ']}"] = subprocess.call([sys.executable, *command], cwd=ROOT, env=around)
    return _told(codes)


def _short() -> int:
    with tempfile.TemporaryDirectory() as folder:
        parts = [f"tests/{part}" for part in PARTS]
        elsewhere = (*parts, *MODELS, *TABLES_AND_GRAPHS, *QUERIES)
        apart = ["tests", "src", "models/src", *(f"--ignore={place}" for place in elsewhere)]
        runs = {
            "with Spark": [*PYTEST, "-m", "spark and not long"],
            "runs": [*PYTEST, "-m", "not spark and not long", *apart],
            "queries": [*PYTEST, "-m", "not spark and not long", *QUERIES],
            "worlds, models, views": [*PYTEST, "-m", "not spark and not long", *MODELS],
            "tables, graphs": [*PYTEST, "-m", "not spark and not long", *TABLES_AND_GRAPHS],
            "parts": [*PYTEST, "-m", "not spark and not long", *parts],
        }
        codes = _run_both_ways(runs, [*PYTEST, "-m", AS_PYTHON], Path(folder))
    return _told(codes)


def _run_both_ways(runs: dict[str, list[str]], as_python: list[str], folder: Path) -> dict[str, int]:
    """Run these with the compiled core, and what needs its source besides; all as Python without one."""
    asked = {**os.environ, "POINTSTAMP_CORE": "compiled"}
    there = subprocess.run([sys.executable, "-c", "import pointstamp"], env=asked, stderr=subprocess.DEVNULL)
    if there.returncode != 0:
        print("the core is not compiled here: all tests run it as Python", flush=True)
        return _run_all(runs, folder, dict.fromkeys(runs, "python"))
    both = {"core as Python": as_python, **runs}
    return _run_all(both, folder, {**dict.fromkeys(runs, "compiled"), "core as Python": "python"})


def _coverage() -> int:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "coverage"
        measured = ["-m", "coverage", "run", f"--data-file={data}", "--source=src/pointstamp"]
        parts = [f"tests/{part}" for part in PARTS]
        command = [*measured, *PYTEST, "-m", "not spark and not long", *parts]
        code = subprocess.call([sys.executable, *command], cwd=ROOT)
        _show_coverage(data)
    return code


def _told(codes: dict[str, int]) -> int:
    print(", ".join(f"{name}: {_words(code)}" for name, code in codes.items()))
    return 1 if any(codes.values()) else 0


def _run_all(runs: dict[str, list[str]], folder: Path, cores: dict[str, str]) -> dict[str, int]:
    """Run the last one here and the others beside it; what they have printed is printed after it.

    ``cores`` says for each whether it has the compiled core or that of the source.
    """
    around = {name: {**os.environ, "POINTSTAMP_CORE": core} for name, core in cores.items()}
    said = {name: (folder / f"{number}.txt").open("w+") for number, name in enumerate(runs)}
    *beside, here = runs
    started = {
        name: subprocess.Popen(
            [sys.executable, *runs[name]], cwd=ROOT, stdout=said[name], stderr=said[name], env=around[name]
        )
        for name in beside
    }
    try:
        codes = {here: subprocess.call([sys.executable, *runs[here]], cwd=ROOT, env=around[here])}
        print(f"{here}: {_words(codes[here])}; {' and '.join(beside)} follow", flush=True)
        for name, process in started.items():
            codes[name] = process.wait()
            said[name].seek(0)
            print(said[name].read(), end="", flush=True)
    finally:
        for process in started.values():
            process.terminate()  # who has interrupted this one waits for nobody
    return codes


def _show_coverage(data: Path) -> None:
    report = data.with_suffix(".json")
    command = [sys.executable, "-m", "coverage", "json", "--quiet", f"--data-file={data}", "-o", str(report)]
    if subprocess.call(command, cwd=ROOT) != 0:
        return
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for file, found in json.loads(report.read_text())["files"].items():
        parts = Path(file).parts
        package = parts[2] if len(parts) > 3 else "pointstamp"  # src/pointstamp/<package>/<file>
        counts[package][0] += found["summary"]["covered_lines"]
        counts[package][1] += found["summary"]["num_statements"]
    measured = {package: counts[package] for package in PARTS if package in counts}
    shares = [f"{package} {100 * ran // of} %" for package, (ran, of) in measured.items() if of]
    ran, of = (sum(each[index] for each in measured.values()) for index in (0, 1))
    print(
        f"coverage of the parts by their own tests: {100 * ran / max(of, 1):.1f} % of {of:,} statements; "
        f"{', '.join(shares)}"
    )


def _words(code: int) -> str:
    return "passed" if code == 0 else f"FAILED (exit code {code})"


if __name__ == "__main__":
    sys.exit(main())
